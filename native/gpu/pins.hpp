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
  // How many of them one copy can have; all that can be fetched may take several.
  [[nodiscard]] std::size_t copyable(ByteSpan memory) noexcept;
  [[nodiscard]] std::size_t bytes() noexcept;

 private:
  Device& device_;
  using Ranges = std::map<const std::byte*, const std::byte*>;  // from, to
  static std::size_t bytes_in(const Ranges& ranges, ByteSpan memory) noexcept;

  std::mutex mutex_;  // of what follows
  Ranges added_;
  Ranges pieces_;  // of those that lie one behind the other, one
};

}  // namespace headrace::gpu
