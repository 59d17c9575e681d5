// Memory of a device, and pinned memory of the CPU, that stay from batch to batch and only grow.
#pragma once

#include <cstddef>

#include "gpu/abstract_device.hpp"

namespace headrace::gpu {

// Where memory has to grow, this much more is taken, so that it seldom grows again.
[[nodiscard]] constexpr std::size_t with_margin(std::size_t size) noexcept {
  return size + size / 8;
}

// The owner calls `free` in a scope of the device. What was in a buffer is lost when it grows.
class PinnedBuffer {
 public:
  Status grow(Device& device, std::size_t size) noexcept {
    if (memory_.size() >= size) return {};
    free(device);
    const auto memory = device.allocate_pinned(with_margin(size));
    if (!memory.is_ok()) return memory.status();
    memory_ = memory.value();
    return {};
  }
  void free(Device& device) noexcept {
    device.free_pinned(memory_);
    memory_ = {};
  }
  [[nodiscard]] MutableByteSpan bytes() const noexcept { return memory_; }

 private:
  MutableByteSpan memory_;
};

class DeviceBuffer {
 public:
  Status grow(Device& device, std::size_t size) noexcept {
    if (size_ >= size) return {};
    free(device);
    const auto memory = device.allocate(size);
    if (!memory.is_ok()) return memory.status();
    memory_ = memory.value();
    size_ = size;
    return {};
  }
  void free(Device& device) noexcept {
    device.free(memory_);
    memory_ = 0;
    size_ = 0;
  }
  [[nodiscard]] DevicePointer memory() const noexcept { return memory_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

 private:
  DevicePointer memory_ = 0;
  std::size_t size_ = 0;
};

}  // namespace headrace::gpu
