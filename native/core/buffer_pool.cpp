#include "headrace/buffer_pool.hpp"

#include <bit>
#include <cstdlib>
#include <new>
#include <utility>

namespace headrace {
namespace {

constexpr std::size_t kLineSize = 64;
constexpr std::size_t kSteps = 8;  // kinds for every doubling
constexpr std::size_t kSmallest = 512;

// The smallest kind whose blocks have room for `size` bytes: at most an eighth is wasted.
std::size_t kind_of(std::size_t size) noexcept {
  if (size <= kSmallest) return 0;
  const auto doublings = static_cast<std::size_t>(std::bit_width((size - 1) / kSmallest)) - 1;
  const std::size_t step = (kSmallest << doublings) / kSteps;
  const std::size_t steps = (size - (kSmallest << doublings) + step - 1) / step;
  return doublings * kSteps + steps;
}

std::size_t room_of(std::size_t kind) noexcept {
  const std::size_t base = kSmallest << (kind / kSteps);
  return base + base / kSteps * (kind % kSteps);
}

std::byte* allocate(std::size_t kind) noexcept {
  const std::size_t room = room_of(kind);
  const std::size_t alignment = room >= BufferPool::kLargeSize ? BufferPool::kBlockSize : kLineSize;
  const std::size_t whole = (room + alignment - 1) / alignment * alignment;
  return static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
}

}  // namespace

PooledBuffer::PooledBuffer(PooledBuffer&& other) noexcept
    : pool_(std::move(other.pool_)),
      block_(std::exchange(other.block_, nullptr)),
      kind_(other.kind_),
      bytes_(std::exchange(other.bytes_, {})) {}

PooledBuffer::~PooledBuffer() {
  if (block_ != nullptr) pool_->give_back(block_, kind_);
}

BufferPool::~BufferPool() {
  for (const std::vector<std::byte*>& blocks : free_) {
    for (std::byte* block : blocks) std::free(block);
  }
}

PooledBuffer BufferPool::take(std::size_t size, std::uint64_t offset) noexcept {
  PooledBuffer buffer;
  // A block more, so that all large pieces of one size are of one kind wherever they begin.
  const std::size_t shift = size < kLargeSize ? 0 : static_cast<std::size_t>(offset % kBlockSize);
  const std::size_t room = size < kLargeSize ? size : size + kBlockSize;
  if (room < size || room > room_of(kKinds - 1)) return buffer;
  buffer.kind_ = kind_of(room);
  buffer.block_ = pop(buffer.kind_);
  if (buffer.block_ == nullptr) buffer.block_ = allocate(buffer.kind_);
  if (buffer.block_ == nullptr) return buffer;
  buffer.pool_ = shared_from_this();
  buffer.bytes_ = {buffer.block_ + shift, size};
  return buffer;
}

std::byte* BufferPool::pop(std::size_t kind) noexcept {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || free_[kind].empty()) return nullptr;
  std::byte* block = free_[kind].back();
  free_[kind].pop_back();
  free_bytes_ -= room_of(kind);
  return block;
}

void BufferPool::give_back(std::byte* block, std::size_t kind) noexcept {
  std::vector<std::byte*> evicted;  // freed when others may use the pool again
  bool is_kept = false;
  if (const std::unique_lock lock(mutex_, std::try_to_lock);
      lock.owns_lock() && room_of(kind) <= keep_bytes_) {
    try {
      free_[kind].push_back(block);
      free_bytes_ += room_of(kind);
      is_kept = true;
      evict(evicted);
    } catch (const std::bad_alloc&) {
    }
  }
  if (!is_kept) std::free(block);
  for (std::byte* other : evicted) std::free(other);
}

// One block of each kind in turn, so that what is not asked for any more does not stay for ever.
void BufferPool::evict(std::vector<std::byte*>& evicted) noexcept {
  while (free_bytes_ > keep_bytes_) {
    std::vector<std::byte*>& blocks = free_[hand_];
    if (!blocks.empty()) {
      std::byte* block = blocks.back();
      blocks.pop_back();
      free_bytes_ -= room_of(hand_);
      try {
        evicted.push_back(block);
      } catch (const std::bad_alloc&) {
        std::free(block);
      }
    }
    hand_ = (hand_ + 1) % kKinds;
  }
}

std::size_t BufferPool::free_bytes() noexcept {
  const std::lock_guard lock(mutex_);
  return free_bytes_;
}

}  // namespace headrace
