// Memory for values that come and go one by one, used again and again.
//
// Fresh memory costs a page fault for every 4 KiB, and what is freed goes back to the system by
// calls that stop other threads; for samples of a few KiB that is as much as to read them. Who
// calls: any thread takes and gives back. The lock is only tried: whoever does not get it at once
// does without the pool, so that a process forked in the wrong moment is slower, never stuck. Who
// closes: the pool goes after the last piece; pieces keep it alive.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "headrace/bytes.hpp"

namespace headrace {

class BufferPool;

// Memory that is lent, and goes back when the piece is destroyed.
class PooledBuffer {
 public:
  PooledBuffer() noexcept = default;
  PooledBuffer(PooledBuffer&& other) noexcept;
  PooledBuffer& operator=(PooledBuffer&&) = delete;
  ~PooledBuffer();

  [[nodiscard]] MutableByteSpan bytes() const noexcept { return bytes_; }
  // False when there was no memory.
  [[nodiscard]] bool is_valid() const noexcept { return block_ != nullptr; }

 private:
  friend class BufferPool;

  std::shared_ptr<BufferPool> pool_;
  std::byte* block_ = nullptr;
  std::size_t kind_ = 0;
  MutableByteSpan bytes_;
};

class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static constexpr std::size_t kBlockSize = 4096;
  // From here on a buffer begins at a multiple of a block, plus what was asked for.
  static constexpr std::size_t kLargeSize = 64 << 10;

  // Beyond `keep_bytes` of free memory, some of it goes back to the system.
  explicit BufferPool(std::size_t keep_bytes) noexcept : keep_bytes_(keep_bytes) {}
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // `size` bytes of whatever the memory held before; a large piece begins at `offset` modulo a
  // block. The pool must be owned by a shared_ptr.
  [[nodiscard]] PooledBuffer take(std::size_t size, std::uint64_t offset) noexcept;

  // Of the free memory, for tests.
  [[nodiscard]] std::size_t free_bytes() noexcept;

 private:
  friend class PooledBuffer;

  // Eight kinds for every doubling.
  static constexpr std::size_t kKinds = 8 * 48;

  [[nodiscard]] std::byte* pop(std::size_t kind) noexcept;
  void give_back(std::byte* block, std::size_t kind) noexcept;
  void evict(std::vector<std::byte*>& evicted) noexcept;

  const std::size_t keep_bytes_;
  std::mutex mutex_;
  std::array<std::vector<std::byte*>, kKinds> free_;
  std::size_t free_bytes_ = 0;
  std::size_t hand_ = 0;  // the kind that gives next when there is too much
};

}  // namespace headrace
