// What the users of a JPEG's scan share.
#pragma once

#include <cstdint>
#include <vector>

#include "core/jpeg/codes.hpp"
#include "headrace/jpeg/tile_index.hpp"

namespace headrace {

// Outside of it, decoders do not agree on the pixels.
inline constexpr int kMaxPredictor = 16383;

// Reused from image to image; only ever grows.
struct ScanMemory {
  JpegCodeTables tables;
  std::vector<std::uint8_t> bytes;     // without stuffing
  std::vector<std::uint32_t> removed;  // where zeros were
};

// The entry points of the first `rows` rows. The tables in `memory` are those of the image; the
// JPEG's checksum is left out.
Status make_tile_index_rows(ByteSpan data, const BaselineJpeg& jpeg, unsigned tile,
                            std::size_t rows, ScanMemory& memory, TileIndex& out) noexcept;

// `corrupt`: the codes are not where the tile index says.
[[nodiscard]] Status scan_does_not_fit() noexcept;

// `corrupt` unless the tile index has the JPEG's size and sampling.
Status check_tile_index_fits(const TileIndexInfo& info, const BaselineJpeg& jpeg) noexcept;

}  // namespace headrace
