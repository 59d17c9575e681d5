#include "headrace/formats/recordio.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace headrace {
namespace {

enum PartFlag : std::uint32_t { whole_part = 0, first_part = 1, middle_part = 2, last_part = 3 };

constexpr unsigned kPartSizeBits = 29;

void append_word(std::string& out, std::uint32_t value) {
  for (unsigned i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

struct RecordPart {
  std::uint32_t flag = whole_part;
  std::uint64_t size = 0;
};

Status read_part(ByteSpan file, std::uint64_t at, RecordPart& part) noexcept {
  const auto offset = static_cast<std::int64_t>(at);
  if (!is_inside(at, kRecordioHeadSize, file.size())) {
    return {Code::truncated,
            Detail("a record begins with 8 bytes, and the file ends after ")
                << file.size() - std::min<std::uint64_t>(at, file.size()),
            offset};
  }
  const std::uint32_t magic = load_u32_le(file.data() + at);
  if (magic != kRecordioMagic) {
    return {Code::corrupt,
            Detail("a record begins with ")
                << Hex32{kRecordioMagic} << ", and here is " << Hex32{magic},
            offset};
  }
  const std::uint32_t word = load_u32_le(file.data() + at + 4);
  part = {word >> kPartSizeBits, word & kRecordioMaxPart};
  if (!is_inside(at + kRecordioHeadSize, part.size, file.size())) {
    return {Code::truncated,
            Detail("a part of ") << part.size << " bytes is announced, and the file has "
                                 << file.size() - at - kRecordioHeadSize << " more",
            offset};
  }
  return {};
}

// Where the part after this one begins; the zeros of the last may be missing.
std::uint64_t part_end(ByteSpan file, std::uint64_t at, const RecordPart& part) noexcept {
  return std::min<std::uint64_t>(at + kRecordioHeadSize + round_up(part.size, 4), file.size());
}

// Goes from the first part of a record to its last; `at` is then behind it, `end` the end of its
// data.
Status walk_record(ByteSpan file, std::uint64_t& at, std::uint64_t& end, bool& is_split) noexcept {
  RecordPart part;
  Status status = read_part(file, at, part);
  if (!status.is_ok()) return status;
  is_split = part.flag == first_part;
  if (part.flag != whole_part && part.flag != first_part) {
    return {Code::corrupt, "a later part of a record stands where a record should begin",
            static_cast<std::int64_t>(at)};
  }
  end = at + kRecordioHeadSize + part.size;
  at = part_end(file, at, part);
  while (is_split && part.flag != last_part) {
    status = read_part(file, at, part);
    if (!status.is_ok()) return status;
    if (part.flag != middle_part && part.flag != last_part) {
      return {Code::corrupt, "a record begins before the last part of the one before it",
              static_cast<std::int64_t>(at)};
    }
    end = at + kRecordioHeadSize + part.size;
    at = part_end(file, at, part);
  }
  return {};
}

}  // namespace

Status scan_recordio(ByteSpan file, std::uint64_t start, RecordioRecords records,
                     RecordioScan& out) noexcept {
  out = {0, start};
  if (start > file.size()) return {Code::out_of_bounds, "the file has ended before"};
  while (out.count < records.offsets.size() && out.next < file.size()) {
    std::uint64_t at = out.next;
    std::uint64_t end = 0;
    bool is_split = false;
    Status status = walk_record(file, at, end, is_split);
    if (!status.is_ok()) return status;
    records.offsets[out.count] = out.next;
    records.sizes[out.count] = end - out.next;
    records.is_split[out.count] = is_split ? 1 : 0;
    ++out.count;
    out.next = at;
  }
  return {};
}

Status join_recordio(ByteSpan record, std::string& out) noexcept {
  try {
    out.clear();
    out.reserve(record.size());
    std::uint64_t at = 0;
    for (RecordPart part;;) {
      Status status = read_part(record, at, part);
      if (!status.is_ok()) return status;
      const bool is_begin = part.flag == whole_part || part.flag == first_part;
      if (part.flag > last_part || is_begin != (at == 0)) {
        return {Code::corrupt, "the parts of the record do not fit together",
                static_cast<std::int64_t>(at)};
      }
      if (!is_begin) append_word(out, kRecordioMagic);
      out.append(reinterpret_cast<const char*>(record.data()) + at + kRecordioHeadSize, part.size);
      if (part.flag == whole_part || part.flag == last_part) return {};
      at = part_end(record, at, part);
    }
  } catch (const std::bad_alloc&) {
    return {Code::out_of_memory, "no memory for a record"};
  }
}

namespace {

Status add_part(std::string& out, std::uint32_t flag, ByteSpan data) {
  if (data.size() > kRecordioMaxPart) {
    return {Code::too_large, Detail("a part of a record has ")
                                 << kRecordioMaxPart << " bytes at most, and this has "
                                 << data.size()};
  }
  append_word(out, kRecordioMagic);
  append_word(out, flag << kPartSizeBits | static_cast<std::uint32_t>(data.size()));
  out.append(reinterpret_cast<const char*>(data.data()), data.size());
  out.append(round_up(data.size(), 4) - data.size(), '\0');
  return {};
}

}  // namespace

Status encode_recordio(ByteSpan data, std::string& out) noexcept {
  try {
    std::size_t begin = 0;
    for (std::size_t at = 0; at + 4 <= data.size(); at += 4) {
      if (load_u32_le(data.data() + at) != kRecordioMagic) continue;
      Status status =
          add_part(out, begin == 0 ? first_part : middle_part, data.subspan(begin, at - begin));
      if (!status.is_ok()) return status;
      begin = at + 4;
    }
    return add_part(out, begin == 0 ? whole_part : last_part, data.subspan(begin));
  } catch (const std::bad_alloc&) {
    return {Code::out_of_memory, "no memory for a record"};
  }
}

}  // namespace headrace
