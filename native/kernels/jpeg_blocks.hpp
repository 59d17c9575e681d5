// Rows of the coefficients of several blocks as vectors, and what becomes of them. Included by
// kernel sources: everything here is theirs alone, compiled for their level.
#pragma once

#include "kernels/kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define HEADRACE_INLINE inline __attribute__((always_inline))

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

#if defined(__AVX2__)

#if defined(__AVX512VNNI__)
using Vector = __m512i;
#define HEADRACE_V(name) _mm512_##name
HEADRACE_INLINE Vector load(const int16_t* from) { return _mm512_load_si512(from); }
HEADRACE_INLINE void clear(int16_t* to) { _mm512_store_si512(to, _mm512_setzero_si512()); }
HEADRACE_INLINE Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }
HEADRACE_INLINE bool is_zero(Vector v) { return _mm512_test_epi32_mask(v, v) == 0; }
#else
using Vector = __m256i;
#define HEADRACE_V(name) _mm256_##name
HEADRACE_INLINE Vector load(const int16_t* from) {
  return _mm256_load_si256(reinterpret_cast<const Vector*>(from));
}
HEADRACE_INLINE void clear(int16_t* to) {
  _mm256_store_si256(reinterpret_cast<Vector*>(to), _mm256_setzero_si256());
}
HEADRACE_INLINE Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }
HEADRACE_INLINE bool is_zero(Vector v) { return _mm256_testz_si256(v, v) != 0; }
#endif

constexpr size_t kVectorBlocks = sizeof(Vector) / 16;

HEADRACE_INLINE Vector beyond(Vector values, Vector limits) {
  return HEADRACE_V(subs_epu16)(HEADRACE_V(abs_epi16)(values), limits);
}

// Of each block by itself.
HEADRACE_INLINE void transpose(Vector* v) {
  Vector a[8];
  Vector b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = HEADRACE_V(unpacklo_epi16)(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = HEADRACE_V(unpackhi_epi16)(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = HEADRACE_V(unpacklo_epi32)(a[i], a[i + 2]);
    b[i + 1] = HEADRACE_V(unpackhi_epi32)(a[i], a[i + 2]);
    b[i + 2] = HEADRACE_V(unpacklo_epi32)(a[i + 1], a[i + 3]);
    b[i + 3] = HEADRACE_V(unpackhi_epi32)(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = HEADRACE_V(unpacklo_epi64)(b[i], b[i + 4]);
    v[2 * i + 1] = HEADRACE_V(unpackhi_epi64)(b[i], b[i + 4]);
  }
}

HEADRACE_INLINE Vector to_levels(Vector a, Vector b) {
  return HEADRACE_V(add_epi8)(HEADRACE_V(packs_epi16)(a, b),
                              HEADRACE_V(set1_epi8)(static_cast<char>(0x80)));
}

#if defined(__AVX512VNNI__)

// Columns of four blocks to rows: first four columns of four rows a vector, then eight.
struct Permutations {
  uint8_t columns[2][64];
  uint32_t rows[2][16];
};

constexpr Permutations make_permutations() {
  Permutations p{};
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 64; ++i) {
      const int block = i / 16;
      const int y = i / 4 % 4 + 4 * half;
      const int x = i % 4;
      p.columns[half][i] = static_cast<uint8_t>(x / 2 * 64 + block * 16 + x % 2 * 8 + y);
    }
    for (int i = 0; i < 16; ++i) {
      p.rows[half][i] = static_cast<uint32_t>(i % 2 * 16 + i / 2 % 4 * 4 + i / 8 + 2 * half);
    }
  }
  return p;
}

alignas(64) constexpr Permutations kPermutations = make_permutations();

HEADRACE_INLINE void store_two(uint8_t* out, size_t stride, __m512i rows) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(rows));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + stride), _mm512_extracti64x4_epi64(rows, 1));
}

// v[x] has column x of each block.
HEADRACE_INLINE void store_levels(const Vector* v, uint8_t* out, size_t stride) {
  const __m512i p01 = to_levels(v[0], v[1]);
  const __m512i p23 = to_levels(v[2], v[3]);
  const __m512i p45 = to_levels(v[4], v[5]);
  const __m512i p67 = to_levels(v[6], v[7]);
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; ++half) {
    const __m512i columns = _mm512_loadu_si512(kPermutations.columns[half]);
    const __m512i left = _mm512_permutex2var_epi8(p01, columns, p23);
    const __m512i right = _mm512_permutex2var_epi8(p45, columns, p67);
    const __m512i first = _mm512_loadu_si512(kPermutations.rows[0]);
    const __m512i second = _mm512_loadu_si512(kPermutations.rows[1]);
    uint8_t* const at = out + 4 * half * stride;
    store_two(at, stride, _mm512_permutex2var_epi32(left, first, right));
    store_two(at + 2 * stride, stride, _mm512_permutex2var_epi32(left, second, right));
  }
}

#else

HEADRACE_INLINE void store_levels(Vector* v, uint8_t* out, size_t stride) {
  transpose(v);
#pragma GCC unroll 4
  for (size_t y = 0; y < 8; y += 2) {
    const __m256i rows = _mm256_permute4x64_epi64(to_levels(v[y], v[y + 1]), 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + y * stride), _mm256_castsi256_si128(rows));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (y + 1) * stride),
                     _mm256_extracti128_si256(rows, 1));
  }
}

#endif

#endif

// Samples of four MCUs of every row, by a function that transforms a group: its coefficients,
// quantiser and limits, where to, and the distance of rows. False when that was, for any of them.
template <typename TransformGroup>
bool transform_all_groups(const JpegRows& rows, size_t first, TransformGroup transform) {
  bool is_tame = true;
  for (size_t lane = 0; lane < rows.lane_count; ++lane) {
    int16_t* group = rows.coefficients + lane * kLaneSize;
    for (size_t c = 0; c < rows.components; ++c) {
      const size_t h = c == 0 ? rows.h : 1;
      const size_t v = c == 0 ? rows.v : 1;
      const size_t stride = rows.strides[c];
      for (size_t y = 0; y < v; ++y) {
        uint8_t* out = rows.planes[c] + (lane * v + y) * 8 * stride + first * 8 * h;
        for (size_t x = 0; x < h; ++x, group += kGroupSize, out += kGroupWidth) {
          is_tame &= transform(group, c, out, stride);
        }
      }
    }
  }
  return is_tame;
}

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
