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

namespace penstock::kernels {

inline constexpr int kAcBits = 11;
inline constexpr int kDcBits = 9;
inline constexpr uint32_t kEndOfBlock = 64;
inline constexpr uint32_t kWaitingEntry = 64 | 1U << 8;  // a shift by 64 is one by 0

struct JpegCodes {
  uint32_t entries[(1U << kAcBits) + 16];
  uint32_t limits[18];  // of each length: the first 16 bits that are no code so short
  int32_t offsets[18];  // from a code of a length to its place among the symbols
  uint8_t symbols[256];
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

}  // namespace penstock::kernels
