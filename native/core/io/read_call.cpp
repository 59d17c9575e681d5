#include "core/io/read_call.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>

namespace headrace {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kFailed = std::uint64_t{1} << 63;
constexpr unsigned kMaxRetries = 100;

// Destinations of the bytes from `done` on; neighbours in memory become one.
class PieceList {
 public:
  explicit PieceList(Slot& slot) noexcept : pieces_(slot.pieces), skip_(slot.done) {}

  void add(std::byte* to, std::uint64_t size) noexcept {
    const std::uint64_t skipped = std::min(skip_, size);
    skip_ -= skipped;
    to += skipped;
    size -= skipped;
    if (size == 0) return;
    iovec* last = count_ == 0 ? nullptr : &pieces_[count_ - 1];
    if (last != nullptr && static_cast<std::byte*>(last->iov_base) + last->iov_len == to) {
      last->iov_len += size;
    } else {
      pieces_[count_++] = {to, size};
    }
  }
  [[nodiscard]] unsigned count() const noexcept { return count_; }

 private:
  iovec* pieces_;
  std::uint64_t skip_;
  unsigned count_ = 0;
};

void add_segments(PieceList& pieces, Slot& slot) noexcept {
  std::uint64_t at = slot.begin;
  for (const Segment& segment : std::span(slot.operation.segments, slot.operation.count)) {
    pieces.add(slot.gap, segment.offset - at);
    pieces.add(segment.to, segment.size);
    at = segment.offset + segment.size;
  }
}

// First block, whole blocks, last block: each may be missing.
struct StraightParts {
  explicit StraightParts(const Segment& segment) noexcept
      : head(block_ceil(segment.offset) - segment.offset),
        tail((segment.offset + segment.size) % kBlockSize),
        middle(segment.size - head - tail) {}

  std::uint64_t head;
  std::uint64_t tail;
  std::uint64_t middle;
};

void add_straight(PieceList& pieces, const Slot& slot) noexcept {
  const Segment& segment = slot.operation.segments[0];
  const StraightParts parts(segment);
  if (parts.head != 0) pieces.add(slot.bounce.get(), kBlockSize);
  pieces.add(segment.to + parts.head, parts.middle);
  if (parts.tail != 0) pieces.add(slot.bounce.get() + kBlockSize, kBlockSize);
}

void copy_ends(const Slot& slot) noexcept {
  const Segment& segment = slot.operation.segments[0];
  const StraightParts parts(segment);
  const std::byte* head = slot.bounce.get() + kBlockSize - parts.head;
  std::memcpy(segment.to, head, parts.head);
  std::memcpy(segment.to + parts.head + parts.middle, slot.bounce.get() + kBlockSize, parts.tail);
}

bool make_bounce(Slot& slot) noexcept {
  if (!slot.bounce) {
    slot.bounce.reset(static_cast<std::byte*>(std::aligned_alloc(kBlockSize, kBounceSize)));
  }
  return slot.bounce != nullptr;
}

}  // namespace

Status ReadCall::Work::prepare(const ReadRequest& request) noexcept {
  const bool is_direct = is_direct_.load(std::memory_order_relaxed);
  if (Status status = plan_.prepare(request, files_.size(), is_direct); !status.is_ok()) {
    return status;
  }
  checksums_ = request.checksums;
  checksum_kind_ = request.checksum_kind;
  try {
    failures_.reserve(plan_.size());
    if (!checksums_.empty()) arrived_.reserve(plan_.size());
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, Detail("no memory for ") << plan_.size() << " ranges");
  }
  if (checksums_.empty()) return {};
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    if (plan_.range(i).size == 0) arrived_.push_back(static_cast<std::uint32_t>(i));
  }
  return {};
}

bool ReadCall::Work::advance(Lane& lane, std::chrono::milliseconds time) noexcept {
  const Clock::time_point end = Clock::now() + time;
  const unsigned depth = static_cast<unsigned>(lane.slots().size());
  while (!is_done_) {
    start_reads(lane);
    if (!arrived_.empty()) {
      lane.queue().wait(0, {});  // the disk works while we do
      check_arrived();
    }
    if (is_cut_ && under_way_ == 0) {
      finish_call();
      break;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    // A few at a time: that saves system calls, and the queue stays full enough.
    const std::size_t wanted = std::min<std::size_t>(under_way_, std::max(1U, depth / 32));
    lane.queue().wait(static_cast<unsigned>(wanted), std::max(left, std::chrono::milliseconds(1)));
    take_completions(lane);
    if (Clock::now() >= end) break;
  }
  return is_done_;
}

void ReadCall::Work::drain(Lane& lane) noexcept {
  while (under_way_ > 0) {
    lane.queue().wait(1, std::chrono::milliseconds(100));
    for (IoDone done; lane.queue().pop(done);) --under_way_;
  }
}

void ReadCall::Work::abandon() noexcept {
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    if (plan_.range(i).left != 0) fail(static_cast<std::uint32_t>(i), Code::io_error, ECANCELED);
  }
  finish_call();
}

void ReadCall::Work::start_reads(Lane& lane) noexcept {
  while (!is_cut_ && !lane.free_slots().empty()) {
    const std::uint32_t tag = lane.free_slots().back();
    Slot& slot = lane.slots()[tag];
    is_cut_ = !plan_.next(slot.operation);
    if (is_cut_) return;
    if (!set_up(slot)) {
      read_one_by_one(slot.operation);
      continue;
    }
    lane.free_slots().pop_back();
    ++under_way_;
    push(lane, tag);
  }
}

// False when there is no memory to read it into.
bool ReadCall::Work::set_up(Slot& slot) noexcept {
  const ReadOperation& operation = slot.operation;
  slot.is_direct = is_direct_.load(std::memory_order_relaxed);
  slot.is_straight = slot.is_direct && operation.is_straight();
  slot.is_bounced = slot.is_direct && !slot.is_straight;
  slot.begin = slot.is_direct ? block_floor(operation.begin()) : operation.begin();
  slot.size = operation.end() - slot.begin;
  slot.done = 0;
  slot.retries = 0;
  return !slot.is_direct || make_bounce(slot);
}

void ReadCall::Work::push(Lane& lane, std::uint32_t tag) noexcept {
  Slot& slot = lane.slots()[tag];
  PieceList pieces(slot);
  if (slot.is_straight) {
    add_straight(pieces, slot);
  } else if (slot.is_bounced) {
    pieces.add(slot.bounce.get(), block_ceil(slot.size));
  } else {
    add_segments(pieces, slot);
  }
  const OpenFile& file = files_[slot.operation.file];
  const int fd = slot.is_direct ? file.direct_fd : file.fd;
  lane.queue().push({fd, slot.pieces, pieces.count(), slot.begin + slot.done, tag});
}

void ReadCall::Work::take_completions(Lane& lane) noexcept {
  for (IoDone done; lane.queue().pop(done);) {
    if (complete(lane.slots()[done.tag], done.result)) {
      --under_way_;
      lane.free_slots().push_back(done.tag);
    } else {
      push(lane, done.tag);
    }
  }
}

bool ReadCall::Work::complete(Slot& slot, std::int32_t result) noexcept {
  if ((result == -EINTR || result == -EAGAIN) && ++slot.retries < kMaxRetries) return false;
  if (result > 0) {
    slot.done += static_cast<std::uint32_t>(result);
    if (slot.done < slot.size) {
      // A direct read cannot go on from the middle of a block.
      slot.is_direct = slot.is_direct && slot.done % kBlockSize == 0;
      return false;
    }
  } else if (result == -EINVAL && slot.is_direct) {
    is_direct_.store(false, std::memory_order_relaxed);
    slot.is_direct = false;
    return false;
  } else if (result < 0) {
    read_one_by_one(slot.operation);
    return true;
  }
  finish(slot);
  return true;
}

// Everything has been read, or the file has ended.
void ReadCall::Work::finish(Slot& slot) noexcept {
  const std::uint64_t end = slot.begin + slot.done;
  for (const Segment& segment : std::span(slot.operation.segments, slot.operation.count)) {
    if (segment.offset + segment.size > end) {
      end_early(segment, end);
      continue;
    }
    if (slot.is_straight) {
      copy_ends(slot);
    } else if (slot.is_bounced) {
      std::memcpy(segment.to, slot.bounce.get() + (segment.offset - slot.begin), segment.size);
    }
    arrive(segment);
  }
}

// The slow way, to find out which of several ranges is the one that cannot be read.
void ReadCall::Work::read_one_by_one(const ReadOperation& operation) noexcept {
  const int fd = files_[operation.file].fd;
  for (const Segment& segment : std::span(operation.segments, operation.count)) {
    std::uint32_t done = 0;
    ssize_t count = 1;
    while (done < segment.size && count > 0) {
      count = pread(fd, segment.to + done, segment.size - done,
                    static_cast<off_t>(segment.offset + done));
      if (count > 0) done += static_cast<std::uint32_t>(count);
      if (count < 0 && errno == EINTR) count = 1;
    }
    if (count < 0) fail(segment.range, Code::io_error, static_cast<std::uint64_t>(errno));
    if (count == 0) {
      end_early(segment, segment.offset + done);
    } else {
      arrive(segment);
    }
  }
}

void ReadCall::Work::arrive(const Segment& segment) noexcept {
  Range& range = plan_.range(segment.range);
  range.left -= segment.size;
  if (range.left == 0 && !checksums_.empty()) arrived_.push_back(segment.range);
}

void ReadCall::Work::fail(std::uint32_t index, Code code, std::uint64_t found,
                          std::uint64_t expected) noexcept {
  Range& range = plan_.range(index);
  if ((range.left & kFailed) != 0) return;
  range.left |= kFailed;
  failures_.push_back({range.position, code, expected, found});
}

void ReadCall::Work::end_early(const Segment& segment, std::uint64_t end) noexcept {
  // A read that begins behind the end of the file does not know where that is.
  struct stat facts{};
  if (fstat(files_[plan_.range(segment.range).file].fd, &facts) == 0) {
    end = std::min(end, static_cast<std::uint64_t>(facts.st_size));
  }
  fail(segment.range, Code::truncated, end);
  arrive(segment);
}

void ReadCall::Work::check_arrived() noexcept {
  for (const std::uint32_t index : arrived_) check(plan_.range(index), index);
  arrived_.clear();
}

void ReadCall::Work::check(const Range& range, std::uint32_t index) noexcept {
  const std::uint32_t expected = checksums_[range.position];
  const std::uint32_t found = checksum(checksum_kind_, ByteSpan(range.to, range.size));
  if (found != expected) fail(index, Code::wrong_checksum, found, expected);
}

void ReadCall::Work::finish_call() noexcept {
  const auto is_before = [](const ReadFailure& a, const ReadFailure& b) {
    return a.position < b.position;
  };
  std::sort(failures_.begin(), failures_.end(), is_before);
  is_done_ = true;
}

}  // namespace headrace
