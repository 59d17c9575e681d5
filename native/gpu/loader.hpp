// Batches on a GPU: what ImageLoader does, with the output in the device's memory.
//
// Who calls: any number of threads call `load` at the same time; each blocks until its batch is
// complete, so that any stream may use it then. Several callers overlap: while one batch is
// prepared by the CPU, another is copied and a third decoded. Four batches are under way at most;
// more callers wait. Who closes: the destructor, when no call is under way. On failure: a call that
// failed has left the output in any state, nothing of it is under way any more, and the next call
// may succeed; only a device that has failed for good says so every time. After fork() the child
// cannot use the device: every call fails there, and what the parent made is left as it lies.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "gpu/abstract_device.hpp"
#include "headrace/images/load.hpp"

namespace headrace::gpu {

class GpuLoader {
 public:
  // What is copied to the device at once; a batch that takes more is decoded in parts.
  static constexpr std::size_t kMaxCopyBytes = (std::size_t{1} << 29) - 1;

  // `cpu` decodes what the GPU cannot, and its threads prepare batches. It must live longer.
  static Result<std::unique_ptr<GpuLoader>> create(
      std::unique_ptr<Device> device, ImageLoader& cpu,
      std::size_t max_copy_bytes = kMaxCopyBytes) noexcept;
  ~GpuLoader();
  GpuLoader(const GpuLoader&) = delete;
  GpuLoader& operator=(const GpuLoader&) = delete;

  // True when the GPU can do what is asked for; the answer is the same for every batch of a loader.
  // All else `load` leaves to the CPU.
  [[nodiscard]] static bool is_possible(const LoadOptions& options,
                                        std::span<const StepKind> steps) noexcept;

  // As ImageLoader::load, to the last bit; `out` is memory of the device of the batch's size.
  // `out_of_memory` says how much was needed, and how much is free.
  Status load(ByteSpan base, const LoadBatch& batch, const LoadOptions& options, DevicePointer out,
              std::size_t out_bytes, LoadReport& report) noexcept;

  // Pins memory that pictures lie in, whole pages of it, until the loader is gone: it must stay as
  // long. JPEGs in it are fetched by the device then, which checks their checksums, too; the CPU
  // reads no more of them than their headers. Loaders that pin the same memory share it, and it
  // ends with the last of them. `unsupported`, and nothing changes, where the system does not allow
  // it.
  Status pin(ByteSpan memory) noexcept;
  [[nodiscard]] std::size_t pinned_bytes() const noexcept;

  // Memory of the device, from a pool that reuses it; aligned to 256 bytes. What is released may be
  // given out again at once: no work of the device may use it any more.
  Result<DevicePointer> allocate(std::size_t size) noexcept;
  void release(DevicePointer memory, std::size_t size) noexcept;

  // Held for batches under way; outputs are not counted.
  [[nodiscard]] std::size_t device_bytes() const noexcept;
  // What batches can have: memory that is free, and what the loader holds for them and for outputs.
  // 0 where the device does not tell.
  [[nodiscard]] std::size_t room_bytes() const noexcept;

 private:
  class State;
  explicit GpuLoader(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace headrace::gpu
