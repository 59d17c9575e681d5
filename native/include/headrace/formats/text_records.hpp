// Where the records of a text are: lines of JSON, or records of CSV, whose cells may have line ends
// inside of quotes. One pass that looks for line ends; a mark of UTF-8 at the beginning is skipped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::uint64_t kMaxRecordSize = std::uint64_t{256} << 20;

// Failures name the byte at which they were noticed; `line()` is then the number of the line.
class TextRecords {
 public:
  // Lines that each begin with '{', after blanks; lines of blanks alone do not count.
  TextRecords() noexcept = default;
  // Records of CSV; lines with nothing in them do not count.
  explicit TextRecords(char delimiter) noexcept : is_csv_(true), delimiter_(delimiter) {}

  // Goes on to the first record that begins at or behind `until`. The file is the same each time.
  [[nodiscard]] Status scan(ByteSpan file, std::uint64_t until) noexcept;

  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] std::uint64_t line() const noexcept { return lines_ + 1; }
  // Without the ends of the lines.
  [[nodiscard]] const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }
  [[nodiscard]] const std::vector<std::uint64_t>& sizes() const noexcept { return sizes_; }

 private:
  [[nodiscard]] Status scan_lines(const char* text, std::uint64_t size, std::uint64_t until);
  [[nodiscard]] Status scan_csv(const char* text, std::uint64_t size, std::uint64_t until);
  void add(const char* text, std::uint64_t begin, std::uint64_t end);
  void make_room(std::uint64_t position);

  bool is_csv_ = false;
  char delimiter_ = ',';
  std::uint64_t position_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t file_size_ = 0;
  std::vector<std::uint64_t> offsets_, sizes_;
};

}  // namespace headrace
