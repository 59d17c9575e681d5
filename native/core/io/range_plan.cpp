#include "core/io/range_plan.hpp"

#include <algorithm>
#include <limits>
#include <new>

namespace headrace {
namespace {

constexpr std::uint64_t kMaxOffset = std::numeric_limits<std::int64_t>::max();

Status check_counts(const ReadRequest& request) noexcept {
  const std::size_t n = request.ranges.offsets.size();
  const std::size_t places = request.places.size() + request.destinations.size();
  const std::size_t checksums = request.checksums.size();
  const std::size_t files = request.files.size();
  if (request.ranges.sizes.size() != n || places != n || (checksums != 0 && checksums != n) ||
      (files != 0 && files != n)) {
    return Status(Code::invalid_argument, Detail() << n << " offsets, but "
                                                   << request.ranges.sizes.size() << " sizes, "
                                                   << places << " places, " << checksums
                                                   << " checksums and " << files << " files");
  }
  if (n > std::numeric_limits<std::uint32_t>::max()) {
    return Status(Code::too_large, Detail() << n << " ranges are too many for one call");
  }
  return {};
}

Status check_file(std::size_t i, std::size_t file, std::size_t count) noexcept {
  if (file < count) return {};
  return Status(Code::invalid_argument,
                Detail("range ") << i << " is of file " << file << ", there are " << count,
                static_cast<std::int64_t>(i));
}

Status check_range(std::size_t i, const Range& range, std::uint64_t place,
                   std::uint64_t out_size) noexcept {
  if (!is_inside(range.offset, range.size, kMaxOffset)) {
    return Status(Code::out_of_bounds,
                  Detail("range ") << i << " (offset " << range.offset << ", size " << range.size
                                   << ") is beyond what a file can have",
                  static_cast<std::int64_t>(i));
  }
  if (!is_inside(place, range.size, out_size)) {
    return Status(Code::out_of_bounds,
                  Detail("range ") << i << " (place " << place << ", size " << range.size
                                   << ") leaves the output of " << out_size << " bytes",
                  static_cast<std::int64_t>(i));
  }
  return {};
}

}  // namespace

bool ReadOperation::is_straight() const noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(segments[0].to);
  return count == 1 && address % kBlockSize == begin() % kBlockSize &&
         block_ceil(begin()) < block_floor(end());
}

Status RangePlan::prepare(const ReadRequest& request, std::size_t file_count,
                          bool is_direct) noexcept {
  is_direct_ = is_direct;
  if (Status status = check_counts(request); !status.is_ok()) return status;
  const std::size_t n = request.ranges.offsets.size();
  try {
    ranges_.resize(n);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, Detail("no memory for ") << n << " ranges");
  }
  const bool is_scattered = !request.destinations.empty();
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t size = request.ranges.sizes[i];
    const std::uint64_t place = is_scattered ? 0 : request.places[i];
    const std::uint64_t room = is_scattered ? size : request.out.size();
    const std::uint32_t file = request.files.empty() ? 0 : request.files[i];
    Range& range = ranges_[i];
    range = {request.ranges.offsets[i], size, nullptr, size, static_cast<std::uint32_t>(i), file};
    if (Status status = check_range(i, range, place, room); !status.is_ok()) return status;
    if (Status status = check_file(i, file, file_count); !status.is_ok()) return status;
    range.to = is_scattered ? request.destinations[i] : request.out.data() + place;
  }
  const auto is_before = [](const Range& a, const Range& b) {
    return a.file != b.file ? a.file < b.file : a.offset < b.offset;
  };
  if (!std::is_sorted(ranges_.begin(), ranges_.end(), is_before)) {
    std::sort(ranges_.begin(), ranges_.end(), is_before);
  }
  return {};
}

// How much of the rest of a range makes one read.
std::uint64_t RangePlan::piece_size(const Range& range) const noexcept {
  const std::uint64_t begin = range.offset + done_;
  const std::uint64_t rest = range.size - done_;
  // A cut between two blocks, so that no block is read twice.
  return rest <= kMaxReadSize ? rest : block_floor(begin + kMaxReadSize) - begin;
}

void RangePlan::add_piece(ReadOperation& operation, std::uint64_t size) noexcept {
  const Range& range = ranges_[at_];
  operation.segments[operation.count++] = {range.offset + done_, range.to + done_,
                                           static_cast<std::uint32_t>(size),
                                           static_cast<std::uint32_t>(at_)};
  done_ += size;
  if (done_ == range.size) {
    ++at_;
    done_ = 0;
  }
}

// How much of the next range fits into the same read, 0 for nothing.
std::uint64_t RangePlan::joining_size(const ReadOperation& operation) const noexcept {
  if (at_ == ranges_.size() || done_ != 0 || operation.count == kMaxSegments) return 0;
  const Range& range = ranges_[at_];
  const std::uint64_t end = operation.end();
  if (range.file != operation.file || range.offset < end || range.offset - end > kMaxGap) return 0;
  const std::uint64_t used = range.offset - operation.begin();
  if (used >= kMaxReadSize) return 0;
  const std::uint64_t room = kMaxReadSize - used;
  if (range.size <= room) return range.size;
  const std::uint64_t cut = block_floor(range.offset + room);
  return cut > range.offset ? cut - range.offset : 0;
}

bool RangePlan::next(ReadOperation& operation) noexcept {
  operation.count = 0;
  while (at_ < ranges_.size() && ranges_[at_].size == 0) ++at_;
  if (at_ == ranges_.size()) return false;
  operation.file = ranges_[at_].file;
  add_piece(operation, piece_size(ranges_[at_]));
  if (is_direct_ && operation.is_straight()) return true;
  for (;;) {
    while (done_ == 0 && at_ < ranges_.size() && ranges_[at_].size == 0) ++at_;
    const std::uint64_t size = joining_size(operation);
    if (size == 0) return true;
    add_piece(operation, size);
  }
}

}  // namespace headrace
