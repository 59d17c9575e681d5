// The tile index of a baseline JPEG: entry points into its entropy-coded data, so that a part of it
// can be decoded without what comes before: for every `tile`-th MCU of every row of MCUs, where its
// bits begin and what the DC coefficients are predicted from.
//
// Packed, all numbers little-endian:
//    0  "PJT", version (1)
//    4  u32 bytes of the JPEG          8  u32 CRC-32C of the JPEG
//   12  u16 width, u16 height         16  u16 tile
//   18  u8 components, 1 or 3         19  u8 blocks of luma in an MCU: across << 4 | down
//   20  u32 first byte of the entropy-coded data
//   24  u8[4] Rice parameters: of the lengths, and of the predictors of each component
//   28  a bit stream, lowest bit first: row by row and tile by tile the bits from this entry to the
//       next one, then a predictor for each component. Each number is the difference to the one of
//       the tile above (in the first row: to the left), d < 0 as -2d - 1 and others as 2d; of that
//       number n and the parameter p: n >> p ones, a zero, the lowest p bits of n; but 20 ones and
//       the 32 bits of n where n >> p is 20 or more. Filled with zeros to a whole byte.
//   last 4 bytes: u32 CRC-32C of all before
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr unsigned kDefaultTile = 8;
inline constexpr unsigned kMaxTile = 65535;
// Positions in bits fit 32 bits.
inline constexpr std::size_t kMaxIndexedJpegSize = (std::size_t{1} << 29) - 1;

struct TileIndexInfo {
  std::uint32_t jpeg_size = 0;
  std::uint32_t jpeg_crc32c = 0;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t tile = 0;
  std::uint32_t components = 0;
  std::uint32_t h = 0;  // blocks of luma in an MCU
  std::uint32_t v = 0;
  std::uint32_t scan_begin = 0;
  std::size_t rows = 0;     // of MCUs
  std::size_t columns = 0;  // entries in each row
};

struct TileIndex {
  TileIndexInfo info;
  std::size_t rows = 0;  // those that are known, from the first on
  // Bits from the JPEG's first byte, never at a stuffed zero; and at last where the last row ends.
  std::vector<std::uint32_t> positions;
  std::vector<std::array<std::int16_t, 3>> predictors;
};

// Of packed tile indices one after the other in `packed_size` bytes, offsets[n] to offsets[n + 1]
// being number n: where some of them begin, and how long they are; 0 and 0 where that makes no
// sense. `out_of_bounds` with the position of a number that is none.
Status locate_tile_indices(std::span<const std::uint64_t> offsets, std::uint64_t packed_size,
                           std::span<const std::int64_t> numbers, std::span<std::uint64_t> begins,
                           std::span<std::uint64_t> sizes) noexcept;

// Decodes all of the JPEG's codes. `unsupported` says that its kind has no tile index; damage is
// `corrupt` or `truncated`.
Status make_tile_index(ByteSpan jpeg, unsigned tile, TileIndex& out) noexcept;

// All rows must be known. `out` is overwritten.
Status pack_tile_index(const TileIndex& tile_index, std::vector<std::byte>& out) noexcept;

// The fixed part alone, checked for itself.
Result<TileIndexInfo> read_tile_index_info(ByteSpan packed) noexcept;

// Reads at most `rows` rows; the checksum is of all. Positions are inside the JPEG and ascend.
Status unpack_tile_index(ByteSpan packed, std::size_t rows, TileIndex& out) noexcept;

// `corrupt` unless this is the tile index of this JPEG, whose checksum is `crc32c`.
Status check_tile_index_belongs(const TileIndexInfo& info, ByteSpan jpeg,
                                std::uint32_t crc32c) noexcept;

}  // namespace headrace
