// Reads under way, and how they end: what the engines of the range reader have in common.
//
// Who calls: one thread at a time pushes, waits and pops. Who closes: the same thread, when every
// read that was pushed has been popped; until then the memory of a read belongs to the queue. On
// failure: a read that cannot be started or carried out is popped with its errno. On Ctrl-C: `wait`
// returns early or when its time is up; the reads under way go on.
#pragma once

#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "headrace/status.hpp"

namespace headrace {

struct IoRead {
  int fd;
  const iovec* pieces;  // stays valid until the read is popped
  unsigned piece_count;
  std::uint64_t offset;
  std::uint32_t tag;
};

struct IoDone {
  std::uint32_t tag;
  std::int32_t result;  // bytes read, or the errno, negated
};

class IoQueue {
 public:
  IoQueue() noexcept = default;
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;
  virtual ~IoQueue() = default;

  // At most `depth` reads may be pushed and not yet popped.
  virtual void push(const IoRead& read) noexcept = 0;
  // Starts what was pushed and waits until `wanted` reads can be popped, time is up, or a signal
  // came. With `wanted` 0 it does not wait.
  virtual void wait(unsigned wanted, std::chrono::milliseconds timeout) noexcept = 0;
  [[nodiscard]] virtual bool pop(IoDone& done) noexcept = 0;
};

// The same at once, by the thread that calls.
[[nodiscard]] std::int32_t read_blocking(const IoRead& read) noexcept;

// Fails with `unsupported` where the kernel has no io_uring, or not for us, or has lost reads of
// this process before. Reads that do not end for so long are taken back and done by
// `read_blocking`.
Result<std::unique_ptr<IoQueue>> make_uring_queue(
    unsigned depth, std::chrono::milliseconds patience = std::chrono::seconds(5)) noexcept;

// The kernel has lost reads of this process: rings are of no use any more.
[[nodiscard]] bool is_uring_stuck() noexcept;
void set_uring_stuck(bool is_stuck) noexcept;

// Blocking reads on a few threads. Fails with `out_of_memory` when the system has no more threads.
Result<std::unique_ptr<IoQueue>> make_thread_queue(unsigned depth) noexcept;

}  // namespace headrace
