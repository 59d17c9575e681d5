// Memory of the device for outputs: what was released is given out again where the size is the
// same.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "gpu/abstract_device.hpp"

namespace headrace::gpu {

// Every call inside a scope of the device. The owner calls `free_unused` at last.
class OutputPool {
 public:
  // Throws std::bad_alloc: later, nothing here does.
  explicit OutputPool(Device& device);

  Result<DevicePointer> allocate(std::size_t size) noexcept;
  void release(DevicePointer memory, std::size_t size) noexcept;
  // Gives back to the device what nobody uses.
  void free_unused() noexcept;
  // Of the device's memory: what is given out, and what is kept to be given out again.
  [[nodiscard]] std::size_t bytes() noexcept;

 private:
  struct Block {
    DevicePointer memory;
    std::size_t size;
  };
  bool take(std::size_t size, DevicePointer& memory) noexcept;
  Result<DevicePointer> make(std::size_t size) noexcept;

  Device& device_;
  std::mutex mutex_;           // of what follows
  std::vector<Block> unused_;  // that released last is the last one
  std::size_t bytes_ = 0;
};

}  // namespace headrace::gpu
