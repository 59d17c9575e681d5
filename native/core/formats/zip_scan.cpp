#include "headrace/formats/zip_scan.hpp"

#include <algorithm>
#include <new>
#include <numeric>
#include <optional>
#include <string_view>

namespace headrace {
namespace zip_directory {
namespace {

constexpr std::size_t kEndSize = 22;
constexpr std::size_t kLocatorSize = 20;
constexpr std::size_t kWideEndSize = 56;
constexpr std::size_t kEntrySize = 46;
constexpr std::size_t kLocalSize = 30;
constexpr std::size_t kMostComment = 0xffff;
constexpr std::uint32_t kEndMark = 0x06054b50;
constexpr std::uint32_t kLocatorMark = 0x07064b50;
constexpr std::uint32_t kWideEndMark = 0x06064b50;
constexpr std::uint32_t kEntryMark = 0x02014b50;
constexpr std::uint32_t kLocalMark = 0x04034b50;
constexpr std::uint32_t kIsWide = 0xffffffff;
constexpr unsigned kEncrypted = 1;
constexpr unsigned kIsUtf8 = 1U << 11U;
constexpr std::uint64_t kMostInflated = 1032;  // what a byte of deflate can become
constexpr unsigned kUnixKind = 0170000;
constexpr unsigned kUnixFile = 0100000;
constexpr unsigned kUnixFolder = 0040000;

// What bytes from 128 on mean in names that are not UTF-8: code page 437.
constexpr std::uint16_t kOldLetters[128] = {
    0x00c7, 0x00fc, 0x00e9, 0x00e2, 0x00e4, 0x00e0, 0x00e5, 0x00e7, 0x00ea, 0x00eb, 0x00e8, 0x00ef,
    0x00ee, 0x00ec, 0x00c4, 0x00c5, 0x00c9, 0x00e6, 0x00c6, 0x00f4, 0x00f6, 0x00f2, 0x00fb, 0x00f9,
    0x00ff, 0x00d6, 0x00dc, 0x00a2, 0x00a3, 0x00a5, 0x20a7, 0x0192, 0x00e1, 0x00ed, 0x00f3, 0x00fa,
    0x00f1, 0x00d1, 0x00aa, 0x00ba, 0x00bf, 0x2310, 0x00ac, 0x00bd, 0x00bc, 0x00a1, 0x00ab, 0x00bb,
    0x2591, 0x2592, 0x2593, 0x2502, 0x2524, 0x2561, 0x2562, 0x2556, 0x2555, 0x2563, 0x2551, 0x2557,
    0x255d, 0x255c, 0x255b, 0x2510, 0x2514, 0x2534, 0x252c, 0x251c, 0x2500, 0x253c, 0x255e, 0x255f,
    0x255a, 0x2554, 0x2569, 0x2566, 0x2560, 0x2550, 0x256c, 0x2567, 0x2568, 0x2564, 0x2565, 0x2559,
    0x2558, 0x2552, 0x2553, 0x256b, 0x256a, 0x2518, 0x250c, 0x2588, 0x2584, 0x258c, 0x2590, 0x2580,
    0x03b1, 0x00df, 0x0393, 0x03c0, 0x03a3, 0x03c3, 0x00b5, 0x03c4, 0x03a6, 0x0398, 0x03a9, 0x03b4,
    0x221e, 0x03c6, 0x03b5, 0x2229, 0x2261, 0x00b1, 0x2265, 0x2264, 0x2320, 0x2321, 0x00f7, 0x2248,
    0x00b0, 0x2219, 0x00b7, 0x221a, 0x207f, 0x00b2, 0x25a0, 0x00a0};

struct Directory {
  std::uint64_t at;
  std::uint64_t size;
  std::uint64_t entries;
  std::uint64_t shift;  // bytes that somebody has put before the zip
};

struct Entry {
  std::string_view name;
  std::string_view extra;
  unsigned flags;
  unsigned method;
  unsigned unix_mode;
  std::uint32_t checksum;
  std::uint64_t size;
  std::uint64_t full_size;
  std::uint64_t local;
};

std::uint32_t u16_at(ByteSpan data, std::uint64_t at) noexcept {
  return std::to_integer<std::uint32_t>(data[at]) | std::to_integer<std::uint32_t>(data[at + 1])
                                                        << 8U;
}

std::uint32_t u32_at(ByteSpan data, std::uint64_t at) noexcept {
  return u16_at(data, at) | u16_at(data, at + 2) << 16U;
}

std::uint64_t u64_at(ByteSpan data, std::uint64_t at) noexcept {
  return load_u64_le(data.data() + at);
}

std::string_view chars_at(ByteSpan data, std::uint64_t at, std::size_t size) noexcept {
  return {reinterpret_cast<const char*>(data.data()) + at, size};
}

Status bad_zip(std::string_view problem, std::uint64_t at) noexcept {
  return {Code::corrupt, problem, static_cast<std::int64_t>(at)};
}

std::optional<std::uint64_t> find_end(ByteSpan zip) noexcept {
  if (zip.size() < kEndSize) return std::nullopt;
  const std::uint64_t last = zip.size() - kEndSize;
  const std::uint64_t first = last > kMostComment ? last - kMostComment : 0;
  for (std::uint64_t at = last + 1; at-- > first;) {
    if (u32_at(zip, at) == kEndMark && at + kEndSize + u16_at(zip, at + 20) == zip.size())
      return at;
  }
  return std::nullopt;
}

Status find_directory(ByteSpan zip, Directory& out) noexcept {
  const auto end = find_end(zip);
  if (!end) {
    return {Code::truncated, "the list of files that a zip ends with is not there",
            static_cast<std::int64_t>(zip.size())};
  }
  if (u16_at(zip, *end + 4) != 0 || u16_at(zip, *end + 6) != 0) {
    return {Code::unsupported, "it is one part of a zip of several parts",
            static_cast<std::int64_t>(*end)};
  }
  std::uint64_t entries = u16_at(zip, *end + 10), size = u32_at(zip, *end + 12);
  std::uint64_t said = u32_at(zip, *end + 16), behind = *end;
  if (*end >= kLocatorSize + kWideEndSize && u32_at(zip, *end - kLocatorSize) == kLocatorMark) {
    behind = *end - kLocatorSize - kWideEndSize;
    if (u32_at(zip, behind) != kWideEndMark) {
      return bad_zip("the record of large zips is not where it should be", *end);
    }
    entries = u64_at(zip, behind + 32);
    size = u64_at(zip, behind + 40);
    said = u64_at(zip, behind + 48);
  }
  if (size > behind || said > behind - size) {
    return bad_zip("the list of files would begin before the file does", *end);
  }
  out = {behind - size, size, entries, behind - size - said};
  if (entries > size / kEntrySize)
    return bad_zip("the list of files is too short for their number", *end);
  return {};
}

// The numbers that had no room: those that are all ones, in this order.
Status read_wide(std::string_view extra, std::uint64_t at, Entry& entry) noexcept {
  const ByteSpan data(reinterpret_cast<const std::byte*>(extra.data()), extra.size());
  std::uint64_t* const numbers[] = {&entry.full_size, &entry.size, &entry.local};
  for (std::size_t here = 0; here + 4 <= data.size();) {
    const std::size_t size = u16_at(data, here + 2);
    if (size > data.size() - here - 4) break;  // some programs leave rubbish there
    if (u16_at(data, here) == 1) {
      std::size_t next = here + 4;
      for (std::uint64_t* number : numbers) {
        if (*number != kIsWide) continue;
        if (next + 8 > here + 4 + size)
          return bad_zip("the sizes of a large file are not whole", at);
        *number = u64_at(data, next);
        next += 8;
      }
      return {};
    }
    here += 4 + size;
  }
  return {};
}

Status read_entry(ByteSpan zip, std::uint64_t at, std::uint64_t end, Entry& entry,
                  std::uint64_t& next) noexcept {
  if (end - at < kEntrySize || u32_at(zip, at) != kEntryMark) {
    return bad_zip("here should be an entry of the list of files", at);
  }
  const std::size_t name = u16_at(zip, at + 28), extra = u16_at(zip, at + 30),
                    comment = u16_at(zip, at + 32);
  if (name + extra + comment > end - at - kEntrySize)
    return bad_zip("an entry of the list of files is cut off", at);
  entry = {chars_at(zip, at + kEntrySize, name),
           chars_at(zip, at + kEntrySize + name, extra),
           u16_at(zip, at + 8),
           u16_at(zip, at + 10),
           u32_at(zip, at + 38) >> 16U,
           u32_at(zip, at + 16),
           u32_at(zip, at + 20),
           u32_at(zip, at + 24),
           u32_at(zip, at + 42)};
  next = at + kEntrySize + name + extra + comment;
  return read_wide(entry.extra, at, entry);
}

void put_letter(std::uint32_t letter, std::string& out) {
  if (letter < 0x800) {
    out += static_cast<char>(0xc0U | letter >> 6U);
  } else {
    out += static_cast<char>(0xe0U | letter >> 12U);
    out += static_cast<char>(0x80U | (letter >> 6U & 0x3fU));
  }
  out += static_cast<char>(0x80U | (letter & 0x3fU));
}

std::string name_of(const Entry& entry) {
  if (entry.flags & kIsUtf8) return std::string(entry.name);
  std::string out;
  for (const char c : entry.name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 128) {
      out += c;
    } else {
      put_letter(kOldLetters[byte - 128], out);
    }
  }
  return out;
}

// Where the stored bytes begin: after the file's own header, which says its name once more.
Status find_data(ByteSpan zip, const Entry& entry, const Directory& directory,
                 std::uint64_t& data) noexcept {
  std::uint64_t at = 0;
  if (!checked_add(entry.local, directory.shift, at) || !is_inside(at, kLocalSize, directory.at)) {
    return bad_zip("the header of a file would lie outside the files", directory.at);
  }
  if (u32_at(zip, at) != kLocalMark) return bad_zip("here should be the header of a file", at);
  const std::size_t name = u16_at(zip, at + 26);
  data = at + kLocalSize + name + u16_at(zip, at + 28);
  if (data > directory.at || chars_at(zip, at + kLocalSize, name) != entry.name ||
      u16_at(zip, at + 8) != entry.method) {
    return bad_zip("the header of a file and the list of files contradict each other", at);
  }
  if (!is_inside(data, entry.size, directory.at))
    return bad_zip("the bytes of a file would lie outside the files", at);
  return {};
}

Status check_method(const Entry& entry, std::uint64_t at) noexcept {
  if (entry.flags & kEncrypted)
    return {Code::unsupported, "a file is encrypted", static_cast<std::int64_t>(at)};
  if (entry.method == static_cast<unsigned>(ZipMethod::stored)) {
    return entry.size == entry.full_size
               ? Status()
               : bad_zip("a file that is not compressed has two sizes", at);
  }
  if (entry.method != static_cast<unsigned>(ZipMethod::deflated)) {
    return {Code::unsupported,
            Detail("a file is compressed by method ") << entry.method << ", known are 0 and 8",
            static_cast<std::int64_t>(at)};
  }
  if (entry.full_size / kMostInflated > entry.size)
    return bad_zip("a file would become larger than it can", at);
  return {};
}

Status check_apart(const ZipFiles& files) {
  std::vector<std::size_t> order(files.offsets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto before = [&](std::size_t a, std::size_t b) {
    return std::pair(files.offsets[a], files.sizes[a]) <
           std::pair(files.offsets[b], files.sizes[b]);
  };
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::sort(order.begin(), order.end(), before);
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (files.offsets[order[i]] < files.offsets[order[i - 1]] + files.sizes[order[i - 1]]) {
      return bad_zip("two files share bytes; this is a bomb", files.offsets[order[i]]);
    }
  }
  return {};
}

Status add_entry(ByteSpan zip, const Entry& entry, const Directory& directory, std::uint64_t at,
                 ZipFiles& out) {
  const unsigned kind = entry.unix_mode & kUnixKind;
  out.failed.assign(entry.name);
  if (entry.name.ends_with('/') || kind == kUnixFolder) return {};
  if (kind != 0 && kind != kUnixFile) {
    ++out.special;
    return {};
  }
  if (Status status = check_method(entry, at); !status.is_ok()) return status;
  std::uint64_t data = 0;
  if (Status status = find_data(zip, entry, directory, data); !status.is_ok()) return status;
  std::string cleaned;
  const NameProblem problem = clean_member_name(name_of(entry), cleaned);
  if (problem != NameProblem::none) return bad_zip(words_of(problem), at);
  out.offsets.push_back(data);
  out.sizes.push_back(entry.size);
  out.full_sizes.push_back(entry.full_size);
  out.checksums.push_back(entry.checksum);
  out.methods.push_back(static_cast<std::uint8_t>(entry.method));
  out.names.add(cleaned);
  return {};
}

Status scan_entries(ByteSpan zip, const Directory& directory, ZipFiles& out) {
  std::uint64_t at = directory.at;
  const std::uint64_t end = directory.at + directory.size;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    Entry entry{};
    std::uint64_t next = 0;
    if (Status status = read_entry(zip, at, end, entry, next); !status.is_ok()) return status;
    if (Status status = add_entry(zip, entry, directory, at, out); !status.is_ok()) return status;
    at = next;
  }
  out.failed.clear();
  if (at != end) return bad_zip("the list of files is longer than its number of files says", at);
  return check_apart(out);
}

}  // namespace
}  // namespace zip_directory

Status scan_zip(ByteSpan zip, ZipFiles& out) noexcept {
  zip_directory::Directory directory{};
  if (Status status = zip_directory::find_directory(zip, directory); !status.is_ok()) return status;
  try {
    return zip_directory::scan_entries(zip, directory, out);
  } catch (const std::bad_alloc&) {
    return {Code::out_of_memory, "no memory for the list of files"};
  } catch (const std::exception&) {
    return {Code::too_large, "too many files"};
  }
}

}  // namespace headrace
