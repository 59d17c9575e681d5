// io_uring by its system calls: one ring, its mapped memory and the two index pairs.
#pragma once

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#define HEADRACE_HAS_URING

#include <linux/io_uring.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "core/io/queue.hpp"

namespace headrace {

class UringQueue final : public IoQueue {
 public:
  // Fails with `unsupported` where the kernel refuses.
  static Result<std::unique_ptr<IoQueue>> create(unsigned depth,
                                                 std::chrono::milliseconds patience) noexcept;
  ~UringQueue() override;

  void push(const IoRead& read) noexcept override;
  void wait(unsigned wanted, std::chrono::milliseconds timeout) noexcept override;
  [[nodiscard]] bool pop(IoDone& done) noexcept override;

 private:
  using Index = std::atomic_ref<std::uint32_t>;  // shared with the kernel

  using Clock = std::chrono::steady_clock;

  explicit UringQueue(std::chrono::milliseconds patience) noexcept : patience_(patience) {}
  [[nodiscard]] int map(const io_uring_params& facts) noexcept;
  [[nodiscard]] io_uring_sqe& next_entry() noexcept;
  void publish_entry() noexcept;
  void refuse_unsubmitted(int error) noexcept;
  void take_back_stuck() noexcept;
  void forget(std::uint32_t tag) noexcept;
  [[nodiscard]] unsigned ready() const noexcept;

  int fd_ = -1;
  bool has_timeouts_ = false;
  std::byte* ring_ = nullptr;  // both index pairs and the completions
  std::size_t ring_size_ = 0;
  io_uring_sqe* entries_ = nullptr;
  std::size_t entries_size_ = 0;
  std::uint32_t* submission_head_ = nullptr;
  std::uint32_t* submission_tail_ = nullptr;
  std::uint32_t submission_mask_ = 0;
  std::uint32_t* completion_head_ = nullptr;
  std::uint32_t* completion_tail_ = nullptr;
  std::uint32_t completion_mask_ = 0;
  const io_uring_cqe* completions_ = nullptr;
  std::vector<IoDone> refused_;

  const std::chrono::milliseconds patience_;
  std::vector<IoRead> reads_;               // by tag
  std::vector<std::uint8_t> is_under_way_;  // by tag
  unsigned under_way_ = 0;
  // What ended, and what began while nothing was under way; a clock would cost more than a read.
  std::uint64_t progress_ = 0;
  std::uint64_t last_progress_ = 0;  // when a wait was in vain last
  Clock::time_point stands_since_;
};

}  // namespace headrace

#endif
