// Entry points of the kernels, one namespace per instruction set.
//
// Kernel sources include C headers and intrinsics only and use no standard template or inline
// function: the linker keeps one copy of such a function, and if that were the one compiled for
// AVX-512, the program would die on an older CPU.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/jpeg_types.hpp"

namespace headrace::kernels {

// How the pixels of an output row are made of those of a source row. Weights come in pairs of taps,
// the second one in the upper half of the word: pairs[p * padded + j] has taps 2p and 2p + 1 of
// pixel j. Starts and pairs are filled with zeros up to `padded`.
struct FixedColumns {
  const uint32_t* starts;
  const uint32_t* pairs;
  size_t pair_count;
  size_t pixels;
  size_t padded;         // pixels, up to a multiple of 4
  const uint8_t* table;  // of plan_columns_fixed, or null
};

// How the pixels of an output row are averages of pixels of a source row, or lie between two.
struct TapColumns {
  const uint32_t* starts;
  const uint32_t* counts;
  const float* weights;  // of an average: weights[j * stride + k], zero from the count up to `taps`
  const uint32_t* pairs;  // else, in 2048ths: that of the source, and above it that of the next one
  size_t stride;
  size_t taps;
  size_t pixels;
  size_t source_pixels;
  const uint8_t* table;  // of the plan
  bool has_vectors;      // what the plan returned
};

// One row, or two that follow each other.
struct SourceRows {
  const uint8_t* first;
  size_t stride;
  size_t count;
};

inline constexpr size_t kTapTableAlignment = 64;
inline constexpr size_t average_table_bytes(size_t pixels, size_t taps) {
  return (pixels / 16 + 1) * (192 * (taps + 1) + 64 * taps + 12);
}
inline constexpr size_t interpolate_table_bytes(size_t pixels) {
  return (pixels / 16 + 1) * (3 * 128 + 12);
}

// A row of a batch: bytes, or halves or floats that are grey level * scale + bias. Either a row of
// each of three planes, or interleaved at the first of these addresses.
struct ValueRow {
  void* planes[3];
  size_t value_size;  // bytes: 1, 2 or 4
  bool is_interleaved;
  const float* scale;
  const float* bias;
};

// What grey levels become, for each channel. `entries` is [3][256] of the row's type; `bytes` has
// their bytes apart, [3][value_size][256], and is aligned to 64 bytes.
inline constexpr size_t kLevels = 256;
struct LevelTable {
  const void* entries;
  const uint8_t* bytes;
};

// A table has so many bytes for each group of pixels and pair of taps, 4 for each group, and 1.
inline constexpr size_t kColumnTableBytes = 128;
inline constexpr size_t kColumnGroup = 5;
inline constexpr size_t kColumnTableAlignment = 64;
// The same of one channel, of groups of kPlaneGroup.
inline constexpr size_t kPlaneTableBytes = 64;
inline constexpr size_t kPlaneGroup = 16;

}  // namespace headrace::kernels

#define HEADRACE_DECLARE_CRC32C(level)                                                          \
  namespace headrace::kernels::level {                                                          \
  /* CRC-32C register after `size` more bytes, without the inversions at either end. */         \
  uint32_t crc32c_update(uint32_t state, const uint8_t* data, size_t size) noexcept;            \
  /* The same of bytes that are copied, read once. */                                           \
  uint32_t crc32c_copy(uint32_t state, const uint8_t* from, uint8_t* to, size_t size) noexcept; \
  }

#define HEADRACE_DECLARE_CRC32(level)                                                          \
  namespace headrace::kernels::level {                                                         \
  /* The same for CRC-32 as zlib has it. */                                                    \
  uint32_t crc32_update(uint32_t state, const uint8_t* data, size_t size) noexcept;            \
  uint32_t crc32_copy(uint32_t state, const uint8_t* from, uint8_t* to, size_t size) noexcept; \
  }

#define HEADRACE_DECLARE_OFFSETS(level)                                                      \
  namespace headrace::kernels::level {                                                       \
  /* The highest bit is 0 when all of these little-endian numbers, at any address, have it 0 \
     and none is below the one before it. */                                                 \
  uint64_t offset_signs(uint64_t before, const uint8_t* table, size_t count) noexcept;       \
  }

#define HEADRACE_DECLARE_RESIZE(level)                                                           \
  namespace headrace::kernels::level {                                                           \
  /* work[x] = sum over k of weights[k] * first_row[k * stride + x], for x < size. */            \
  void blend_rows(const uint8_t* first_row, size_t stride, const float* weights, size_t taps,    \
                  size_t size, float* work) noexcept;                                            \
  /* Pixel j of `out` = scale * (sum over k of weights[j * taps + k] * pixel starts[j] + k of    \
     `work`) + bias, rounded to nearest even. `work` has four readable floats more than used. */ \
  void reduce_row(const float* work, const uint32_t* starts, const float* weights, size_t taps,  \
                  size_t pixels, float scale, float bias, uint8_t* out) noexcept;                \
  }

#define HEADRACE_DECLARE_RESAMPLE(level)                                                          \
  namespace headrace::kernels::level {                                                            \
  /* work[x] = (sum over k of weights[k] * first_row[k * stride + x] + 64) >> 7, for x < size:    \
     grey levels in 128ths. The weights are not negative and sum to 16384. */                     \
  void blend_rows_fixed(const uint8_t* first_row, size_t stride, const int16_t* weights,          \
                        size_t taps, size_t size, int16_t* work) noexcept;                        \
  /* Fills `table` for reduce_row_fixed; false when it is better off without. */                  \
  bool plan_columns_fixed(const FixedColumns* columns, uint8_t* table) noexcept;                  \
  /* Pixel j of `out` = (sum over k of weight k of j * pixel starts[j] + k of `work`) in 1/2^21,  \
     rounded. `work` has 64 readable values more than used. */                                    \
  void reduce_row_fixed(const int16_t* work, const FixedColumns* columns, uint8_t* out) noexcept; \
  /* The same of whole grey levels, with weights of any sign: 128ths, kept within 0 and 255. */   \
  void reduce_row_sharp(const int16_t* work, const FixedColumns* columns, int16_t* out) noexcept; \
  /* out[x] = (sum over k of weights[k] * first_row[k * stride + x]) in 1/2^21, rounded and kept  \
     within 0 and 255, for x < size; weights of any sign. */                                      \
  void blend_rows_sharp(const int16_t* first_row, size_t stride, const int16_t* weights,          \
                        size_t taps, size_t size, uint8_t* out) noexcept;                         \
  }

#define HEADRACE_DECLARE_SIXTEENS(level)                                                      \
  namespace headrace::kernels::level {                                                        \
  /* Fills `table` for reduce_sixteens, which may only be called with it; false where that is \
     no use: at most levels, and where much is reduced. */                                    \
  bool plan_sixteens(const FixedColumns* columns, uint8_t* table) noexcept;                   \
  /* The levels of reduce_row_fixed, in the type and layout of the batch. */                  \
  void reduce_sixteens(const int16_t* work, const FixedColumns* columns,                      \
                       const ValueRow* out) noexcept;                                         \
  }

#define HEADRACE_DECLARE_REDUCE_PLANE(level)                                                      \
  namespace headrace::kernels::level {                                                            \
  /* As plan_columns_fixed and reduce_row_fixed, of one channel. The starts are padded with zeros \
     to a multiple of kPlaneGroup, weights too, and as many bytes are written. */                 \
  bool plan_plane_columns(const FixedColumns* columns, uint8_t* table) noexcept;                  \
  void reduce_plane_row(const int16_t* work, const FixedColumns* columns, uint8_t* out) noexcept; \
  }

#define HEADRACE_DECLARE_PIXELS(level)                                                         \
  namespace headrace::kernels::level {                                                         \
  /* Interleaved bytes to three planes. */                                                     \
  void split_row(const uint8_t* row, size_t pixels, const ValueRow* out) noexcept;             \
  /* out[i] = row[i] * scale[i % 48] + bias[i % 48], as float or rounded to half precision. */ \
  void scale_row(const uint8_t* row, size_t size, const float* scale, const float* bias,       \
                 float* out) noexcept;                                                         \
  void scale_row_half(const uint8_t* row, size_t size, const float* scale, const float* bias,  \
                      uint16_t* out) noexcept;                                                 \
  /* To nearest, ties to even; NaN stays NaN. */                                               \
  void to_half(const float* values, size_t size, uint16_t* out) noexcept;                      \
  }

#define HEADRACE_DECLARE_OPENCV_AREA(level)                                                       \
  namespace headrace::kernels::level {                                                            \
  /* A plan fills `table` and says how. Rows between the passes have 64 values more than used,    \
     which may be read and written. */                                                            \
  bool plan_average_rows(const TapColumns* columns, uint8_t* table) noexcept;                     \
  void average_rows(const SourceRows* rows, const TapColumns* columns,                            \
                    float* const* out) noexcept;                                                  \
  /* sums[i] += row[i] * weight */                                                                \
  void add_average(const float* row, float weight, size_t size, float* sums) noexcept;            \
  /* out[x] = scale * (sum over k of weights[k] * rows[k][x]) + bias, rounded to nearest even. */ \
  void blend_averages(const float* const* rows, const float* weights, size_t taps, size_t size,   \
                      float scale, float bias, uint8_t* out) noexcept;                            \
  bool plan_interpolate_row(const TapColumns* columns, uint8_t* table) noexcept;                  \
  /* Grey levels in 128ths, cut. */                                                               \
  void interpolate_row(const uint8_t* row, const TapColumns* columns, int16_t* out) noexcept;     \
  /* Weights in 2048ths; each product is cut to a quarter of a grey level. */                     \
  void blend_two_rows(const int16_t* first, const int16_t* second, int first_weight,              \
                      int second_weight, size_t size, uint8_t* out) noexcept;                     \
  }

#define HEADRACE_DECLARE_LOOKUP(level)                                                   \
  namespace headrace::kernels::level {                                                   \
  /* Every level's entry, for halves and floats; the row's scale and bias do nothing. */ \
  void look_up_row(const uint8_t* row, size_t pixels, const LevelTable* table,           \
                   const ValueRow* out) noexcept;                                        \
  }

#define HEADRACE_DECLARE_COLOUR(level)                                                         \
  namespace headrace::kernels::level {                                                         \
  /* values[i] = values[i] * factor + level * (1 - factor), cut to 0..255, then to a whole */  \
  void blend_with_level(uint8_t* values, size_t size, double factor, double level) noexcept;   \
  /* The same with each pixel's own grey. */                                                   \
  void blend_with_grey(uint8_t* pixels, size_t count, double factor) noexcept;                 \
  /* Of the grey of all pixels, each cut to a whole number. */                                 \
  uint64_t sum_grey(const uint8_t* pixels, size_t count) noexcept;                             \
  /* values[i] = table[values[i]], of 256. */                                                  \
  void map_levels(uint8_t* values, size_t size, const uint8_t* table) noexcept;                \
  /* The hue of each pixel turns by so many sixths of the circle, 0 to 6. */                   \
  void shift_hue(uint8_t* pixels, size_t count, float sixths) noexcept;                        \
  /* The smallest and the largest value of each channel. */                                    \
  void find_limits(const uint8_t* pixels, size_t count, uint8_t* low, uint8_t* high) noexcept; \
  /* Left and right change places. */                                                          \
  void mirror_row(uint8_t* row, size_t pixels) noexcept;                                       \
  }

#define HEADRACE_DECLARE_FILTERS(level)                                                            \
  namespace headrace::kernels::level {                                                             \
  /* Values of a row of RGB pixels times factor, plus (1 - factor) times the means of the 3 x 3    \
     around them where the middle counts 5 times, cut to 0..255, then to a whole. */               \
  void sharpen_row(const uint8_t* values, size_t stride, size_t size, float factor,                \
                   uint8_t* out) noexcept;                                                         \
  /* out[i] = weights[0] * rows[0][i] + sum over k from 1 to half of weights[k] * (rows[2k - 1][i] \
     + rows[2k][i]). */                                                                            \
  void blur_down(const uint8_t* const* rows, const float* weights, size_t half, size_t size,       \
                 float* out) noexcept;                                                             \
  /* The same of a row of RGB pixels and those to their left and right, rounded. */                \
  void blur_across(const float* values, const float* weights, size_t half, size_t size,            \
                   uint8_t* out) noexcept;                                                         \
  }

#define HEADRACE_DECLARE_MIX(level)                                                                \
  namespace headrace::kernels::level {                                                             \
  /* out[i] = a[i] * weight + b[i] * (1 - weight) in single precision; bytes are cut, halves       \
     rounded. The weight is 0 to 1. */                                                             \
  void mix_bytes(const uint8_t* a, const uint8_t* b, size_t size, float weight,                    \
                 uint8_t* out) noexcept;                                                           \
  void mix_halves(const uint16_t* a, const uint16_t* b, size_t size, float weight,                 \
                  uint16_t* out) noexcept;                                                         \
  void mix_floats(const float* a, const float* b, size_t size, float weight, float* out) noexcept; \
  }

#define HEADRACE_DECLARE_JPEG_LANES(level)                                                        \
  namespace headrace::kernels::level {                                                            \
  void start_jpeg_rows(const JpegRows* rows, JpegRowsState* state) noexcept;                      \
  /* The next MCUs of every row, MCU i to column i % 4 of the groups. False when codes are        \
     wrong or end too early; then the coefficients are to be cleared. */                          \
  bool read_jpeg_mcus(const JpegRows* rows, size_t count, JpegRowsState* state) noexcept;         \
  /* Bits read of a row. */                                                                       \
  uint64_t jpeg_position(const JpegRows* rows, size_t lane, const JpegRowsState* state) noexcept; \
  }

#define HEADRACE_DECLARE_JPEG_IDCT(level)                                                      \
  namespace headrace::kernels::level {                                                         \
  /* Four MCUs of every row to samples, from column `first` on; clears the coefficients. False \
     when values leave the range in which decoders agree. */                                   \
  bool transform_jpeg_mcus(const JpegRows* rows, size_t first) noexcept;                       \
  /* The same in 16 bits, up to a level off; false when values would leave these. */           \
  bool transform_jpeg_mcus_fast(const JpegRows* rows, size_t first) noexcept;                  \
  }

#define HEADRACE_DECLARE_JPEG_PIXELS(level)                                                     \
  namespace headrace::kernels::level {                                                          \
  /* Fancy upsampling as libjpeg has it, of `size` samples to 2 * size; `row` and `beside` have \
     a readable sample before the first one. All of these functions read and write up to 64     \
     samples, and write up to 192 bytes of pixels, more than asked for. */                      \
  void upsample_h2v1(const uint8_t* row, size_t size, uint8_t* out) noexcept;                   \
  void upsample_h2v2(const JpegSamples* samples, size_t size, uint8_t* out) noexcept;           \
  void upsample_h1v2(const JpegSamples* samples, size_t size, int bias, uint8_t* out) noexcept; \
  void ycc_to_rgb(const uint8_t* const* planes, size_t pixels, uint8_t* out) noexcept;          \
  void planes_to_rgb(const uint8_t* const* planes, size_t pixels, uint8_t* out) noexcept;       \
  }

HEADRACE_DECLARE_CRC32(scalar)
HEADRACE_DECLARE_CRC32C(scalar)
HEADRACE_DECLARE_OFFSETS(scalar)
HEADRACE_DECLARE_RESIZE(scalar)
HEADRACE_DECLARE_RESAMPLE(scalar)
HEADRACE_DECLARE_SIXTEENS(scalar)
HEADRACE_DECLARE_REDUCE_PLANE(scalar)
HEADRACE_DECLARE_PIXELS(scalar)
HEADRACE_DECLARE_OPENCV_AREA(scalar)
HEADRACE_DECLARE_LOOKUP(scalar)
HEADRACE_DECLARE_CRC32(sse42)
HEADRACE_DECLARE_COLOUR(scalar)
HEADRACE_DECLARE_FILTERS(scalar)
HEADRACE_DECLARE_MIX(scalar)
HEADRACE_DECLARE_CRC32C(sse42)
HEADRACE_DECLARE_RESAMPLE(sse42)
HEADRACE_DECLARE_PIXELS(sse42)
HEADRACE_DECLARE_RESIZE(avx2)
HEADRACE_DECLARE_OFFSETS(avx2)
HEADRACE_DECLARE_RESAMPLE(avx2)
HEADRACE_DECLARE_SIXTEENS(avx2)
HEADRACE_DECLARE_REDUCE_PLANE(avx2)
HEADRACE_DECLARE_PIXELS(avx2)
HEADRACE_DECLARE_OPENCV_AREA(avx2)
HEADRACE_DECLARE_CRC32(avx512)
HEADRACE_DECLARE_COLOUR(avx2)
HEADRACE_DECLARE_FILTERS(avx2)
HEADRACE_DECLARE_MIX(avx2)
HEADRACE_DECLARE_CRC32C(avx512)
HEADRACE_DECLARE_OFFSETS(avx512)
HEADRACE_DECLARE_RESIZE(avx512)
HEADRACE_DECLARE_RESAMPLE(avx512)
HEADRACE_DECLARE_SIXTEENS(avx512)
HEADRACE_DECLARE_REDUCE_PLANE(avx512)
HEADRACE_DECLARE_PIXELS(avx512)
HEADRACE_DECLARE_OPENCV_AREA(avx512)
HEADRACE_DECLARE_LOOKUP(avx512)
HEADRACE_DECLARE_COLOUR(avx512)
HEADRACE_DECLARE_FILTERS(avx512)
HEADRACE_DECLARE_MIX(avx512)
HEADRACE_DECLARE_JPEG_LANES(scalar)
HEADRACE_DECLARE_JPEG_IDCT(scalar)
HEADRACE_DECLARE_JPEG_PIXELS(scalar)
HEADRACE_DECLARE_JPEG_LANES(avx2)
HEADRACE_DECLARE_JPEG_IDCT(avx2)
HEADRACE_DECLARE_JPEG_PIXELS(avx2)
HEADRACE_DECLARE_JPEG_IDCT(avx512)
HEADRACE_DECLARE_JPEG_PIXELS(avx512)

namespace headrace::kernels::avx512 {
// crc32_update of a table of offsets, and in the same go their offset_signs.
uint32_t crc32_offsets(uint32_t state, uint64_t before, const uint8_t* table, size_t count,
                       uint64_t* signs) noexcept;
}  // namespace headrace::kernels::avx512

#undef HEADRACE_DECLARE_CRC32
#undef HEADRACE_DECLARE_CRC32C
#undef HEADRACE_DECLARE_OFFSETS
#undef HEADRACE_DECLARE_RESIZE
#undef HEADRACE_DECLARE_RESAMPLE
#undef HEADRACE_DECLARE_SIXTEENS
#undef HEADRACE_DECLARE_REDUCE_PLANE
#undef HEADRACE_DECLARE_PIXELS
#undef HEADRACE_DECLARE_OPENCV_AREA
#undef HEADRACE_DECLARE_LOOKUP
#undef HEADRACE_DECLARE_COLOUR
#undef HEADRACE_DECLARE_FILTERS
#undef HEADRACE_DECLARE_MIX
#undef HEADRACE_DECLARE_JPEG_LANES
#undef HEADRACE_DECLARE_JPEG_IDCT
#undef HEADRACE_DECLARE_JPEG_PIXELS
