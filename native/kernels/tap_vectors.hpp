// Sixteen values of an output row at a time, from 64 bytes of a source row. Included by kernel
// sources: everything here is theirs alone, compiled for their level.
#pragma once

#include "kernels/kernels.hpp"

#if defined(__AVX512VBMI__)
#include <immintrin.h>
#endif

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

[[maybe_unused]] inline size_t bytes_of(const TapColumns& columns) {
  return 3 * columns.source_pixels;
}

#if defined(__AVX512VBMI__)

// Sixteen values at a time: 5 pixels and a third. Vectors come in threes, for 16 pixels. The table
// has for each vector an index of 64 bytes into as many source bytes, and what it is to be
// multiplied with, 64 bytes for each tap or for both of two; behind all vectors the first source
// byte of each.
constexpr size_t kGroup = 16;
constexpr size_t kWindow = 64;

struct LanePixels {
  constexpr LanePixels() {
    for (int i = 0; i < 48; ++i) {
      pixel[i] = i / 3;
      channel[i] = i % 3;
    }
  }
  alignas(64) int pixel[48] = {};
  alignas(64) int channel[48] = {};
};

inline size_t count_vectors(const TapColumns& columns) {
  return (columns.pixels + kGroup - 1) / kGroup * 3;
}

// The pixels of a vector's lanes, and which of them there are.
struct Lanes {
  __m512i pixel;
  __m512i channel;
  __mmask16 exist;

  Lanes(const TapColumns& columns, size_t vector) {
    static constexpr LanePixels kLanePixels;
    const __m512i base = _mm512_set1_epi32(static_cast<int>(vector / 3 * kGroup));
    pixel = _mm512_add_epi32(_mm512_load_si512(kLanePixels.pixel + vector % 3 * 16), base);
    channel = _mm512_load_si512(kLanePixels.channel + vector % 3 * 16);
    exist = _mm512_cmplt_epu32_mask(pixel, _mm512_set1_epi32(static_cast<int>(columns.pixels)));
  }
};

// False when the sources lie too far apart. `second` is what is added to an index for the upper
// half of its lane.
inline bool plan_index(const TapColumns& columns, const Lanes& lanes, uint32_t* first,
                       uint8_t* table, int second) {
  const __m512i starts = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes.exist,
                                                     lanes.pixel, columns.starts, 4);
  const int least =
      lanes.exist == 0 ? 0 : static_cast<int>(_mm512_mask_reduce_min_epu32(lanes.exist, starts));
  const __m512i pixels = _mm512_sub_epi32(starts, _mm512_set1_epi32(least));
  const __m512i index =
      _mm512_add_epi32(_mm512_add_epi32(pixels, _mm512_slli_epi32(pixels, 1)), lanes.channel);
  const uint32_t most = lanes.exist == 0 ? 0 : _mm512_mask_reduce_max_epu32(lanes.exist, index);
  if (most + 3 * (columns.taps - 1) >= kWindow) return false;
  *first = 3 * static_cast<uint32_t>(least);
  const __m512i upper = _mm512_slli_epi32(_mm512_add_epi32(index, _mm512_set1_epi32(second)), 16);
  _mm512_store_si512(table, _mm512_or_si512(index, upper));
  return true;
}

// So that positions fit into lanes.
inline bool is_short(const TapColumns& columns) {
  constexpr size_t kMost = size_t{1} << 24;
  return columns.source_pixels <= kMost && columns.pixels <= kMost;
}

// What lies behind the row is not read.
inline __m512i load_window(const uint8_t* row, size_t first, size_t size) {
  if (first + kWindow <= size) return _mm512_loadu_si512(row + first);
  return _mm512_maskz_loadu_epi8((uint64_t{1} << (size - first)) - 1, row + first);
}

#endif

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
