// What one call of the range reader needs: a queue, and the memory of its reads.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/io/queue.hpp"
#include "core/io/range_plan.hpp"

namespace headrace {

inline constexpr std::size_t kBounceSize = kMaxReadSize + 2 * kBlockSize;

struct FreeAligned {
  void operator()(std::byte* memory) const noexcept;
};
using AlignedMemory = std::unique_ptr<std::byte[], FreeAligned>;

// One read under way.
struct Slot {
  ReadOperation operation;
  std::uint64_t begin = 0;  // first byte that is read; that of a block if direct
  std::uint64_t size = 0;   // bytes that are needed from there
  std::uint64_t done = 0;
  bool is_direct = false;
  bool is_bounced = false;   // all of it is read into `bounce`, then copied
  bool is_straight = false;  // only what is not whole blocks is: at 0 and at kBlockSize
  unsigned retries = 0;
  std::byte gap[kMaxGap];          // takes the bytes between segments, which nobody wants
  AlignedMemory bounce;            // made when it is needed first, kept for the next call
  iovec pieces[2 * kMaxSegments];  // segments and gaps
};

class Lane {
 public:
  static Result<std::unique_ptr<Lane>> create(std::size_t depth, ReadEngine engine) noexcept;

  [[nodiscard]] IoQueue& queue() noexcept { return *queue_; }
  [[nodiscard]] std::vector<Slot>& slots() noexcept { return slots_; }
  [[nodiscard]] std::vector<std::uint32_t>& free_slots() noexcept { return free_slots_; }
  [[nodiscard]] ReadEngine engine() const noexcept { return engine_; }
  // False in a child of the process that made the lane.
  [[nodiscard]] bool is_ours() const noexcept;

 private:
  Lane() noexcept = default;

  std::unique_ptr<IoQueue> queue_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_slots_;
  ReadEngine engine_ = ReadEngine::threads;
  pid_t process_ = 0;
};

// Lanes that wait for their next call.
class LanePool {
 public:
  explicit LanePool(pid_t process) noexcept : process_(process) {}

  [[nodiscard]] pid_t process() const noexcept { return process_; }
  [[nodiscard]] std::unique_ptr<Lane> take() noexcept;
  // Beyond a few, lanes are closed.
  void give(std::unique_ptr<Lane> lane) noexcept;

 private:
  static constexpr std::size_t kMaxIdle = 8;

  const pid_t process_;
  std::mutex mutex_;
  std::unique_ptr<Lane> idle_[kMaxIdle];
  std::size_t count_ = 0;
};

}  // namespace headrace
