// What batches need on their way through a GPU: made when none is free, kept, and used again.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/abstract_device.hpp"
#include "gpu/batch.hpp"
#include "gpu/buffers.hpp"

namespace headrace::gpu {

// Of one batch, from its start to its end.
struct Slot {
  Device::Stream* stream = nullptr;
  PinnedBuffer blob;               // what is copied to the device
  PinnedBuffer status;             // what comes back
  PinnedBuffer staging;            // pictures that the CPU decodes
  bool is_staging_in_use = false;  // by the stream
  DeviceBuffer memory;
  Batch batch;
  std::vector<BatchScratch> scratch;  // of each thread
  std::vector<Verdict> verdicts;
};

// Every call inside a scope of the device, but `device_bytes`.
class Slots {
 public:
  static constexpr std::size_t kMost = 4;

  // Throws std::bad_alloc.
  Slots(Device& device, std::size_t threads);
  // Frees all: none may be in use.
  ~Slots();
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;

  // Waits until one is free where all are in use.
  Result<Slot*> take() noexcept;
  void give_back(Slot& slot) noexcept;

  // Where there is no memory left, that of slots which nobody uses is given up. `out_of_memory`:
  // that of the slot itself is given up, too.
  Status grow_memory(Slot& slot, std::size_t size) noexcept;
  void free_unused() noexcept;

  [[nodiscard]] std::size_t device_bytes() const noexcept { return device_bytes_.load(); }
  // There was a slot in use for most of the time that the last batches took: they cannot come fast
  // enough. Beside training nobody waits for batches, and slots are idle most of the time.
  [[nodiscard]] bool is_busy() noexcept;

 private:
  Result<std::unique_ptr<Slot>> make() noexcept;
  void free_memory(Slot& slot) noexcept;
  void count_batch() noexcept;

  Device& device_;
  const std::size_t threads_;
  std::atomic<std::size_t> device_bytes_{0};
  std::mutex mutex_;  // of what follows
  std::condition_variable has_free_;
  std::vector<std::unique_ptr<Slot>> free_;  // that used last is the last one
  std::size_t in_use_ = 0;
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_use_{};        // when the last slot in use was given back
  Clock::time_point counting_since_{};  // the time of `idle_`
  Clock::duration idle_{};
  std::size_t batches_ = 0;  // in that time
  bool is_busy_ = false;
};

}  // namespace headrace::gpu
