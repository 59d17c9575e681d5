// Kernels on a CPU, for tests: the threads of a block take turns in one thread of the system, each
// with a stack of its own, and wait for each other where the kernel says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace headrace::gpu::grid {

struct Place {
  uint32_t thread, threads, block, layer, layers;
};

// Of the thread that is running.
[[nodiscard]] const Place& here() noexcept;
[[nodiscard]] void* shared_memory() noexcept;
void sync_block() noexcept;
// The value that another lane of the warp gives; all lanes that have not ended call it together.
[[nodiscard]] uint32_t exchange(uint32_t value, uint32_t lane) noexcept;

// Blocks one after the other, in each `threads` threads, a multiple of 32. These run in rising
// order up to the first place where they wait, then in falling order, and so on, so that a value
// that is used without waiting for it is often wrong. The shared memory is filled with what nobody
// expects. Aborts where threads wait for each other for ever.
void run(uint32_t blocks, uint32_t layers, uint32_t threads, std::size_t shared_bytes,
         const std::function<void()>& kernel);

}  // namespace headrace::gpu::grid
