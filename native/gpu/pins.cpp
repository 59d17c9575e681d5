#include "gpu/pins.hpp"

#include <algorithm>
#include <iterator>
#include <new>
#include <shared_mutex>

namespace headrace::gpu {
namespace {

// What the loaders of this process have pinned, by its first byte. Every call inside a scope of the
// device that it is given.
class SharedPins {
 public:
  Status add(const std::shared_ptr<Device>& device, ByteSpan memory) noexcept;
  void remove(ByteSpan memory) noexcept;
  [[nodiscard]] std::size_t pinned_by_others(Device& device, ByteSpan memory) noexcept;

 private:
  struct Pin {
    std::size_t size = 0;
    std::size_t users = 0;
    std::shared_ptr<Device> device;  // that has pinned it, and unpins it: there until then
  };

  std::shared_mutex mutex_;  // also while the driver pins
  std::map<const std::byte*, Pin> pins_;
};

Status SharedPins::add(const std::shared_ptr<Device>& device, ByteSpan memory) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    const auto [found, is_new] = pins_.try_emplace(memory.data());
    Pin& pin = found->second;
    if (is_new) {
      const Status status = device->pin(memory);
      if (!status.is_ok()) {
        pins_.erase(found);
        return status;
      }
      pin = {memory.size(), 0, device};
    } else if (pin.size != memory.size() || device->pinned_bytes(memory) != memory.size()) {
      return Status(Code::unsupported,
                    "the memory is pinned already, otherwise than this GPU needs");
    }
    ++pin.users;
    return {};
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory to keep in mind what is pinned");
  }
}

void SharedPins::remove(ByteSpan memory) noexcept {
  std::shared_ptr<Device> device;  // may end here, after the scope and the lock
  const std::lock_guard lock(mutex_);
  const auto found = pins_.find(memory.data());
  if (found == pins_.end() || --found->second.users != 0) return;
  device = std::move(found->second.device);
  pins_.erase(found);
  const DeviceScope scope(*device);
  if (scope.status().is_ok()) device->unpin(memory);
}

// The lock keeps loaders from unpinning between the two questions. While one of them pins, which
// may take long, the answer is 0: then the CPU copies, this once.
std::size_t SharedPins::pinned_by_others(Device& device, ByteSpan memory) noexcept {
  const std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return 0;
  const auto next = pins_.upper_bound(memory.data());
  if (next != pins_.begin()) {
    const auto& [begin, pin] = *std::prev(next);
    if (memory.data() < begin + pin.size) return 0;
  }
  return device.pinned_bytes(memory);
}

// Never destroyed: loaders may end after everything that is static.
SharedPins& shared_pins() noexcept {
  union Forever {
    Forever() noexcept : pins() {}
    ~Forever() {}
    SharedPins pins;
  };
  static Forever forever;
  return forever.pins;
}

}  // namespace

Status Pins::add(ByteSpan memory) noexcept {
  if (memory.empty()) return {};
  const std::byte *const begin = memory.data(), *const end = begin + memory.size();
  {
    const std::lock_guard lock(mutex_);
    const auto found = added_.find(begin);
    if (found != added_.end() && found->second == end) return {};
  }
  Status status = shared_pins().add(device_, memory);
  if (!status.is_ok()) return status;
  try {
    const std::lock_guard lock(mutex_);
    added_.emplace(begin, end);
    const auto next = pieces_.upper_bound(begin);
    if (next != pieces_.begin() && std::prev(next)->second == begin) {
      std::prev(next)->second = end;
    } else {
      pieces_.emplace(begin, end);
    }
    return {};
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    added_.erase(begin);
    shared_pins().remove(memory);
    return Status(Code::out_of_memory, "no memory to keep in mind what is pinned");
  }
}

void Pins::release() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, end] : added_) shared_pins().remove({begin, end});
  added_.clear();
  pieces_.clear();
}

std::size_t Pins::bytes_in(const Ranges& ranges, ByteSpan memory) noexcept {
  const auto next = ranges.upper_bound(memory.data());
  if (next == ranges.begin() || memory.data() >= std::prev(next)->second) return 0;
  const std::ptrdiff_t left = std::prev(next)->second - memory.data();
  return std::min(memory.size(), static_cast<std::size_t>(left));
}

std::size_t Pins::fetchable(ByteSpan memory) noexcept {
  if (memory.empty()) return 0;
  {
    const std::lock_guard lock(mutex_);
    if (const std::size_t found = bytes_in(pieces_, memory); found != 0) return found;
  }
  return shared_pins().pinned_by_others(*device_, memory);
}

std::size_t Pins::copyable(ByteSpan memory) noexcept {
  const std::lock_guard lock(mutex_);
  const std::size_t found = bytes_in(added_, memory);
  return found == 0 ? memory.size() : found;  // pinned by others, in one piece
}

std::size_t Pins::bytes() noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const auto& [begin, end] : added_) sum += static_cast<std::size_t>(end - begin);
  return sum;
}

}  // namespace headrace::gpu
