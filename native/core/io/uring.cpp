#include "core/io/uring.hpp"

#include <atomic>

#include "core/io/queue.hpp"

#ifdef HEADRACE_HAS_URING

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <thread>

namespace headrace {
namespace {

// Newer than the oldest headers we build with.
constexpr unsigned kSetupClamp = 1U << 4;
constexpr unsigned kSetupCoopTaskrun = 1U << 8;
constexpr unsigned kFeatureSingleMmap = 1U << 0;
constexpr unsigned kFeatureReadOperation = 1U << 3;  // came with the plain read
constexpr unsigned kFeatureExtendedArgument = 1U << 8;
constexpr unsigned kEnterExtendedArgument = 1U << 3;
constexpr std::uint8_t kOperationRead = 22;
// No tag: of an entry that takes a read back.
constexpr std::uint64_t kNobody = std::uint64_t{1} << 32;

struct KernelTimespec {
  std::int64_t seconds;
  long long nanoseconds;
};

struct ExtendedArgument {
  std::uint64_t signal_mask;
  std::uint32_t signal_mask_size;
  std::uint32_t padding;
  std::uint64_t timeout;
};

int setup(unsigned depth, io_uring_params& facts) noexcept {
  // Completions are handled when we ask for them anyway; no need to interrupt us.
  for (const unsigned flags : {kSetupClamp | kSetupCoopTaskrun, 0U}) {
    facts = {};
    facts.flags = flags;
    const long fd = syscall(__NR_io_uring_setup, depth, &facts);
    if (fd >= 0) return static_cast<int>(fd);
    if (errno != EINVAL) break;
  }
  return -errno;
}

int enter(int fd, unsigned submit, unsigned wanted, unsigned flags, const void* argument,
          std::size_t size) noexcept {
  const long count = syscall(__NR_io_uring_enter, fd, submit, wanted, flags, argument, size);
  return count < 0 ? -errno : static_cast<int>(count);
}

Status refused(int error) noexcept {
  return Status(Code::unsupported, Detail("the kernel refuses io_uring (")
                                       << std::string_view(std::strerror(error)) << ")");
}

void* map_shared(int fd, std::size_t size, std::uint64_t offset) noexcept {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                      static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

Result<std::unique_ptr<IoQueue>> UringQueue::create(unsigned depth,
                                                    std::chrono::milliseconds patience) noexcept {
  std::unique_ptr<UringQueue> queue(new (std::nothrow) UringQueue(patience));
  if (!queue) return Status(Code::out_of_memory, "no memory for the ring");
  io_uring_params facts{};
  const int fd = setup(depth, facts);
  if (fd < 0) return refused(-fd);
  queue->fd_ = fd;
  constexpr unsigned needed = kFeatureSingleMmap | kFeatureReadOperation;
  if ((facts.features & needed) != needed || facts.sq_entries < depth) return refused(ENOSYS);
  queue->has_timeouts_ = (facts.features & kFeatureExtendedArgument) != 0;
  if (const int error = queue->map(facts); error != 0) return refused(error);
  // A filter of system calls may allow the setup alone.
  if (const int count = enter(fd, 0, 0, 0, nullptr, 0); count < 0) return refused(-count);
  return std::unique_ptr<IoQueue>(std::move(queue));
}

int UringQueue::map(const io_uring_params& facts) noexcept {
  try {
    refused_.reserve(facts.sq_entries);
    reads_.resize(facts.sq_entries);
    is_under_way_.resize(facts.sq_entries);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  ring_size_ = std::max(facts.sq_off.array + facts.sq_entries * sizeof(std::uint32_t),
                        facts.cq_off.cqes + facts.cq_entries * sizeof(io_uring_cqe));
  ring_ = static_cast<std::byte*>(map_shared(fd_, ring_size_, IORING_OFF_SQ_RING));
  if (ring_ == nullptr) return errno;
  entries_size_ = facts.sq_entries * sizeof(io_uring_sqe);
  entries_ = static_cast<io_uring_sqe*>(map_shared(fd_, entries_size_, IORING_OFF_SQES));
  if (entries_ == nullptr) return errno;
  const auto index = [this](unsigned at) { return reinterpret_cast<std::uint32_t*>(ring_ + at); };
  submission_head_ = index(facts.sq_off.head);
  submission_tail_ = index(facts.sq_off.tail);
  submission_mask_ = *index(facts.sq_off.ring_mask);
  completion_head_ = index(facts.cq_off.head);
  completion_tail_ = index(facts.cq_off.tail);
  completion_mask_ = *index(facts.cq_off.ring_mask);
  completions_ = reinterpret_cast<const io_uring_cqe*>(ring_ + facts.cq_off.cqes);
  // Entries are used in order, so the indirection is filled once.
  for (std::uint32_t i = 0; i < facts.sq_entries; ++i) index(facts.sq_off.array)[i] = i;
  return 0;
}

UringQueue::~UringQueue() {
  if (entries_ != nullptr) munmap(entries_, entries_size_);
  if (ring_ != nullptr) munmap(ring_, ring_size_);
  if (fd_ >= 0) close(fd_);
}

io_uring_sqe& UringQueue::next_entry() noexcept {
  io_uring_sqe& entry = entries_[*submission_tail_ & submission_mask_];
  std::memset(&entry, 0, sizeof entry);
  return entry;
}

void UringQueue::publish_entry() noexcept {
  Index(*submission_tail_).store(*submission_tail_ + 1, std::memory_order_release);
}

void UringQueue::push(const IoRead& read) noexcept {
  if (under_way_++ == 0) ++progress_;
  reads_[read.tag] = read;
  is_under_way_[read.tag] = 1;
  io_uring_sqe& entry = next_entry();
  entry.fd = read.fd;
  entry.off = read.offset;
  entry.user_data = read.tag;
  if (read.piece_count == 1) {
    entry.opcode = kOperationRead;
    entry.addr = reinterpret_cast<std::uintptr_t>(read.pieces->iov_base);
    entry.len = static_cast<std::uint32_t>(read.pieces->iov_len);
  } else {
    entry.opcode = IORING_OP_READV;
    entry.addr = reinterpret_cast<std::uintptr_t>(read.pieces);
    entry.len = read.piece_count;
  }
  publish_entry();
}

void UringQueue::forget(std::uint32_t tag) noexcept {
  is_under_way_[tag] = 0;
  --under_way_;
  ++progress_;
}

unsigned UringQueue::ready() const noexcept {
  return Index(*completion_tail_).load(std::memory_order_acquire) - *completion_head_;
}

void UringQueue::wait(unsigned wanted, std::chrono::milliseconds timeout) noexcept {
  const std::uint32_t head = Index(*submission_head_).load(std::memory_order_acquire);
  const unsigned submit = *submission_tail_ - head;
  if (!refused_.empty()) wanted = 0;
  const bool must_wait = wanted > ready();
  if (submit == 0 && !must_wait) return;
  const KernelTimespec limit{timeout.count() / 1000, (timeout.count() % 1000) * 1'000'000};
  const ExtendedArgument argument{0, 0, 0, reinterpret_cast<std::uintptr_t>(&limit)};
  const bool is_limited = must_wait && has_timeouts_;
  // Without timeouts (before Linux 5.11) a signal or a completion ends the wait, and a disk that
  // does not answer is waited for.
  const unsigned flags = (must_wait ? unsigned{IORING_ENTER_GETEVENTS} : 0U) |
                         (is_limited ? kEnterExtendedArgument : 0U);
  const int count = enter(fd_, submit, must_wait ? wanted : 0, flags,
                          is_limited ? &argument : nullptr, is_limited ? sizeof argument : 0);
  if (count >= 0 || count == -EINTR || count == -ETIME) {
    if (must_wait && ready() == 0) take_back_stuck();
    return;
  }
  if (count == -EAGAIN || count == -EBUSY) {
    // No memory for the requests at this moment.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  refuse_unsubmitted(-count);
  // What was submitted before still completes; it cannot be waited for, only looked for.
  if (must_wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Linux can lose the threads that carry reads out: then it starts none of what it has accepted, and
// nothing ever ends (seen with 6.18, many processes, O_DIRECT). What it has not started can be
// taken back; what it is at goes on.
void UringQueue::take_back_stuck() noexcept {
  const Clock::time_point now = Clock::now();
  if (progress_ != last_progress_) {
    last_progress_ = progress_;
    stands_since_ = now;
  }
  if (now - stands_since_ < patience_) return;
  stands_since_ = now;
  unsigned count = 0;
  for (std::size_t tag = 0; tag < is_under_way_.size(); ++tag) {
    if (is_under_way_[tag] == 0) continue;
    io_uring_sqe& entry = next_entry();
    entry.opcode = IORING_OP_ASYNC_CANCEL;
    entry.fd = -1;
    entry.addr = tag;
    entry.user_data = kNobody;
    publish_entry();
    ++count;
  }
  static_cast<void>(enter(fd_, count, 0, IORING_ENTER_GETEVENTS, nullptr, 0));
}

// The kernel looks at the entries in `enter` only, so they can be taken back.
void UringQueue::refuse_unsubmitted(int error) noexcept {
  const std::uint32_t head = Index(*submission_head_).load(std::memory_order_acquire);
  for (std::uint32_t at = head; at != *submission_tail_; ++at) {
    const std::uint64_t tag = entries_[at & submission_mask_].user_data;
    if (tag != kNobody) refused_.push_back({static_cast<std::uint32_t>(tag), -error});
  }
  Index(*submission_tail_).store(head, std::memory_order_release);
}

bool UringQueue::pop(IoDone& done) noexcept {
  if (!refused_.empty()) {
    done = refused_.back();
    refused_.pop_back();
    forget(done.tag);
    return true;
  }
  while (ready() != 0) {
    const std::uint32_t head = *completion_head_;
    const io_uring_cqe completion = completions_[head & completion_mask_];
    Index(*completion_head_).store(head + 1, std::memory_order_release);
    if (completion.user_data == kNobody) continue;
    done = {static_cast<std::uint32_t>(completion.user_data), completion.res};
    forget(done.tag);
    if (done.result == -ECANCELED) {
      set_uring_stuck(true);
      done.result = read_blocking(reads_[done.tag]);
    }
    return true;
  }
  return false;
}

Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned depth,
                                                  std::chrono::milliseconds patience) noexcept {
  if (is_uring_stuck()) {
    return Status(Code::unsupported, "the kernel has lost reads of this process by io_uring");
  }
  return UringQueue::create(depth, patience);
}

}  // namespace headrace

#else

namespace headrace {

Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned, std::chrono::milliseconds) noexcept {
  return Status(Code::unsupported, "this build has no io_uring");
}

}  // namespace headrace

#endif

namespace headrace {
namespace {

std::atomic<bool> stuck{false};

}  // namespace

bool is_uring_stuck() noexcept { return stuck.load(std::memory_order_relaxed); }

void set_uring_stuck(bool is_stuck) noexcept { stuck.store(is_stuck, std::memory_order_relaxed); }

}  // namespace headrace
