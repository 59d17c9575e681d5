// Entry points of the kernels, one namespace per instruction set.
//
// Kernel sources include C headers and intrinsics only and use no standard template or inline
// function: the linker keeps one copy of such a function, and if that were the one compiled for
// AVX-512, the program would die on an older CPU.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define PENSTOCK_DECLARE_CRC32C(level)                                                  \
  namespace penstock::kernels::level {                                                  \
  /* CRC-32C register after `size` more bytes, without the inversions at either end. */ \
  uint32_t crc32c_update(uint32_t state, const uint8_t* data, size_t size) noexcept;    \
  }

#define PENSTOCK_DECLARE_RESIZE(level)                                                           \
  namespace penstock::kernels::level {                                                           \
  /* work[x] = sum over k of weights[k] * first_row[k * stride + x], for x < size. */            \
  void blend_rows(const uint8_t* first_row, size_t stride, const float* weights, size_t taps,    \
                  size_t size, float* work) noexcept;                                            \
  /* Pixel j of `out` = scale * (sum over k of weights[j * taps + k] * pixel starts[j] + k of    \
     `work`) + bias, rounded to nearest even. `work` has four readable floats more than used. */ \
  void reduce_row(const float* work, const uint32_t* starts, const float* weights, size_t taps,  \
                  size_t pixels, float scale, float bias, uint8_t* out) noexcept;                \
  }

PENSTOCK_DECLARE_CRC32C(scalar)
PENSTOCK_DECLARE_RESIZE(scalar)
PENSTOCK_DECLARE_CRC32C(sse42)
PENSTOCK_DECLARE_RESIZE(avx2)
PENSTOCK_DECLARE_CRC32C(avx512)
PENSTOCK_DECLARE_RESIZE(avx512)

#undef PENSTOCK_DECLARE_CRC32C
#undef PENSTOCK_DECLARE_RESIZE
