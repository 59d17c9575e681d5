#include "core/io/uring.hpp"

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

Result<std::unique_ptr<IoQueue>> UringQueue::create(unsigned depth) noexcept {
  std::unique_ptr<UringQueue> queue(new (std::nothrow) UringQueue);
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

void UringQueue::push(const IoRead& read) noexcept {
  const std::uint32_t tail = *submission_tail_;
  io_uring_sqe& entry = entries_[tail & submission_mask_];
  std::memset(&entry, 0, sizeof entry);
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
  Index(*submission_tail_).store(tail + 1, std::memory_order_release);
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
  if (count >= 0 || count == -EINTR || count == -ETIME) return;
  if (count == -EAGAIN || count == -EBUSY) {
    // No memory for the requests at this moment.
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return;
  }
  refuse_unsubmitted(-count);
  // What was submitted before still completes; it cannot be waited for, only looked for.
  if (must_wait) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The kernel looks at the entries in `enter` only, so they can be taken back.
void UringQueue::refuse_unsubmitted(int error) noexcept {
  const std::uint32_t head = Index(*submission_head_).load(std::memory_order_acquire);
  for (std::uint32_t at = head; at != *submission_tail_; ++at) {
    const auto tag = static_cast<std::uint32_t>(entries_[at & submission_mask_].user_data);
    refused_.push_back({tag, -error});
  }
  Index(*submission_tail_).store(head, std::memory_order_release);
}

bool UringQueue::pop(IoDone& done) noexcept {
  if (!refused_.empty()) {
    done = refused_.back();
    refused_.pop_back();
    return true;
  }
  if (ready() == 0) return false;
  const std::uint32_t head = *completion_head_;
  const io_uring_cqe& completion = completions_[head & completion_mask_];
  done = {static_cast<std::uint32_t>(completion.user_data), completion.res};
  Index(*completion_head_).store(head + 1, std::memory_order_release);
  return true;
}

Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned depth) noexcept {
  return UringQueue::create(depth);
}

}  // namespace headrace

#else

namespace headrace {

Result<std::unique_ptr<IoQueue>> make_uring_queue(unsigned) noexcept {
  return Status(Code::unsupported, "this build has no io_uring");
}

}  // namespace headrace

#endif
