#include "gpu/pins.hpp"

#include <algorithm>
#include <iterator>
#include <new>

namespace headrace::gpu {

Status Pins::add(ByteSpan memory) noexcept {
  if (memory.empty()) return {};
  Status status = device_.pin(memory);
  if (!status.is_ok()) return status;
  const std::byte *const begin = memory.data(), *const end = begin + memory.size();
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
    device_.unpin(memory);
    return Status(Code::out_of_memory, "no memory to keep in mind what is pinned");
  }
}

void Pins::release() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, end] : added_) device_.unpin({begin, end});
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
  return device_.pinned_bytes(memory);
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
