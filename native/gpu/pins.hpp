// Memory of the CPU that the device fetches JPEGs from.
//
// Loaders of one dataset have the same memory, and the driver pins it only once, for all devices of
// the process. So loaders share what they pin: the first one pins it, and the last one that uses it
// unpins it. Nothing is fetched from memory that another loader alone has pinned, for that may end
// at any time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "gpu/abstract_device.hpp"

namespace headrace::gpu {

// Any thread may call, inside a scope of the device.
class Pins {
 public:
  explicit Pins(std::shared_ptr<Device> device) noexcept : device_(std::move(device)) {}

  // What lies behind what was added before makes one piece with it.
  Status add(ByteSpan memory) noexcept;
  // All of it; nothing may be fetched any more. Also outside of a scope.
  void release() noexcept;

  // How many of the first bytes can be fetched: they were added, or pinned by others than loaders,
  // such as torch, whose memory it is.
  [[nodiscard]] std::size_t fetchable(ByteSpan memory) noexcept;
  // How many of them one copy can have; all that can be fetched may take several.
  [[nodiscard]] std::size_t copyable(ByteSpan memory) noexcept;
  [[nodiscard]] std::size_t bytes() noexcept;

 private:
  const std::shared_ptr<Device> device_;
  using Ranges = std::map<const std::byte*, const std::byte*>;  // from, to
  static std::size_t bytes_in(const Ranges& ranges, ByteSpan memory) noexcept;

  std::mutex mutex_;  // of what follows
  Ranges added_;
  Ranges pieces_;  // of those that lie one behind the other, one
};

}  // namespace headrace::gpu
