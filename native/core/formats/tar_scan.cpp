#include "headrace/formats/tar_scan.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "headrace/checksum.hpp"
#include "headrace/formats/tar.hpp"

namespace headrace {
namespace tar_headers {
namespace {

constexpr std::uint64_t kBlock = kTarBlockSize;
constexpr std::uint64_t kMostExtra = 1 << 20;  // bytes of a long name or of pax records
constexpr std::uint64_t kMostSize = INT64_MAX - 2 * kBlock;
constexpr std::uint64_t kMostBehind = 20 * kBlock;  // a record, as tars are filled up to

struct Field {
  std::size_t at;
  std::size_t size;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr std::size_t kType = 156;
constexpr Field kMagic{257, 8};
constexpr Field kPrefix{345, 155};
constexpr std::size_t kIsExtended = 482;       // of a sparse file of GNU
constexpr std::size_t kIsExtendedAgain = 504;  // of the blocks that follow

std::string_view text_of(ByteSpan header, Field field) noexcept {
  return {reinterpret_cast<const char*>(header.data()) + field.at, field.size};
}

std::string_view until_nul(std::string_view text) noexcept {
  return text.substr(0, text.find('\0'));
}

unsigned char byte_of(ByteSpan header, std::size_t at) noexcept {
  return std::to_integer<unsigned char>(header[at]);
}

bool is_zero(ByteSpan block) noexcept {
  return std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
}

// Octal digits between blanks and NULs; or, where the first bit is set, a big-endian number.
std::optional<std::uint64_t> number_of(std::string_view field) noexcept {
  std::uint64_t number = 0;
  const auto first = static_cast<unsigned char>(field.front());
  if (first & 0x80U) {
    if (first != 0x80U) return std::nullopt;  // negative, or larger than any file
    for (const char c : field.substr(1)) {
      if (number >> 55U) return std::nullopt;
      number = number << 8U | static_cast<unsigned char>(c);
    }
    return number;
  }
  std::size_t i = 0;
  while (i < field.size() && field[i] == ' ') ++i;
  for (; i < field.size() && field[i] >= '0' && field[i] <= '7'; ++i) {
    number = number * 8 + static_cast<std::uint64_t>(field[i] - '0');
  }
  for (; i < field.size(); ++i) {
    if (field[i] != ' ' && field[i] != '\0') return std::nullopt;
  }
  return number;
}

// The sum of the bytes of words, each masked first: eight bytes at a time, added in pairs. A pair
// holds the sum of all words of a block.
std::uint64_t sum_of_bytes(ByteSpan words, std::uint64_t mask) noexcept {
  constexpr std::uint64_t kPairs = 0x00FF00FF00FF00FF;
  std::uint64_t pairs = 0;
  for (std::size_t i = 0; i < words.size(); i += sizeof pairs) {
    std::uint64_t word = 0;
    std::memcpy(&word, words.data() + i, sizeof word);
    word &= mask;
    pairs += (word & kPairs) + (word >> 8U & kPairs);
  }
  std::uint64_t sum = 0;
  for (unsigned shift = 0; shift < 64; shift += 16) sum += pairs >> shift & 0xFFFFU;
  return sum;
}

// The sum of all bytes, those of the checksum taken as blanks; some old programs added signed ones.
bool has_right_checksum(ByteSpan header) noexcept {
  constexpr std::uint64_t kAll = 0xFFFFFFFFFFFFFFFF;
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  const auto said = number_of(text_of(header, kChecksum));
  if (!said) return false;
  const ByteSpan own = header.subspan(kChecksum.at, kChecksum.size);
  const std::uint64_t sum =
      sum_of_bytes(header, kAll) - sum_of_bytes(own, kAll) + kChecksum.size * std::uint64_t{' '};
  if (*said == sum) return true;
  const std::uint64_t high = sum_of_bytes(header, kHighBits) - sum_of_bytes(own, kHighBits);
  return *said == sum - 2 * high;  // modulo 2^64, where it is negative
}

std::optional<std::uint64_t> decimal_of(std::string_view text) noexcept {
  if (text.empty() || text.size() > 18) return std::nullopt;
  std::uint64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return number;
}

void put_name(ByteSpan header, std::string& out) {
  out.clear();
  const std::string_view magic = text_of(header, kMagic);
  const std::string_view prefix = until_nul(text_of(header, kPrefix));
  if (magic.starts_with(std::string_view("ustar\0", 6)) && !prefix.empty()) {
    out.append(prefix);
    out += '/';
  }
  out.append(until_nul(text_of(header, kName)));
}

std::string_view reason_for(char type) noexcept {
  switch (type) {
    case '1':
    case '2':
      return "a link";
    case '3':
    case '4':
      return "a device";
    case '6':
      return "a pipe";
    case 'S':
      return "sparse";
    case 'M':
      return "a part of a file of several volumes";
    case 'V':
      return "the label of a volume";
    default:
      return "of a kind that is not known";
  }
}

}  // namespace
}  // namespace tar_headers

Status TarScanner::advance(std::size_t headers) noexcept {
  try {
    for (std::size_t i = 0; i < headers && !is_done_; ++i) {
      if (Status status = step(); !status.is_ok()) return status;
    }
  } catch (const std::bad_alloc&) {
    return {Code::out_of_memory, "no memory for the list of files"};
  } catch (const std::exception&) {
    return {Code::too_large, "too many files"};
  }
  return {};
}

Status TarScanner::finish() {
  is_done_ = true;
  if (next_.path || next_.size) {
    return {Code::corrupt, "a long name or a size stands before no file",
            static_cast<std::int64_t>(at_)};
  }
  return {};
}

Status TarScanner::content_of(std::uint64_t size, ByteSpan& content) const {
  if (size > tar_headers::kMostExtra) {
    return {Code::too_large,
            Detail("what stands before a file takes ")
                << size << " bytes; at most " << tar_headers::kMostExtra << " are read",
            static_cast<std::int64_t>(at_)};
  }
  if (!is_inside(at_ + tar_headers::kBlock, size, tar_.size())) {
    return {Code::truncated, "the file ends in the middle of a long name or of pax records",
            static_cast<std::int64_t>(tar_.size())};
  }
  content = tar_.subspan(at_ + tar_headers::kBlock, size);
  return {};
}

Status TarScanner::read_record(std::string_view record, std::uint64_t at, Extras& extras) const {
  const std::size_t equals = record.find('=');
  if (equals == std::string_view::npos) {
    return {Code::corrupt, "a pax record has no '='", static_cast<std::int64_t>(at)};
  }
  const std::string_view key = record.substr(0, equals);
  const std::string_view value = record.substr(equals + 1);
  if (key == "path") {
    extras.path.reset();
    if (!value.empty()) extras.path = value;
  } else if (key == "size") {
    extras.size = tar_headers::decimal_of(value);
    if (!value.empty() && !extras.size) {
      return {Code::corrupt, "the size in a pax record is no number",
              static_cast<std::int64_t>(at)};
    }
  } else if (key.starts_with("GNU.sparse.")) {
    extras.is_sparse = true;
  }
  return {};
}

// "27 path=...\n": the number counts the whole record.
Status TarScanner::read_pax(ByteSpan records, std::uint64_t at, Extras& extras) const {
  std::string_view text(reinterpret_cast<const char*>(records.data()), records.size());
  while (!text.empty() && text.front() != '\0') {
    const std::size_t blank = text.substr(0, 20).find(' ');
    const auto size = blank == std::string_view::npos
                          ? std::nullopt
                          : tar_headers::decimal_of(text.substr(0, blank));
    if (!size || *size < blank + 2 || *size > text.size() || text[*size - 1] != '\n') {
      return {Code::corrupt, "a pax record has a wrong length", static_cast<std::int64_t>(at)};
    }
    const std::string_view record = text.substr(blank + 1, *size - blank - 2);
    if (Status status = read_record(record, at, extras); !status.is_ok()) return status;
    text.remove_prefix(*size);
    at += *size;
  }
  return {};
}

void TarScanner::note(std::string_view reason) {
  for (TarNote& known : notes_) {
    if (known.reason == reason) {
      ++known.count;
      return;
    }
  }
  notes_.push_back({reason, 1, name_});
}

// Tars that were put one after the other: only the first counts, and that should be known.
void TarScanner::look_behind() {
  const std::uint64_t end = std::min<std::uint64_t>(tar_.size(), at_ + tar_headers::kMostBehind);
  for (std::uint64_t at = at_; at + tar_headers::kBlock <= end; at += tar_headers::kBlock) {
    const ByteSpan block = tar_.subspan(at, tar_headers::kBlock);
    if (tar_headers::is_zero(block)) continue;
    if (tar_headers::has_right_checksum(block)) {
      tar_headers::put_name(block, name_);
      note("in another tar that follows the first");
    }
    return;
  }
}

Status TarScanner::add_file(std::uint64_t size) {
  const std::uint64_t start = at_ + tar_headers::kBlock;
  if (!is_inside(start, size, tar_.size())) {
    return {Code::truncated,
            Detail() << size << " bytes from byte " << start
                     << " on should be there, and the file has " << tar_.size(),
            static_cast<std::int64_t>(tar_.size())};
  }
  const NameProblem problem = clean_member_name(name_, cleaned_);
  if (problem != NameProblem::none) {
    return {Code::corrupt, words_of(problem), static_cast<std::int64_t>(at_)};
  }
  offsets_.push_back(start);
  sizes_.push_back(size);
  names_.add(cleaned_);
  if (makes_checksums_) sum_up(start, size);
  return {};
}

// What a file is filled up with is read, too: the CPU fetches memory ahead only of reads that leave
// no gap, and twice as fast.
void TarScanner::sum_up(std::uint64_t start, std::uint64_t size) {
  const std::uint64_t end = start + size;
  const std::uint64_t next =
      std::min<std::uint64_t>(round_up(end, tar_headers::kBlock), tar_.size());
  checksums_.push_back(crc32c(tar_.subspan(start, size)));
  for (std::uint64_t at = end; at < next; at += 64) {
    *static_cast<const volatile std::byte*>(&tar_[at]);
  }
}

// The map of a sparse file goes on in blocks after its header.
Status TarScanner::skip_sparse(ByteSpan header) {
  bool has_more = tar_headers::byte_of(header, tar_headers::kIsExtended) != 0;
  while (has_more) {
    if (!is_inside(at_ + tar_headers::kBlock, tar_headers::kBlock, tar_.size())) {
      return {Code::truncated, "the file ends in the map of a sparse file",
              static_cast<std::int64_t>(tar_.size())};
    }
    at_ += tar_headers::kBlock;
    has_more = tar_headers::byte_of(tar_.subspan(at_, tar_headers::kBlock),
                                    tar_headers::kIsExtendedAgain) != 0;
  }
  return {};
}

// What stands before a file and says more about it, or about all that follow.
Status TarScanner::read_extra(char type, std::uint64_t size) {
  ByteSpan content;
  if (Status status = content_of(size, content); !status.is_ok()) return status;
  const std::string_view text(reinterpret_cast<const char*>(content.data()), content.size());
  if (type == 'L') next_.path = std::string(tar_headers::until_nul(text));
  if (type == 'x' || type == 'X' || type == 'g') {
    Status status = read_pax(content, at_ + tar_headers::kBlock, type == 'g' ? always_ : next_);
    if (!status.is_ok()) return status;
  }
  at_ += tar_headers::kBlock + round_up(size, tar_headers::kBlock);
  return {};
}

Status TarScanner::read_member(ByteSpan header, char type, std::uint64_t size) {
  if (next_.path || always_.path) {
    name_ = next_.path ? *next_.path : *always_.path;
  } else {
    tar_headers::put_name(header, name_);
  }
  const bool is_sparse = type == 'S' || next_.is_sparse || always_.is_sparse;
  const bool is_file = type == '0' || type == '\0' || type == '7';
  const bool is_folder = type == '5' || (type == '\0' && name_.ends_with('/'));
  next_ = {};
  if (type == 'S') {
    if (Status status = skip_sparse(header); !status.is_ok()) return status;
  }
  if (is_sparse) {
    note(tar_headers::reason_for('S'));
  } else if (is_file && !is_folder) {
    if (Status status = add_file(size); !status.is_ok()) return status;
  } else if (!is_folder && type != 'D') {
    note(tar_headers::reason_for(type));
  }
  const bool has_content = !(type >= '1' && type <= '6') && !is_folder;
  at_ += tar_headers::kBlock;
  if (has_content) at_ += round_up(size, tar_headers::kBlock);
  if (at_ > round_up(tar_.size(), tar_headers::kBlock)) {
    return {Code::truncated, "the file ends in the middle of a member",
            static_cast<std::int64_t>(tar_.size())};
  }
  return {};
}

Status TarScanner::step() {
  if (!is_inside(at_, tar_headers::kBlock, tar_.size())) {
    return {Code::truncated, "the archive ends without the block of zeros that a tar ends with",
            static_cast<std::int64_t>(tar_.size())};
  }
  const ByteSpan header = tar_.subspan(at_, tar_headers::kBlock);
  const char type = static_cast<char>(tar_headers::byte_of(header, tar_headers::kType));
  if (type == '\0' && tar_headers::byte_of(header, 0) == 0 && tar_headers::is_zero(header)) {
    look_behind();
    return finish();
  }
  if (!tar_headers::has_right_checksum(header)) {
    return {Code::wrong_checksum, "here should be the header of a file, and its checksum is wrong",
            static_cast<std::int64_t>(at_)};
  }
  auto size = tar_headers::number_of(tar_headers::text_of(header, tar_headers::kSize));
  const bool is_extra = type == 'L' || type == 'K' || type == 'x' || type == 'X' || type == 'g';
  if (!is_extra && (next_.size || always_.size)) size = next_.size ? next_.size : always_.size;
  if (!size || *size > tar_headers::kMostSize) {
    return {Code::corrupt, "the size of a file is no number", static_cast<std::int64_t>(at_)};
  }
  return is_extra ? read_extra(type, *size) : read_member(header, type, *size);
}

}  // namespace headrace
