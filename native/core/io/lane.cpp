#include "core/io/lane.hpp"

#include <unistd.h>

#include <cstdlib>
#include <new>

namespace headrace {

void FreeAligned::operator()(std::byte* memory) const noexcept { std::free(memory); }

Result<std::unique_ptr<Lane>> Lane::create(std::size_t depth, ReadEngine engine) noexcept {
  try {
    std::unique_ptr<Lane> lane(new Lane);
    lane->slots_ = std::vector<Slot>(depth);
    lane->free_slots_.reserve(depth);
    lane->process_ = getpid();
    if (engine != ReadEngine::threads) {
      auto queue = make_uring_queue(static_cast<unsigned>(depth));
      if (queue.is_ok()) {
        lane->queue_ = std::move(queue.value());
        lane->engine_ = ReadEngine::io_uring;
        return lane;
      }
      if (engine == ReadEngine::io_uring) return queue.status();
    }
    auto queue = make_thread_queue(static_cast<unsigned>(depth));
    if (!queue.is_ok()) return queue.status();
    lane->queue_ = std::move(queue.value());
    return lane;
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the reads under way");
  }
}

bool Lane::is_ours() const noexcept { return process_ == getpid(); }

std::unique_ptr<Lane> LanePool::take() noexcept {
  const std::lock_guard lock(mutex_);
  return count_ == 0 ? nullptr : std::move(idle_[--count_]);
}

void LanePool::give(std::unique_ptr<Lane> lane) noexcept {
  const std::lock_guard lock(mutex_);
  if (count_ < kMaxIdle) idle_[count_++] = std::move(lane);
}

}  // namespace headrace
