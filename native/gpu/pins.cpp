#include "gpu/pins.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace headrace::gpu {

Status Pins::add(ByteSpan memory) noexcept {
  if (memory.empty()) return {};
  Status status = device_.pin(memory);
  if (!status.is_ok()) return status;
  try {
    const std::lock_guard lock(mutex_);
    added_.reserve(added_.size() + 1);
    const std::byte* const begin = memory.data();
    const auto next = pieces_.upper_bound(begin);
    if (next != pieces_.begin() && std::prev(next)->second == begin) {
      std::prev(next)->second = begin + memory.size();
    } else {
      pieces_.emplace(begin, begin + memory.size());
    }
    added_.push_back(memory);  // there is room
    return {};
  } catch (const std::bad_alloc&) {
    device_.unpin(memory);
    return Status(Code::out_of_memory, "no memory to keep in mind what is pinned");
  }
}

void Pins::release() noexcept {
  const std::lock_guard lock(mutex_);
  for (const ByteSpan memory : added_) device_.unpin(memory);
  added_.clear();
  pieces_.clear();
}

std::size_t Pins::fetchable(ByteSpan memory) noexcept {
  if (memory.empty()) return 0;
  {
    const std::lock_guard lock(mutex_);
    const auto next = pieces_.upper_bound(memory.data());
    if (next != pieces_.begin() && memory.data() < std::prev(next)->second) {
      const std::ptrdiff_t left = std::prev(next)->second - memory.data();
      return std::min(memory.size(), static_cast<std::size_t>(left));
    }
  }
  return device_.pinned_bytes(memory);
}

std::size_t Pins::bytes() noexcept {
  const std::lock_guard lock(mutex_);
  std::size_t sum = 0;
  for (const ByteSpan memory : added_) sum += memory.size();
  return sum;
}

}  // namespace headrace::gpu
