// What the users of a JPEG's scan share.
#pragma once

#include <cstdint>
#include <vector>

#include "core/jpeg/codes.hpp"
#include "headrace/jpeg/tile_index.hpp"

namespace headrace {

// Reused from image to image; only ever grows.
struct ScanMemory {
  JpegCodeTables tables;
  std::vector<std::uint8_t> bytes;     // without stuffing
  std::vector<std::uint32_t> removed;  // where zeros were
};

// The entry points of the first `rows` rows. The tables in `memory` are those of the image; the
// JPEG's checksum is left out.
Status find_tiles(ByteSpan data, const BaselineJpeg& jpeg, unsigned tile, std::size_t rows,
                  ScanMemory& memory, JpegTiles& out) noexcept;

// `corrupt` unless the tiles have the JPEG's size and sampling.
Status check_tiles_fit(const JpegTilesInfo& info, const BaselineJpeg& jpeg) noexcept;

}  // namespace headrace
