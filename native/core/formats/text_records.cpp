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

// The closing quote of the cell that begins here, or `end` where there is none.
std::uint64_t closing_quote(const char* text, std::uint64_t at, std::uint64_t end) noexcept {
  std::uint64_t close = find_byte(text, kCsvQuote, at + 1, end);
  while (close + 1 < end && text[close + 1] == kCsvQuote) {
    close = find_byte(text, kCsvQuote, close + 2, end);
  }
  return close;
}

// Where a record ends that has a quote in it.
struct QuotedRecord {
  const char* text;
  char delimiter;
  std::uint64_t end;             // of the file, or of the longest record
  std::uint64_t line_end;        // the first one at or behind the beginning of the record
  std::uint64_t more_lines = 0;  // line ends inside of quotes
  std::uint64_t open_quote;      // one that is never closed, or `end`

  QuotedRecord(const char* whole, char between, std::uint64_t most, std::uint64_t first_line_end)
      : text(whole), delimiter(between), end(most), line_end(first_line_end), open_quote(most) {}

  std::uint64_t find_end(std::uint64_t at) noexcept {
    for (;;) {  // a cell in each turn
      if (at < line_end && text[at] == kCsvQuote) {
        const std::uint64_t close = closing_quote(text, at, end);
        if (close == end) {
          open_quote = at;
          return end;
        }
        if (close > line_end) {
          more_lines += static_cast<std::uint64_t>(std::count(text + at, text + close, '\n'));
          line_end = find_byte(text, '\n', close, end);
        }
        at = close + 1;
      }
      at = find_byte(text, delimiter, at, line_end);
      if (at == line_end) return line_end;
      ++at;
    }
  }
};

}  // namespace

void TextRecords::add(const char* text, std::uint64_t begin, std::uint64_t end) {
  if (end > begin && text[end - 1] == '\r') --end;
  if (offsets_.size() == offsets_.capacity()) make_room(begin);
  offsets_.push_back(begin);
  sizes_.push_back(end - begin);
}

// Memory that is asked for again and again costs more than the search: as many records are expected
// as there would be if the rest were like the beginning.
void TextRecords::make_room(std::uint64_t position) {
  const auto count = static_cast<double>(offsets_.size());
  const double share = static_cast<double>(position + 1) / static_cast<double>(file_size_ + 1);
  const auto expected = static_cast<std::size_t>(1.02 * count / std::min(share, 1.0));
  const std::size_t room = std::clamp(expected, 2 * offsets_.size() + 1024,
                                      std::max<std::size_t>(64 * offsets_.size(), 1024));
  offsets_.reserve(room);
  sizes_.reserve(room);
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
    std::uint64_t more_lines = 0;
    if (find_byte(text, kCsvQuote, at, end) != end) {
      QuotedRecord record(text, delimiter_, most, end);
      end = record.find_end(at);
      more_lines = record.more_lines;
      if (record.open_quote != most && most == size) {
        return record_failure(Code::corrupt, "a quote that is never closed", record.open_quote);
      }
    }
    if (end - at > kMaxRecordSize) return record_too_long(at);
    if (end > at && !(end == at + 1 && text[at] == '\r')) add(text, at, end);
    lines_ += more_lines + 1;
    position_ = end + 1;
  }
  return {};
}

Status TextRecords::scan(ByteSpan file, std::uint64_t until) noexcept {
  const char* text = reinterpret_cast<const char*>(file.data());
  file_size_ = file.size();
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
