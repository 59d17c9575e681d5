// CRC-32C (Castagnoli), the checksum of the annex, and CRC-32 as zlib and FFRecord have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

enum class ChecksumKind : std::uint8_t { crc32c, crc32 };

[[nodiscard]] std::optional<ChecksumKind> parse_checksum_kind(std::string_view name) noexcept;

// Chains as in zlib: crc32c(b, crc32c(a)) is the checksum of a followed by b.
[[nodiscard]] std::uint32_t crc32c(ByteSpan data, std::uint32_t initial = 0) noexcept;

[[nodiscard]] std::uint32_t crc32(ByteSpan data, std::uint32_t initial = 0) noexcept;

[[nodiscard]] std::uint32_t checksum(ChecksumKind kind, ByteSpan data,
                                     std::uint32_t initial = 0) noexcept;

// `wrong_checksum`, with both in words.
Status wrong_checksum(std::uint32_t expected, std::uint32_t found,
                      std::int64_t offset = -1) noexcept;

// Copies, and gives the checksum of the copy, which is that of the source unless it changed.
std::uint32_t copy_with_checksum(ChecksumKind kind, ByteSpan from, std::byte* to) noexcept;

// Checksum of each (offset, size) span of `base`. An error's offset is the index of the bad span.
Status crc32c_spans(ByteSpan base, std::span<const std::uint64_t> offsets,
                    std::span<const std::uint64_t> sizes, std::span<std::uint32_t> out) noexcept;
Status crc32_spans(ByteSpan base, std::span<const std::uint64_t> offsets,
                   std::span<const std::uint64_t> sizes, std::span<std::uint32_t> out) noexcept;

// Checksum of each buffer.
Status checksum_buffers(ChecksumKind kind, std::span<const ByteSpan> buffers,
                        std::span<std::uint32_t> out) noexcept;

// Bytes of a row that are taken as zero.
struct Hole {
  std::uint64_t offset;
  std::uint64_t size;
};

// CRC-32C of each of out.size() rows of `row_size` bytes with the bytes in the holes taken as
// zero. Holes are in ascending order and do not overlap; an error's offset is the index of the bad
// hole.
Status crc32c_rows(ByteSpan rows, std::size_t row_size, std::span<const Hole> holes,
                   std::span<std::uint32_t> out) noexcept;

// The same of those rows whose numbers are given, compared with the first number of each row of
// `expected`, which has as many rows: the position of the first one that differs, or -1.
// `out_of_bounds` with the position of a number for which there is no row.
Result<std::ptrdiff_t> find_wrong_row(ByteSpan rows, std::size_t row_size,
                                      std::span<const Hole> holes,
                                      std::span<const std::int64_t> numbers,
                                      std::span<const std::uint32_t> expected,
                                      std::size_t expected_columns) noexcept;

}  // namespace headrace
