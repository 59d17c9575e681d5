// Consistency of an allocation table, in O(n log n) time and O(n) memory whatever the table claims.
#include <algorithm>
#include <bit>
#include <new>

#include "headrace/formats/beton.hpp"

namespace headrace {
namespace {

// Row and the value it is sorted by.
struct Keyed {
  std::uint64_t key;
  std::uint64_t row;
};

void sort_by_key(std::vector<Keyed>& entries) {
  const auto is_before = [](const Keyed& a, const Keyed& b) {
    return a.key != b.key ? a.key < b.key : a.row < b.row;
  };
  if (!std::is_sorted(entries.begin(), entries.end(), is_before)) {
    std::sort(entries.begin(), entries.end(), is_before);
  }
}

class Checker {
 public:
  Checker(const AllocationTable& table, const TableLimits& limits, std::size_t limit) noexcept
      : table_(table), limits_(limits), limit_(limit) {}

  std::vector<TableProblem> run() {
    check_sample_ids();
    check_bounds();
    check_pages();
    check_overlaps();
    check_samples();
    return std::move(problems_);
  }

 private:
  [[nodiscard]] bool is_full() const noexcept { return problems_.size() >= limit_; }

  void report(std::uint64_t row, TableProblemKind kind, std::uint64_t other_row = kNoRow) {
    if (!is_full()) problems_.push_back({row, kind, other_row});
  }

  [[nodiscard]] bool is_in_bounds(const TableRow& row) const noexcept {
    std::uint64_t end = 0;
    return checked_add(row.ptr, row.size, end) && row.ptr >= limits_.data_start &&
           end <= limits_.data_end;
  }

  // Rows the checks after check_bounds() look at: what lies outside is reported already.
  [[nodiscard]] bool is_allocation(const TableRow& row) const noexcept {
    return row.size > 0 && is_in_bounds(row);
  }

  void check_sample_ids() {
    for (std::size_t i = 0; i < table_.rows() && !is_full(); ++i) {
      if (table_.row(i).sample_id >= limits_.num_samples) {
        report(i, TableProblemKind::sample_id_out_of_range);
      }
    }
  }

  void check_bounds() {
    for (std::size_t i = 0; i < table_.rows() && !is_full(); ++i) {
      const TableRow row = table_.row(i);
      if (row.size > 0 && !is_in_bounds(row)) report(i, TableProblemKind::out_of_bounds);
    }
  }

  void check_pages() {
    for (std::size_t i = 0; i < table_.rows() && !is_full(); ++i) {
      const TableRow row = table_.row(i);
      if (is_allocation(row) && page_of(row.ptr) != page_of(row.ptr + row.size - 1)) {
        report(i, TableProblemKind::crosses_page);
      }
    }
  }

  // In the order of pointers a row overlaps an earlier one exactly when it begins before the end of
  // the farthest-reaching of them.
  void check_overlaps() {
    if (is_full()) return;
    const std::vector<Keyed> order = sorted_rows(&TableRow::ptr);
    std::uint64_t farthest_end = 0;
    std::uint64_t farthest_row = kNoRow;
    for (const Keyed& entry : order) {
      if (entry.key < farthest_end) report(entry.row, TableProblemKind::overlap, farthest_row);
      const std::uint64_t end = entry.key + table_.row(entry.row).size;
      if (end > farthest_end) {
        farthest_end = end;
        farthest_row = entry.row;
      }
    }
  }

  // Compares each row of a sample with the sample's first row.
  void check_samples() {
    if (is_full()) return;
    const std::vector<Keyed> order = sorted_rows(&TableRow::sample_id);
    for (std::size_t i = 0, first = 0; i < order.size(); ++i) {
      if (order[i].key != order[first].key) first = i;
      if (page_of(table_.row(order[i].row).ptr) != page_of(table_.row(order[first].row).ptr)) {
        report(order[i].row, TableProblemKind::sample_on_several_pages, order[first].row);
      }
    }
  }

  [[nodiscard]] std::vector<Keyed> sorted_rows(std::uint64_t TableRow::* key) const {
    std::vector<Keyed> order;
    order.reserve(table_.rows());
    for (std::size_t i = 0; i < table_.rows(); ++i) {
      const TableRow row = table_.row(i);
      if (is_allocation(row)) order.push_back({row.*key, i});
    }
    sort_by_key(order);
    return order;
  }

  [[nodiscard]] std::uint64_t page_of(std::uint64_t ptr) const noexcept {
    return ptr / limits_.page_size;
  }

  const AllocationTable& table_;
  const TableLimits& limits_;
  std::size_t limit_;
  std::vector<TableProblem> problems_;
};

}  // namespace

std::string_view problem_name(TableProblemKind kind) noexcept {
  switch (kind) {
    case TableProblemKind::sample_id_out_of_range:
      return "sample_id_out_of_range";
    case TableProblemKind::out_of_bounds:
      return "out_of_bounds";
    case TableProblemKind::crosses_page:
      return "crosses_page";
    case TableProblemKind::overlap:
      return "overlap";
    case TableProblemKind::sample_on_several_pages:
      return "sample_on_several_pages";
  }
  return "unknown";
}

Result<std::vector<TableProblem>> AllocationTable::check(const TableLimits& limits,
                                                         std::size_t limit) const noexcept {
  if (!std::has_single_bit(limits.page_size)) {
    return Status(Code::invalid_argument, Detail("the page size must be a power of two, not ")
                                              << limits.page_size);
  }
  try {
    return Checker(*this, limits, limit).run();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory to sort the allocation table");
  }
}

}  // namespace headrace
