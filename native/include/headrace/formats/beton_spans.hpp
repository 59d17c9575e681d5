// Where the payloads of a field of a .beton are, for many samples at once.
//
// Metadata records have one size. A member of a picture is mode u8 | width u16 | height u16 | ptr
// u64, one of an array ptr u64, all little-endian and without alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/bytes.hpp"
#include "headrace/formats/beton.hpp"
#include "headrace/status.hpp"

namespace headrace {

// One field in the metadata, and where its payloads may be.
struct BetonColumn {
  ByteSpan records;
  std::size_t record_size;
  std::size_t member_at;     // of the field in a record
  std::uint64_t data_start;  // payloads are inside [data_start, data_end)
  std::uint64_t data_end;
};

// One entry for each picture in every span.
struct PicturePlaces {
  std::span<std::uint64_t> pointers;
  std::span<std::uint64_t> sizes;
  std::span<std::uint8_t> modes;
  std::span<std::uint32_t> widths;
  std::span<std::uint32_t> heights;
};

// Row of the allocation table that the picture of a sample has in files written in order.
struct UsualRow {
  std::uint64_t rows_of_sample;
  std::uint64_t row_in_sample;
};

// False as soon as one sample is not there, or its picture not as it should be: of unknown mode,
// without pixels, of another size than its pixels, without an entry in the table or outside of the
// data. What was written to `out` then means nothing, and the caller looks for the fault by itself.
Result<bool> locate_pictures(const BetonColumn& column, const AllocationTable& table, UsualRow row,
                             std::span<const std::int64_t> samples,
                             const PicturePlaces& out) noexcept;

// The same for arrays of `size` bytes.
Result<bool> locate_arrays(const BetonColumn& column, std::uint64_t size,
                           std::span<const std::int64_t> samples,
                           std::span<std::uint64_t> pointers) noexcept;

}  // namespace headrace
