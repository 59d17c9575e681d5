// Cuts a request into reads: neighbours joined, large ranges in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/io/range_reader.hpp"

namespace headrace {

// What a direct read's place in the file, size and memory are multiples of. Disks ask for less, but
// this is what every one of them takes.
inline constexpr std::uint64_t kBlockSize = 4096;

[[nodiscard]] constexpr std::uint64_t block_floor(std::uint64_t value) noexcept {
  return value / kBlockSize * kBlockSize;
}
[[nodiscard]] constexpr std::uint64_t block_ceil(std::uint64_t value) noexcept {
  return block_floor(value + kBlockSize - 1);
}

// Pieces this large keep the disk as busy as larger ones, and smaller ones more of them.
inline constexpr std::uint64_t kMaxReadSize = 512 << 10;
// To read over a gap costs less than another read.
inline constexpr std::uint64_t kMaxGap = 4096;
inline constexpr std::size_t kMaxSegments = 32;

// A copy of the caller's numbers: what was checked is what is used.
struct Range {
  std::uint64_t offset;
  std::uint64_t left;  // bytes not yet dealt with; the top bit tells that the range has failed
  std::byte* to;
  std::uint64_t size;
  std::uint32_t position;
  std::uint32_t file;
};

// Bytes of one read that belong to one range.
struct Segment {
  std::uint64_t offset;
  std::byte* to;
  std::uint32_t size;
  std::uint32_t range;  // index in the plan's ranges
};

// Segments of one file in its order, without overlap; the gaps between them are read, too.
struct ReadOperation {
  std::uint32_t count = 0;
  std::uint32_t file = 0;
  Segment segments[kMaxSegments];

  [[nodiscard]] std::uint64_t begin() const noexcept { return segments[0].offset; }
  [[nodiscard]] std::uint64_t end() const noexcept {
    return segments[count - 1].offset + segments[count - 1].size;
  }
  // A direct read can bring all of it but the ends straight to its destination.
  [[nodiscard]] bool is_straight() const noexcept;
};

class RangePlan {
 public:
  // Copies and checks the request and puts it in file order.
  Status prepare(const ReadRequest& request, std::size_t file_count, bool is_direct) noexcept;

  // False when everything has been cut.
  [[nodiscard]] bool next(ReadOperation& operation) noexcept;

  [[nodiscard]] Range& range(std::size_t index) noexcept { return ranges_[index]; }
  [[nodiscard]] std::size_t size() const noexcept { return ranges_.size(); }

 private:
  [[nodiscard]] std::uint64_t piece_size(const Range& range) const noexcept;
  void add_piece(ReadOperation& operation, std::uint64_t size) noexcept;
  [[nodiscard]] std::uint64_t joining_size(const ReadOperation& operation) const noexcept;

  std::vector<Range> ranges_;
  bool is_direct_ = false;
  std::size_t at_ = 0;      // range that is being cut
  std::uint64_t done_ = 0;  // bytes of it that have been cut off
};

}  // namespace headrace
