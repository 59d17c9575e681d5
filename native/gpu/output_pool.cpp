#include "gpu/output_pool.hpp"

#include <algorithm>

namespace headrace::gpu {
namespace {

// More are given back, the oldest first: outputs of several fields and batches, and no more.
constexpr std::size_t kMostUnused = 16;

}  // namespace

OutputPool::OutputPool(Device& device) : device_(device) { unused_.reserve(kMostUnused + 1); }

bool OutputPool::take(std::size_t size, DevicePointer& memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::find_if(unused_.rbegin(), unused_.rend(),
                                  [size](const Block& block) { return block.size == size; });
  if (found == unused_.rend()) return false;
  memory = found->memory;
  unused_.erase(std::next(found).base());
  return true;
}

Result<DevicePointer> OutputPool::make(std::size_t size) noexcept {
  auto memory = device_.allocate(std::max<std::size_t>(size, 1));
  if (!memory.is_ok()) return memory;
  const std::lock_guard lock(mutex_);
  bytes_ += size;
  return memory;
}

Result<DevicePointer> OutputPool::allocate(std::size_t size) noexcept {
  DevicePointer memory = 0;
  if (take(size, memory)) return memory;
  auto fresh = make(size);
  if (fresh.is_ok() || fresh.status().code() != Code::out_of_memory) return fresh;
  free_unused();
  return make(size);
}

void OutputPool::release(DevicePointer memory, std::size_t size) noexcept {
  if (memory == 0) return;
  const std::lock_guard lock(mutex_);
  unused_.push_back({memory, size});
  if (unused_.size() <= kMostUnused) return;
  bytes_ -= unused_.front().size;
  device_.free(unused_.front().memory);
  unused_.erase(unused_.begin());
}

void OutputPool::free_unused() noexcept {
  const std::lock_guard lock(mutex_);
  for (const Block& block : unused_) {
    bytes_ -= block.size;
    device_.free(block.memory);
  }
  unused_.clear();
}

std::size_t OutputPool::bytes() noexcept {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace headrace::gpu
