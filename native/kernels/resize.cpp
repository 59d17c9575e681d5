// The two passes of area averaging: rows are blended first, at source width, where memory is
// contiguous; each output row is then reduced once.
//
// Every output value is a chain of multiply-then-add in tap order, in all variants, so that all
// levels give the same bits. The build forbids fused multiply-add for this file.
#include "kernels/floats.hpp"
#include "kernels/kernels.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

inline void reduce_pixel(const float* source, const float* weights, size_t taps, float scale,
                         float bias, uint8_t* out) {
  float red = 0;
  float green = 0;
  float blue = 0;
  for (size_t k = 0; k < taps; ++k) {
    red += weights[k] * source[3 * k];
    green += weights[k] * source[3 * k + 1];
    blue += weights[k] * source[3 * k + 2];
  }
  out[0] = to_level(red * scale + bias);
  out[1] = to_level(green * scale + bias);
  out[2] = to_level(blue * scale + bias);
}

#if defined(__AVX2__)

inline Floats multiply_add(Floats sum, Floats a, Floats b) { return add(sum, multiply(a, b)); }

constexpr size_t kBlock = 4 * kLanes;

inline void blend_block(const uint8_t* column, size_t stride, const float* weights, size_t taps,
                        float* work) {
  Floats sum_0 = broadcast(0);
  Floats sum_1 = broadcast(0);
  Floats sum_2 = broadcast(0);
  Floats sum_3 = broadcast(0);
  for (size_t k = 0; k < taps; ++k, column += stride) {
    const Floats weight = broadcast(weights[k]);
    sum_0 = multiply_add(sum_0, weight, load(column));
    sum_1 = multiply_add(sum_1, weight, load(column + kLanes));
    sum_2 = multiply_add(sum_2, weight, load(column + 2 * kLanes));
    sum_3 = multiply_add(sum_3, weight, load(column + 3 * kLanes));
  }
  store(work, sum_0);
  store(work + kLanes, sum_1);
  store(work + 2 * kLanes, sum_2);
  store(work + 3 * kLanes, sum_3);
}

inline void blend_columns(const uint8_t* first_row, size_t stride, const float* weights,
                          size_t taps, size_t begin, size_t end, float* work) {
  for (size_t x = begin; x < end; ++x) {
    float sum = 0;
    for (size_t k = 0; k < taps; ++k) {
      sum += weights[k] * static_cast<float>(first_row[k * stride + x]);
    }
    work[x] = sum;
  }
}

inline void blend(const uint8_t* first_row, size_t stride, const float* weights, size_t taps,
                  size_t size, float* work) {
  size_t x = 0;
  for (; x + kBlock <= size; x += kBlock) {
    blend_block(first_row + x, stride, weights, taps, work + x);
  }
  blend_columns(first_row, stride, weights, taps, x, size, work);
}

// A pixel is three lanes of a vector of four; the fourth lane carries the next pixel's red and is
// overwritten by it, so the last pixel of a row takes the plain way.
inline uint32_t reduce_vector(const float* source, const float* weights, size_t taps, __m128 scale,
                              __m128 bias) {
  __m128 sum = _mm_setzero_ps();
  for (size_t k = 0; k < taps; ++k) {
    sum = _mm_add_ps(sum, _mm_mul_ps(_mm_set1_ps(weights[k]), _mm_loadu_ps(source + 3 * k)));
  }
  const __m128i rounded = _mm_cvtps_epi32(_mm_add_ps(_mm_mul_ps(sum, scale), bias));
  const __m128i words = _mm_packus_epi32(rounded, rounded);
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_packus_epi16(words, words)));
}

// kTaps is the number of taps, or 0 for "known at run time only".
template <size_t kTaps>
inline void reduce_fixed(const float* work, const uint32_t* starts, const float* weights,
                         size_t taps, size_t pixels, float scale, float bias, uint8_t* out) {
  const size_t count = kTaps == 0 ? taps : kTaps;
  const __m128 scales = _mm_set1_ps(scale);
  const __m128 biases = _mm_set1_ps(bias);
  size_t j = 0;
  for (; j + 1 < pixels; ++j) {
    const uint32_t pixel = reduce_vector(work + 3 * static_cast<size_t>(starts[j]),
                                         weights + count * j, count, scales, biases);
    __builtin_memcpy(out + 3 * j, &pixel, sizeof pixel);
  }
  reduce_pixel(work + 3 * static_cast<size_t>(starts[j]), weights + count * j, count, scale, bias,
               out + 3 * j);
}

inline void reduce(const float* work, const uint32_t* starts, const float* weights, size_t taps,
                   size_t pixels, float scale, float bias, uint8_t* out) {
  switch (taps) {
    case 2:
      return reduce_fixed<2>(work, starts, weights, taps, pixels, scale, bias, out);
    case 3:
      return reduce_fixed<3>(work, starts, weights, taps, pixels, scale, bias, out);
    case 4:
      return reduce_fixed<4>(work, starts, weights, taps, pixels, scale, bias, out);
    case 5:
      return reduce_fixed<5>(work, starts, weights, taps, pixels, scale, bias, out);
    default:
      return reduce_fixed<0>(work, starts, weights, taps, pixels, scale, bias, out);
  }
}

#else

// Row after row, so that a compiler for any CPU can use what vectors it has.
inline void blend(const uint8_t* first_row, size_t stride, const float* weights, size_t taps,
                  size_t size, float* __restrict work) {
  for (size_t x = 0; x < size; ++x) work[x] = 0;
  for (size_t k = 0; k < taps; ++k) {
    const uint8_t* row = first_row + k * stride;
    const float weight = weights[k];
    for (size_t x = 0; x < size; ++x) work[x] += weight * static_cast<float>(row[x]);
  }
}

inline void reduce(const float* work, const uint32_t* starts, const float* weights, size_t taps,
                   size_t pixels, float scale, float bias, uint8_t* out) {
  for (size_t j = 0; j < pixels; ++j) {
    reduce_pixel(work + 3 * static_cast<size_t>(starts[j]), weights + taps * j, taps, scale, bias,
                 out + 3 * j);
  }
}

#endif

}  // namespace

void blend_rows(const uint8_t* first_row, size_t stride, const float* weights, size_t taps,
                size_t size, float* work) noexcept {
  blend(first_row, stride, weights, taps, size, work);
}

void reduce_row(const float* work, const uint32_t* starts, const float* weights, size_t taps,
                size_t pixels, float scale, float bias, uint8_t* out) noexcept {
  reduce(work, starts, weights, taps, pixels, scale, bias, out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
