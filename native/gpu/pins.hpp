// Memory of the CPU that the device fetches JPEGs from.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "gpu/abstract_device.hpp"

namespace headrace::gpu {

// Any thread may call, inside a scope of the device.
class Pins {
 public:
  explicit Pins(Device& device) noexcept : device_(device) {}

  // What lies behind what was added before makes one piece with it.
  Status add(ByteSpan memory) noexcept;
  // All of it; nothing may be fetched any more.
  void release() noexcept;

  // How many of the first bytes can be fetched: they were added, or others have pinned them.
  [[nodiscard]] std::size_t fetchable(ByteSpan memory) noexcept;
  [[nodiscard]] std::size_t bytes() noexcept;

 private:
  Device& device_;
  std::mutex mutex_;  // of what follows
  std::vector<ByteSpan> added_;
  std::map<const std::byte*, const std::byte*> pieces_;  // from, to
};

}  // namespace headrace::gpu
