// What the core hands to the kernels that decode JPEG.
//
// An entry of a table of AC codes, by the next kAcBits bits; the lowest byte first:
//   code and value fit:   bits of both | coefficients to advance | value, 16 bits
//   the code alone fits:  0 | coefficients to advance | bits of the code | bits of the value
//   neither:              0: to be searched by length
// An end of block advances by kEndOfBlock. Entry 1 << kAcBits takes nothing and advances by one,
// for lanes that wait for others. Of DC codes, by the next kDcBits bits:
//   bits of code and value | bits of the code | bits of the value | 0, or all 0: to be searched
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace headrace::kernels {

inline constexpr int kAcBits = 11;
inline constexpr int kDcBits = 9;
inline constexpr uint32_t kEndOfBlock = 64;
inline constexpr uint32_t kWaitingEntry = 64 | 1U << 8;  // a shift by 64 is one by 0

struct JpegCodes {
  uint32_t entries[(1U << kAcBits) + 16];
  uint32_t limits[18];  // of each length: the first 16 bits that are no code so short
  int32_t offsets[18];  // from a code of a length to its place among the symbols
  uint8_t symbols[256];
  int16_t places[512];  // of AC codes: where coefficient i goes in a group, see JpegRows
};

// Static: each kernel has its own copy, see kernels.hpp.
//
// Length of the code at the top of `bits`, 0 if there is none, and its symbol.
static inline uint32_t search_code(const JpegCodes* codes, uint64_t bits, uint32_t* symbol) {
  const uint32_t top = (uint32_t)(bits >> 48);
  for (uint32_t length = 1; length <= 16; ++length) {
    if (top >= codes->limits[length]) continue;
    *symbol = codes->symbols[(codes->offsets[length] + (int32_t)(top >> (16 - length))) & 255];
    return length;
  }
  *symbol = 0;
  return 0;
}

inline constexpr size_t kJpegLanes = 4;
inline constexpr size_t kGroupBlocks = 4;
inline constexpr size_t kGroupWidth = 8 * kGroupBlocks;
inline constexpr size_t kGroupSize = 9 * kGroupWidth;
// A little more than six groups: lanes at a distance of a power of two would share cache lines.
inline constexpr size_t kLaneSize = 6 * kGroupSize + 32;
// Beyond these, sums leave the 16 bits in which all decoders agree.
inline constexpr int kMaxDequantised = 16383;

struct JpegLane {
  const uint8_t* bytes;  // of a row of MCUs, without stuffing
  const uint8_t* end;    // so much may be read behind it as one MCU can have
  uint32_t first_bit;
  int32_t predictors[3];
  size_t until_restart;  // MCUs
};

// What coefficients of one component are multiplied by, and the largest that may be: eight rows,
// each four times, aligned to 64 bytes. The 16-bit transform multiplies by powers of two, and the
// product by what is left, in 1/32768.
struct JpegFactors {
  const int16_t* quantiser;
  const int16_t* limits;
  const int16_t* fine;  // of the 16-bit transform only
};

// Up to four rows of MCUs, decoded side by side. Blocks are transformed in groups of four
// neighbours: eight rows of 4 x 8 coefficients, and one more row for what belongs to no
// coefficient.
struct JpegRows {
  JpegLane lanes[kJpegLanes];
  size_t lane_count;
  size_t components;
  size_t h, v;  // blocks of the first component in an MCU
  size_t restart_interval;
  const JpegCodes* dc[3];
  const JpegCodes* ac[3];
  JpegFactors factors[3];
  int16_t* coefficients;  // kLaneSize for each lane, zero, aligned to 64 bytes
  uint8_t* planes[3];     // of the first row and the first MCU that is not passed over; rows have
  size_t strides[3];      // room for a multiple of four MCUs
};

struct JpegReader {
  uint64_t bits;  // the next one at the top, a one below the last
  const uint8_t* next;
};

// How far the rows are read.
struct JpegRowsState {
  JpegReader readers[kJpegLanes];
  int32_t predictors[kJpegLanes][3];
  size_t until_restart[kJpegLanes];
  bool is_wrong;
};

// A row of one component at half the width or height, and the row beside it that it is mixed with.
struct JpegSamples {
  const uint8_t* row;
  const uint8_t* beside;
};

}  // namespace headrace::kernels
