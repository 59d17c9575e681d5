// The tables of .ffr files: where each sample is, and its checksum.
//
//   0      4   u32     checksum of the header
//   4      8   i64     N
//   12     4N  u32[N]  checksum of each sample
//   12+4N  8N  i64[N]  where each sample begins; it ends where the next begins, the last with the
//   file
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::int64_t kNoBadOffset = -1;

// Looks at a table of little-endian i64, at any address: the first offset is at least `first`, none
// is below the one before it, none is above `end`. Gives the index of the first that is wrong, or
// kNoBadOffset; `invalid_argument` when the table does not consist of whole numbers.
Result<std::int64_t> find_bad_ffr_offset(ByteSpan table, std::uint64_t first,
                                         std::uint64_t end) noexcept;

struct FfrHeaderCheck {
  std::uint32_t checksum;   // CRC-32 of the header without its first field
  std::int64_t bad_offset;  // or kNoBadOffset
};

// Both in one pass over a whole header: its checksum, and the first offset that is below the end of
// the header or the one before it, or above `end`. `invalid_argument` for a size no header has.
Result<FfrHeaderCheck> check_ffr_header(ByteSpan header, std::uint64_t end) noexcept;

// Size of a sample whose offsets cannot be right; its offset is what the table says.
inline constexpr std::uint64_t kBadFfrSize = ~std::uint64_t{0};

// One entry for each sample that is looked for.
struct FfrSpans {
  std::span<std::uint32_t> files;
  std::span<std::uint64_t> offsets;
  std::span<std::uint64_t> sizes;
  std::span<std::uint32_t> checksums;
};

// Files whose samples are counted one file after the other. The bytes belong to the caller and may
// change at any time; numbers are copied before they are checked.
class FfrTable {
 public:
  // Fails with `truncated` when the file has no room for the tables of `n` samples.
  Status add(ByteSpan file, std::uint64_t n) noexcept;

  [[nodiscard]] std::uint64_t samples() const noexcept { return ends_.empty() ? 0 : ends_.back(); }
  [[nodiscard]] std::span<const ByteSpan> files() const noexcept { return files_; }

  // Fails with `out_of_bounds` and the position of the first index that no sample has.
  Status locate(std::span<const std::int64_t> indices, const FfrSpans& out) const noexcept;

 private:
  std::vector<ByteSpan> files_;
  std::vector<std::uint64_t> ends_;  // samples up to the end of each file
};

}  // namespace headrace
