// What the CPU hands to the GPU for one batch, in one piece ("blob") that is copied as it is:
//
//   Picture[n] | for each picture: the words of its steps; Tile[], then its codes, or the rows of a
//   raw one | Unit[] | Part[]
//
// Behind it is room for whole JPEGs that the device fetches by itself: of these only Tile[] is in
// the blob. All positions count from the blob's first byte, those of such a JPEG from its own unit.
// A window of a JPEG is a range of rows of MCUs times a range of tiles; each tile has an entry
// point, so each is decoded by a thread of its own. The GPU trusts these numbers, which the CPU has
// checked, and never the codes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "gpu/device.hpp"

namespace headrace::gpu {

struct Tile {
  uint32_t begin, end;     // bits
  int16_t predictors[3];   // of DC
  uint16_t until_restart;  // MCUs; of no meaning without restart intervals
};

// One axis of the resampling: `length` of `limit` sources from `begin` on become `size` outputs.
struct Axis {
  uint32_t begin, length, limit;
  uint32_t origin;  // of the sources in the picture
  uint32_t size;
  uint32_t is_mirrored;
  uint32_t weights;  // the first word of them
  uint32_t taps;     // most of any output
};

// The arithmetic of the resampling.
enum ResampleWay : uint32_t {
  kWholeNumbers,
  kFloats,            // of many taps
  kOpenCvBoxes,       // whole factors
  kOpenCvCells,       // where no side grows
  kOpenCvNeighbours,  // where one does
};

// `kAbsent` has no pixels here: the CPU makes them. `kEmpty` has no sources, and is all `fill`.
enum PictureKind : uint32_t { kAbsent, kEmpty, kJpeg, kRaw };

struct Picture {
  uint32_t kind;
  // Where the result goes in the output, which has `fill` around it.
  uint32_t place_left, place_top;
  Axis axes[2];  // across, down
  // The sources in the planes of a JPEG, or in the rows of a raw picture.
  uint32_t left, top;
  uint32_t rows, row_stride;  // raw: position of the first pixel, bytes from row to row
  // JPEG
  uint32_t tiles;  // the first one, in units of 16 bytes
  uint32_t tile_columns, tile_rows;
  uint32_t tile;       // MCUs of a whole one
  uint32_t mcus;       // of a row, from the first tile on
  uint32_t skipped;    // of these at the start: read, not kept
  uint32_t last_word;  // of four bytes, that may be read
  uint32_t restart_interval;
  uint32_t components, h, v, is_ycc;
  uint32_t planes[3];  // first block in the samples, which are stored block after block
  uint32_t across[3];  // blocks in a row
  uint32_t chroma_right, chroma_bottom;  // last sample of chroma that the picture has
  uint32_t ends_at_entry;                // the last tile of each row is not cut
  uint32_t steps;                        // the first word of them, in units of 4 bytes; 0: none
  uint32_t way;                          // ResampleWay
  uint32_t order;                        // the first word of the order of the tiles
  uint32_t longest;                      // tile, in bits
  uint32_t usual;                        // length of a tile: the mean
  // Of a JPEG that the device fetches. It lies as in the CPU's memory, which is pinned: the first
  // byte has the same place in a unit of kFetchedUnit bytes.
  uint32_t fetched;       // the unit; 0: its codes are in the blob
  uint32_t fetched_lead;  // bytes of that unit in front of it
  uint32_t fetched_size;  // bytes
  uint32_t crc32c;        // that it must have
  uint32_t source[2];     // its address in the CPU's memory, the lower half first
  uint32_t unused[3];
  uint8_t dc_table[4], ac_table[4];  // of each component
  uint8_t counts[4][16];             // of codes: DC 0, DC 1, AC 0, AC 1
  uint8_t dc_symbols[2][16];
  uint8_t ac_symbols[2][256];
  uint16_t quantiser[3][64];  // column by column
};

// Where the positions of a picture's codes count from: its unit.
inline constexpr uint32_t kFetchedUnit = 64;
template <typename Byte>
HEADRACE_GPU_INLINE Byte* origin_of(const Picture& picture, Byte* memory) {
  return memory + size_t{picture.fetched} * kFetchedUnit;
}

// So many tiles of one picture, by their order, go to one thread block.
inline constexpr uint32_t kUnitTiles = 64;
struct Unit {
  uint32_t picture, first;
};

// Rows and columns of the output that one thread block makes.
struct Part {
  uint32_t picture;
  uint16_t first_row, rows;
  uint16_t first_column, columns;
};

// What is done to a finished picture, in order: each is a word that names it, and its numbers.
// Those of 64 bits take two words, the lower one first.
enum Step : uint32_t {
  kNoMoreSteps,
  kMove,        // x, y, right, down, next_x, next_y of 64 bits (PixelPath), and a colour
  kFill,        // left, top, width, height, and a colour
  kNoise,       // left, top, width, height, and a seed of 64 bits
  kBrightness,  // factor, a float as those that follow
  kContrast,    // factor
  kSaturation,  // factor
  kHue,         // sixths
  kPosterize,   // mask
  kSolarize,    // threshold
  kAutocontrast,
  kEqualize,
  kSharpness,  // factor
  kBlur,       // taps at each side, and so many weights and one more, floats: the middle one first
};

// What became of a picture. The CPU decodes those that are not fine.
enum PictureStatus : uint32_t { kFine, kDamaged, kOutOfRange };

static_assert(sizeof(Tile) == 16 && sizeof(Picture) % 16 == 0, "read as vectors");

}  // namespace headrace::gpu
