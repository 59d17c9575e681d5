// Rows already reduced to the output's width, in one piece of memory, so that the rows of one
// output follow each other.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace penstock {

template <typename T>
class RowWindow {
 public:
  void reset(std::size_t row_size, std::size_t most_rows) {
    row_size_ = row_size;
    capacity_ = 2 * most_rows;  // so that each row is moved once at most
    if (memory_.size() < capacity_ * row_size) memory_.resize(capacity_ * row_size);
    begin_ = end_ = slot_ = 0;
  }

  // Rows first to first + count - 1, after make(row, memory) for those that are not there yet.
  template <typename Make>
  const T* rows(std::size_t first, std::size_t count, Make&& make) noexcept {
    if (first < begin_ || first > end_) begin_ = end_ = first;
    slot_ += first - begin_;
    begin_ = first;
    if (slot_ + count > capacity_) {
      std::copy_n(row_at(begin_), (end_ - begin_) * row_size_, memory_.data());
      slot_ = 0;
    }
    for (; end_ < first + count; ++end_) make(end_, row_at(end_));
    return row_at(first);
  }

 private:
  T* row_at(std::size_t row) noexcept {
    return memory_.data() + (slot_ + row - begin_) * row_size_;
  }

  std::vector<T> memory_;
  std::size_t row_size_ = 0;
  std::size_t capacity_ = 0;  // rows
  std::size_t begin_ = 0;     // of the rows that are there
  std::size_t end_ = 0;
  std::size_t slot_ = 0;  // of row begin_
};

}  // namespace penstock
