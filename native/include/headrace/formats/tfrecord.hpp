// The records of a TFRecord file, one after the other:
//
//   0      8     u64   N
//   8      4     u32   masked CRC-32C of the 8 bytes before it
//   12     N           data
//   12+N   4     u32   masked CRC-32C of the data
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/bytes.hpp"
#include "headrace/io/gather.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::size_t kTfrecordHeadSize = 12;
inline constexpr std::size_t kTfrecordTailSize = 4;

[[nodiscard]] std::uint32_t masked_crc32c(ByteSpan data) noexcept;

struct TfrecordScan {
  std::size_t count = 0;   // records that were found
  std::uint64_t next = 0;  // where the next would begin; the end of the file after the last
};

// Finds records from byte `start` on, as many as `offsets` and `sizes` have room for: where the
// data of each begin, and how many bytes they are. Lengths are checked, data are not looked at.
// An error's offset is the byte where the bad record begins; `out` says what came before it.
Status scan_tfrecord(ByteSpan file, std::uint64_t start, std::span<std::uint64_t> offsets,
                     std::span<std::uint64_t> sizes, TfrecordScan& out) noexcept;

// Compares the data of records with the checksums that follow them. Each span is the data of a
// record; `base` also has the checksum. An error's offset is the index of the bad record. Where
// `checksums` has room for all records, the CRC-32C of their data goes there.
Status check_tfrecords(ByteSpan base, SpanList records,
                       std::span<std::uint32_t> checksums = {}) noexcept;

// The same, and copies a part of each record, span i of `parts`, to destinations[i]; a record is
// still in the CPU's cache when it is copied. A part that does not lie in its record is
// `out_of_bounds`. Where a record is bad, some parts may have been copied.
Status copy_checked_tfrecords(ByteSpan base, SpanList records, SpanList parts,
                              std::span<std::byte* const> destinations) noexcept;

// What stands before and after the data of each record: 12 and 4 bytes, one after the other.
Status frame_tfrecords(std::span<const ByteSpan> records, MutableByteSpan out) noexcept;

}  // namespace headrace
