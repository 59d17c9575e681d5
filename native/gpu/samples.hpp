// Samples of a JPEG, or the bytes of a raw picture, to pixels: fancy upsampling and colours as
// libjpeg-turbo has them, to the last bit. A pixel is a word, red in its lowest byte.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

// One component: blocks of 8 x 8 samples, row by row.
struct Plane {
  const uint8_t* samples;
  uint32_t across;

  HEADRACE_GPU_INLINE const uint8_t* at(uint32_t x, uint32_t y) const {
    return samples + ((size_t{y >> 3} * across + (x >> 3)) << 6 | (y & 7) << 3 | (x & 7));
  }
  // Four samples, of which x is the first, a multiple of four.
  HEADRACE_GPU_INLINE uint32_t four(uint32_t x, uint32_t y) const {
    return *reinterpret_cast<const uint32_t*>(at(x, y));
  }
  // Eight, of which x is the first, a multiple of eight.
  HEADRACE_GPU_INLINE Two eight(uint32_t x, uint32_t y) const {
    return *reinterpret_cast<const Two*>(at(x, y));
  }
};

HEADRACE_GPU_INLINE Plane plane_of(const Picture& picture, const uint8_t* samples, uint32_t c) {
  return {samples + size_t{picture.planes[c]} * 64, picture.across[c]};
}

HEADRACE_GPU_INLINE uint32_t to_rgb(int32_t y, int32_t cb, int32_t cr) {
  cb -= 128;
  cr -= 128;
  return pack_levels(y + ((91881 * cr + 32768) >> 16),
                     y + ((-22554 * cb - 46802 * cr + 32768) >> 16),
                     y + ((116130 * cb + 32768) >> 16), 0);
}

// A row of chroma and the one beside it that it is mixed with.
struct ChromaRows {
  uint32_t row, beside;
};

HEADRACE_GPU_INLINE ChromaRows chroma_rows(const Picture& picture, uint32_t y) {
  const uint32_t row = y >> 1;
  return {row, y & 1 ? lesser(row + 1, picture.chroma_bottom) : row - (row > 0)};
}

// Four neighbours and the ones at their sides; where rows are mixed, the nearer one counts thrice.
struct Sums {
  int32_t left, v[4], right;
};

// Of the samples x to x + 3, x a multiple of 4. What lies behind the last sample repeats it.
HEADRACE_GPU_INLINE Sums sums_of(const Plane& plane, uint32_t x, const ChromaRows& rows,
                                 bool is_mixed, uint32_t right) {
  const uint32_t before = x == 0 ? 0 : x - 1, behind = lesser(x + 4, right);
  const uint32_t near = plane.four(x, rows.row);
  Sums s{*plane.at(before, rows.row),
         {byte_of(near, 0), byte_of(near, 1), byte_of(near, 2), byte_of(near, 3)},
         *plane.at(behind, rows.row)};
  if (is_mixed) {
    const uint32_t far = plane.four(x, rows.beside);
    s.left = 3 * s.left + *plane.at(before, rows.beside);
    s.right = 3 * s.right + *plane.at(behind, rows.beside);
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 4; ++i) s.v[i] = 3 * s.v[i] + byte_of(far, i);
  }
  HEADRACE_UNROLL
  for (uint32_t i = 1; i < 4; ++i) {
    if (x + i > right) s.v[i] = s.v[i - 1];
  }
  if (x + 4 > right) s.right = s.v[3];
  return s;
}

HEADRACE_GPU_INLINE void widen(const Sums& s, int32_t shift, int32_t even_bias, int32_t odd_bias,
                               int32_t* out) {
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const int32_t left = i == 0 ? s.left : s.v[i - 1], right = i == 3 ? s.right : s.v[i + 1];
    out[2 * i] = (3 * s.v[i] + left + even_bias) >> shift;
    out[2 * i + 1] = (3 * s.v[i] + right + odd_bias) >> shift;
  }
}

// Chroma of the pixels x to x + 7 of a row, x a multiple of 8.
HEADRACE_GPU_INLINE void chroma_of(const Picture& picture, const Plane& plane, uint32_t x,
                                   uint32_t y, int32_t* out) {
  const ChromaRows rows = chroma_rows(picture, y);
  if (picture.h == 2) {
    if (picture.v == 2)
      return widen(sums_of(plane, x / 2, rows, true, picture.chroma_right), 4, 8, 7, out);
    return widen(sums_of(plane, x / 2, {y, y}, false, picture.chroma_right), 2, 1, 2, out);
  }
  const bool is_mixed = picture.v == 2;
  const int32_t bias = y & 1 ? 2 : 1;
  const Two near = plane.eight(x, is_mixed ? rows.row : y);
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 8; ++i) out[i] = byte_of(near.v[i / 4], i % 4);
  if (!is_mixed) return;
  const Two far = plane.eight(x, rows.beside);
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 8; ++i) out[i] = (3 * out[i] + byte_of(far.v[i / 4], i % 4) + bias) >> 2;
}

// The pixels x to x + 7 of a row of the planes, x a multiple of 8.
HEADRACE_GPU_INLINE void jpeg_pixels(const Picture& picture, const uint8_t* samples, uint32_t x,
                                     uint32_t y, uint32_t* out) {
  const Plane luma = plane_of(picture, samples, 0);
  const Two words = luma.eight(x, y);
  if (picture.components == 1) {
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 8; ++i)
      out[i] = static_cast<uint32_t>(byte_of(words.v[i / 4], i % 4)) * 0x010101;
    return;
  }
  int32_t cb[8], cr[8];
  chroma_of(picture, plane_of(picture, samples, 1), x, y, cb);
  chroma_of(picture, plane_of(picture, samples, 2), x, y, cr);
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    const int32_t first = byte_of(words.v[i / 4], i % 4);
    out[i] = picture.is_ycc ? to_rgb(first, cb[i], cr[i]) : pack_levels(first, cb[i], cr[i], 0);
  }
}

// Up to eight pixels of a row of a raw picture; those behind `limit` are not read.
HEADRACE_GPU_INLINE void raw_pixels(const uint8_t* blob, const Picture& picture, uint32_t x,
                                    uint32_t y, uint32_t limit, uint32_t* out) {
  const uint8_t* from = blob + picture.rows + size_t{y} * picture.row_stride + 3 * size_t{x};
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    out[i] = x + i < limit ? from[3 * i] | from[3 * i + 1] << 8 | from[3 * i + 2] << 16 : 0;
  }
}

}  // namespace headrace::gpu
