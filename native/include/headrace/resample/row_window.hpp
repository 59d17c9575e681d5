// The rows between two passes over an image.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace {

// Rows already reduced to the output's width, in one piece of memory, so that the rows of one
// output follow each other.
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

// The same with every row in a place of its own, so that none is moved and few are kept.
template <typename T>
class RowRing {
 public:
  // At most `most_rows` are asked for at once, and `most_made` made at once. Where a row has a
  // multiple of 64 bytes, all begin at one: vectors that cross it take twice as long.
  void reset(std::size_t row_size, std::size_t most_rows, std::size_t most_made) {
    row_size_ = row_size;
    capacity_ = most_rows + most_made - 1;
    const std::size_t size = capacity_ * row_size + kAlignment / sizeof(T);
    if (memory_.size() < size) memory_.resize(size);
    const std::size_t beyond = reinterpret_cast<std::uintptr_t>(memory_.data()) % kAlignment;
    first_ = memory_.data() + (beyond == 0 ? 0 : (kAlignment - beyond) / sizeof(T));
    begin_ = end_ = 0;
  }

  // Makes row_at right for rows first to first + count - 1, by make(row) for those that are not
  // there yet; it fills row_at from `row` on and returns how many.
  template <typename Make>
  void keep(std::size_t first, std::size_t count, Make&& make) noexcept {
    if (first < begin_ || first > end_) begin_ = end_ = first;
    while (end_ < first + count) end_ += make(end_);
    if (end_ - begin_ > capacity_) begin_ = end_ - capacity_;
  }

  [[nodiscard]] T* row_at(std::size_t row) noexcept { return first_ + row % capacity_ * row_size_; }

 private:
  static constexpr std::size_t kAlignment = 64;

  std::vector<T> memory_;
  T* first_ = nullptr;
  std::size_t row_size_ = 0;
  std::size_t capacity_ = 0;  // rows
  std::size_t begin_ = 0;     // of the rows that are there
  std::size_t end_ = 0;
};

}  // namespace headrace
