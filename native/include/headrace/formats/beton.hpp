// The allocation table of a .beton file and the placement of samples on its pages.
//
// Table: rows of 24 bytes until the end of the file, all little-endian and without alignment:
//   sample_id u64 | ptr u64 (absolute file offset) | size u64
// Rows of size 0 stand for empty values; their pointer may equal that of a real allocation, so they
// never count as one.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::size_t kTableRowSize = 24;
inline constexpr std::uint64_t kSizeNotFound = UINT64_MAX;
inline constexpr std::uint64_t kNoRow = UINT64_MAX;

struct TableRow {
  std::uint64_t sample_id;
  std::uint64_t ptr;
  std::uint64_t size;
};

enum class TableProblemKind : std::uint8_t {
  sample_id_out_of_range,
  out_of_bounds,            // ptr + size overflows or leaves the data region
  crosses_page,             // the allocation spans a page boundary
  overlap,                  // shares bytes with other_row
  sample_on_several_pages,  // other_row belongs to the same sample on another page
};

[[nodiscard]] std::string_view problem_name(TableProblemKind kind) noexcept;

struct TableProblem {
  std::uint64_t row;
  TableProblemKind kind;
  std::uint64_t other_row;  // kNoRow where the problem concerns one row only
};

// What the header says about the file.
struct TableLimits {
  std::uint64_t data_start;
  std::uint64_t data_end;
  std::uint64_t page_size;  // a power of two
  std::uint64_t num_samples;
};

// View of a table; the bytes outlive it. All members may be called from several threads.
class AllocationTable {
 public:
  explicit AllocationTable(ByteSpan data) noexcept;

  [[nodiscard]] std::size_t rows() const noexcept { return rows_; }
  [[nodiscard]] TableRow row(std::size_t index) const noexcept;

  // Size of the allocation at each pointer, kSizeNotFound where there is none. guesses[i] is the
  // row looked at first; only wrong guesses pay for a sorted index, built once on first need. Of
  // several rows with one pointer the first in the table counts.
  Status find_sizes(std::span<const std::uint64_t> pointers, std::span<const std::uint64_t> guesses,
                    std::span<std::uint64_t> sizes) const noexcept;

  // At most `limit` problems, kind by kind in the order of TableProblemKind.
  Result<std::vector<TableProblem>> check(const TableLimits& limits,
                                          std::size_t limit) const noexcept;

 private:
  struct IndexEntry {
    std::uint64_t ptr;
    std::uint64_t row;
  };

  Status build_index() const noexcept;
  [[nodiscard]] std::uint64_t search(std::uint64_t pointer) const noexcept;

  ByteSpan data_;
  std::size_t rows_;
  mutable std::mutex index_mutex_;
  mutable std::atomic<bool> index_ready_{false};
  mutable std::vector<IndexEntry> index_;  // sorted by (ptr, row); fixed once index_ready_ is set
};

// Where the next sample may start.
struct PagePosition {
  std::uint64_t cursor;
  std::uint64_t page_size;
  std::uint64_t data_start;  // pages are [data_start + k * page_size, ...)
};

// Assigns file offsets to samples of `values` allocations each, one after the other; `sizes` and
// `pointers` hold samples * values entries. All allocations of a sample lie on one page; an empty
// one takes one byte, so that no two rows share a pointer. Returns the cursor behind the last
// sample. Fails with `too_large` and the sample's index when a sample does not fit on any page.
Result<std::uint64_t> place(std::span<const std::uint64_t> sizes, std::size_t values,
                            const PagePosition& position,
                            std::span<std::uint64_t> pointers) noexcept;

}  // namespace headrace
