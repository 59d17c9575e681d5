// Samples of a JPEG, or the bytes of a raw picture, to pixels: fancy upsampling and colours as
// libjpeg-turbo has them, to the last bit. A pixel is a word, red in its lowest byte.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

// Components of a JPEG: blocks of 8 x 8 samples, row by row. Both of chroma have them at the same
// places, which have 32 bits: no side of a JPEG is above 65535.
struct SamplePlanes {
  const uint8_t* samples;
  uint32_t first[3];       // blocks
  uint32_t across[2];      // blocks in a row: luma, chroma
  uint32_t right, bottom;  // the last sample of chroma that the picture has
  uint32_t components, h, v, is_ycc;

  HEADRACE_GPU_INLINE SamplePlanes(const Picture& picture, const uint8_t* all)
      : samples(all),
        first{picture.planes[0], picture.planes[1], picture.planes[2]},
        across{picture.across[0], picture.across[1]},
        right(picture.chroma_right),
        bottom(picture.chroma_bottom),
        components(picture.components),
        h(picture.h),
        v(picture.v),
        is_ycc(picture.is_ycc) {}

  HEADRACE_GPU_INLINE const uint8_t* plane(uint32_t c) const {
    return samples + size_t{first[c]} * 64;
  }
  // Where the row of a block is that sample y of a column lies in; then where sample x of it is.
  HEADRACE_GPU_INLINE static uint32_t row_place(uint32_t y, uint32_t blocks) {
    return (y >> 3) * blocks << 6 | (y & 7) << 3;
  }
  HEADRACE_GPU_INLINE static uint32_t place(uint32_t row, uint32_t x) {
    return row + ((x >> 3) << 6 | (x & 7));
  }
};

HEADRACE_GPU_INLINE uint32_t to_rgb(int32_t y, int32_t cb, int32_t cr) {
  cb -= 128;
  cr -= 128;
  return pack_levels(y + ((91881 * cr + 32768) >> 16),
                     y + ((-22554 * cb - 46802 * cr + 32768) >> 16),
                     y + ((116130 * cb + 32768) >> 16), 0);
}

// Chroma of eight pixels.
struct Chroma {
  int32_t cb[8], cr[8];
};

// Four neighbours and the ones at their sides; where rows are mixed, the nearer one counts thrice.
struct Sums {
  int32_t left, v[4], right;
};

// Where samples x to x + 3 of two rows are, x a multiple of four, and their neighbours.
struct SumPlaces {
  uint32_t near[3], far[3];  // before them, they, behind them
  uint32_t x, right;

  HEADRACE_GPU_INLINE SumPlaces(uint32_t first, uint32_t near_row, uint32_t far_row, uint32_t last)
      : x(first), right(last) {
    const uint32_t columns[3] = {x - (x > 0), x, lesser(x + 4, right)};
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 3; ++i) {
      near[i] = SamplePlanes::place(near_row, columns[i]);
      far[i] = SamplePlanes::place(far_row, columns[i]);
    }
  }
};

// What lies behind the last sample repeats it.
HEADRACE_GPU_INLINE Sums sums_of(const uint8_t* plane, const SumPlaces& at, bool is_mixed) {
  const uint32_t near = *reinterpret_cast<const uint32_t*>(plane + at.near[1]);
  Sums s{plane[at.near[0]],
         {byte_of(near, 0), byte_of(near, 1), byte_of(near, 2), byte_of(near, 3)},
         plane[at.near[2]]};
  if (is_mixed) {
    const uint32_t far = *reinterpret_cast<const uint32_t*>(plane + at.far[1]);
    s.left = 3 * s.left + plane[at.far[0]];
    s.right = 3 * s.right + plane[at.far[2]];
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 4; ++i) s.v[i] = 3 * s.v[i] + byte_of(far, i);
  }
  HEADRACE_UNROLL
  for (uint32_t i = 1; i < 4; ++i) {
    if (at.x + i > at.right) s.v[i] = s.v[i - 1];
  }
  if (at.x + 4 > at.right) s.right = s.v[3];
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

HEADRACE_GPU_INLINE void eight_samples(const uint8_t* from, int32_t* out) {
  const Two words = *reinterpret_cast<const Two*>(from);
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 8; ++i) out[i] = byte_of(words.v[i / 4], i % 4);
}

// Of the pixels x to x + 7 of a row, x a multiple of 8.
HEADRACE_GPU_INLINE Chroma chroma_of(const SamplePlanes& planes, uint32_t x, uint32_t y) {
  Chroma chroma;
  const bool is_mixed = planes.v == 2;
  const uint32_t near = is_mixed ? y >> 1 : y;
  const uint32_t far = !is_mixed      ? near
                       : (y & 1) != 0 ? lesser(near + 1, planes.bottom)
                                      : near - (near > 0);
  const uint32_t near_row = SamplePlanes::row_place(near, planes.across[1]);
  const uint32_t far_row = SamplePlanes::row_place(far, planes.across[1]);
  if (planes.h == 2) {
    const SumPlaces at(x / 2, near_row, far_row, planes.right);
    const int32_t shift = is_mixed ? 4 : 2, even = is_mixed ? 8 : 1, odd = is_mixed ? 7 : 2;
    widen(sums_of(planes.plane(1), at, is_mixed), shift, even, odd, chroma.cb);
    widen(sums_of(planes.plane(2), at, is_mixed), shift, even, odd, chroma.cr);
    return chroma;
  }
  const uint32_t at = SamplePlanes::place(near_row, x), beside = SamplePlanes::place(far_row, x);
  eight_samples(planes.plane(1) + at, chroma.cb);
  eight_samples(planes.plane(2) + at, chroma.cr);
  if (!is_mixed) return chroma;
  int32_t cb[8], cr[8];
  eight_samples(planes.plane(1) + beside, cb);
  eight_samples(planes.plane(2) + beside, cr);
  const int32_t bias = (y & 1) != 0 ? 2 : 1;
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    chroma.cb[i] = (3 * chroma.cb[i] + cb[i] + bias) >> 2;
    chroma.cr[i] = (3 * chroma.cr[i] + cr[i] + bias) >> 2;
  }
  return chroma;
}

// The pixels x to x + 7 of a row of the planes, x a multiple of 8.
HEADRACE_GPU_INLINE void jpeg_pixels(const SamplePlanes& planes, uint32_t x, uint32_t y,
                                     uint32_t* out) {
  int32_t luma[8];
  const uint32_t row = SamplePlanes::row_place(y, planes.across[0]);
  eight_samples(planes.plane(0) + SamplePlanes::place(row, x), luma);
  if (planes.components == 1) {
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 8; ++i) out[i] = static_cast<uint32_t>(luma[i]) * 0x010101;
    return;
  }
  const Chroma chroma = chroma_of(planes, x, y);
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 8; ++i) {
    out[i] = planes.is_ycc ? to_rgb(luma[i], chroma.cb[i], chroma.cr[i])
                           : pack_levels(luma[i], chroma.cb[i], chroma.cr[i], 0);
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
