#include "headrace/formats/tfrecord.hpp"

#include <algorithm>
#include <cstring>

#include "headrace/checksum.hpp"

namespace headrace {
namespace {

constexpr std::size_t kLengthSize = 8;
constexpr std::size_t kFrameSize = kTfrecordHeadSize + kTfrecordTailSize;

void store_le(std::byte* to, std::uint64_t value, std::size_t size) noexcept {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

std::uint32_t mask(std::uint32_t checksum) noexcept {
  return (checksum >> 15 | checksum << 17) + 0xA282EAD8U;
}

}  // namespace

std::uint32_t masked_crc32c(ByteSpan data) noexcept { return mask(crc32c(data)); }

Status scan_tfrecord(ByteSpan file, std::uint64_t start, std::span<std::uint64_t> offsets,
                     std::span<std::uint64_t> sizes, TfrecordScan& out) noexcept {
  out = {0, start};
  if (start > file.size()) return Status(Code::out_of_bounds, "the file has ended before");
  const std::size_t room = std::min(offsets.size(), sizes.size());
  while (out.count < room && out.next < file.size()) {
    const auto at = static_cast<std::int64_t>(out.next);
    const ByteSpan rest = file.subspan(out.next);
    if (rest.size() < kTfrecordHeadSize) {
      return Status(
          Code::truncated,
          Detail("a record begins with 12 bytes, and the file ends after ") << rest.size(), at);
    }
    const std::uint32_t expected = load_u32_le(rest.data() + kLengthSize);
    const std::uint32_t found = masked_crc32c(rest.first(kLengthSize));
    if (expected != found) {
      return Status(Code::wrong_checksum,
                    Detail("the length of a record has the checksum ")
                        << Hex32{found} << ", and " << Hex32{expected} << " is stored",
                    at);
    }
    const std::uint64_t size = load_u64_le(rest.data());
    const std::uint64_t left = rest.size() - kTfrecordHeadSize;
    if (left < kTfrecordTailSize || size > left - kTfrecordTailSize) {
      return Status(Code::truncated,
                    Detail("a record of ")
                        << size << " bytes and its checksum are announced, and the file has "
                        << left << " more",
                    at);
    }
    offsets[out.count] = out.next + kTfrecordHeadSize;
    sizes[out.count] = size;
    ++out.count;
    out.next += size + kFrameSize;
  }
  return {};
}

namespace {

Status check_record(ByteSpan base, std::uint64_t offset, std::uint64_t size, std::int64_t position,
                    std::uint32_t& checksum) noexcept {
  if (!is_inside(offset, size, base.size()) ||
      !is_inside(offset + size, kTfrecordTailSize, base.size())) {
    return Status(Code::out_of_bounds,
                  Detail() << size << " bytes and a checksum from byte " << offset
                           << " on should be there, and there are " << base.size(),
                  position);
  }
  const std::uint32_t expected = load_u32_le(base.data() + offset + size);
  checksum = crc32c(base.subspan(offset, size));
  const std::uint32_t found = mask(checksum);
  return expected == found ? Status() : wrong_checksum(expected, found, position);
}

}  // namespace

Status check_tfrecords(ByteSpan base, SpanList records,
                       std::span<std::uint32_t> checksums) noexcept {
  for (std::size_t i = 0; i < records.offsets.size(); ++i) {
    std::uint32_t checksum = 0;
    Status status = check_record(base, records.offsets[i], records.sizes[i],
                                 static_cast<std::int64_t>(i), checksum);
    if (!status.is_ok()) return status;
    if (i < checksums.size()) checksums[i] = checksum;
  }
  return {};
}

Status copy_checked_tfrecords(ByteSpan base, SpanList records, SpanList parts,
                              std::span<std::byte* const> destinations) noexcept {
  for (std::size_t i = 0; i < records.offsets.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    const std::uint64_t offset = records.offsets[i];
    std::uint32_t checksum = 0;
    Status status = check_record(base, offset, records.sizes[i], position, checksum);
    if (!status.is_ok()) return status;
    const std::uint64_t size = parts.sizes[i];
    if (size == 0) continue;
    if (parts.offsets[i] < offset ||
        !is_inside(parts.offsets[i] - offset, size, records.sizes[i])) {
      return Status(Code::out_of_bounds, "its place lies outside of its record", position);
    }
    std::memcpy(destinations[i], base.data() + parts.offsets[i], size);
  }
  return {};
}

Status frame_tfrecords(std::span<const ByteSpan> records, MutableByteSpan out) noexcept {
  if (out.size() / kFrameSize < records.size()) {
    return Status(Code::invalid_argument, "there is no room for the frames of all records");
  }
  std::byte* to = out.data();
  for (const ByteSpan record : records) {
    store_le(to, record.size(), kLengthSize);
    store_le(to + kLengthSize, masked_crc32c({to, kLengthSize}), 4);
    store_le(to + kTfrecordHeadSize, masked_crc32c(record), kTfrecordTailSize);
    to += kFrameSize;
  }
  return {};
}

}  // namespace headrace
