#include "headrace/formats/text_records.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

namespace headrace {
namespace {

constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";
constexpr char kCsvQuote = '"';

Status record_failure(Code code, std::string_view detail, std::uint64_t at) noexcept {
  return {code, detail, static_cast<std::int64_t>(at)};
}

Status record_too_long(std::uint64_t at) noexcept {
  return {Code::too_large, Detail("a record of more than ") << (kMaxRecordSize >> 20) << " MiB",
          static_cast<std::int64_t>(at)};
}

// The place of a byte in [begin, end), or `end`.
std::uint64_t find_byte(const char* text, char byte, std::uint64_t begin,
                        std::uint64_t end) noexcept {
  const void* found = begin < end ? std::memchr(text + begin, byte, end - begin) : nullptr;
  return found == nullptr ? end
                          : static_cast<std::uint64_t>(static_cast<const char*>(found) - text);
}

bool is_line_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

// Where the record ends that begins here and has a quote in it; `bad_quote` is one that is never
// closed. `end` is where the file ends, or the longest record.
std::uint64_t end_of_quoted_record(const char* text, char delimiter, std::uint64_t at,
                                   std::uint64_t end, std::uint64_t& lines,
                                   std::uint64_t& bad_quote) noexcept {
  bool is_cell_start = true;
  while (at < end && text[at] != '\n') {
    if (is_cell_start && text[at] == kCsvQuote) {
      std::uint64_t close = at + 1;
      for (;; close += 2) {
        const std::uint64_t from = close;
        close = find_byte(text, kCsvQuote, from, end);
        lines += static_cast<std::uint64_t>(std::count(text + from, text + close, '\n'));
        if (close == end) {
          bad_quote = at;
          return end;
        }
        if (close + 1 == end || text[close + 1] != kCsvQuote) break;
      }
      at = close + 1;
      is_cell_start = false;
    } else {
      is_cell_start = text[at] == delimiter;
      ++at;
    }
  }
  return at;
}

}  // namespace

void TextRecords::add(const char* text, std::uint64_t begin, std::uint64_t end) {
  if (end > begin && text[end - 1] == '\r') --end;
  offsets_.push_back(begin);
  sizes_.push_back(end - begin);
}

Status TextRecords::scan_lines(const char* text, std::uint64_t size, std::uint64_t until) {
  while (position_ < size && position_ < until) {
    std::uint64_t at = position_;
    const std::uint64_t most = std::min(size, at + kMaxRecordSize + 1);
    const std::uint64_t end = find_byte(text, '\n', at, most);
    if (end - at > kMaxRecordSize) return record_too_long(at);
    while (at < end && is_line_blank(text[at])) ++at;
    if (at < end) {
      if (text[at] != '{') {
        return record_failure(Code::corrupt,
                              "a line that does not begin with '{', as an object does", at);
      }
      add(text, at, end);
    }
    ++lines_;
    position_ = end + 1;
  }
  return {};
}

Status TextRecords::scan_csv(const char* text, std::uint64_t size, std::uint64_t until) {
  while (position_ < size && position_ < until) {
    const std::uint64_t at = position_;
    const std::uint64_t most = std::min(size, at + kMaxRecordSize + 1);
    std::uint64_t end = find_byte(text, '\n', at, most);
    std::uint64_t lines = 0;
    if (find_byte(text, kCsvQuote, at, end) != end) {
      std::uint64_t bad_quote = size;
      end = end_of_quoted_record(text, delimiter_, at, most, lines, bad_quote);
      if (bad_quote != size && most == size) {
        return record_failure(Code::corrupt, "a quote that is never closed", bad_quote);
      }
    }
    if (end - at > kMaxRecordSize) return record_too_long(at);
    if (end > at && !(end == at + 1 && text[at] == '\r')) add(text, at, end);
    lines_ += lines + 1;
    position_ = end + 1;
  }
  return {};
}

Status TextRecords::scan(ByteSpan file, std::uint64_t until) noexcept {
  const char* text = reinterpret_cast<const char*>(file.data());
  try {
    if (position_ == 0 && std::string_view(text, file.size()).starts_with(kUtf8Mark)) {
      position_ = kUtf8Mark.size();
    }
    return is_csv_ ? scan_csv(text, file.size(), until) : scan_lines(text, file.size(), until);
  } catch (...) {
    return {Code::out_of_memory, "no memory for the places of all records"};
  }
}

}  // namespace headrace
