// The pass of resampling with few taps that blends rows: bytes to 128ths of grey levels where it is
// the first one, and those to bytes where it is the second.
#include "kernels/resample.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

template <typename Value>
constexpr int kShift = kReduceShift;
template <>
constexpr int kShift<int16_t> = kBlendShift;

// What a sum begins with, so that it is rounded.
template <typename Value>
constexpr int32_t kHalf = 1 << (kShift<Value> - 1);

inline void store_sum(int16_t* to, int32_t sum) {
  *to = static_cast<int16_t>(sum >> kShift<int16_t>);
}

inline void store_sum(uint8_t* to, int32_t sum) {
  const int32_t level = sum >> kShift<uint8_t>;
  *to = static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
}

template <typename Source, typename Value>
inline void blend_columns(const Source* first_row, size_t stride, const int16_t* weights,
                          size_t taps, size_t begin, size_t end, Value* out) {
  for (size_t x = begin; x < end; ++x) {
    int32_t sum = kHalf<Value>;
    for (size_t k = 0; k < taps; ++k) sum += weights[k] * first_row[k * stride + x];
    store_sum(out + x, sum);
  }
}

#if defined(__SSE4_1__)

#if defined(__AVX512BW__)
constexpr size_t kLanes = 32;
using Words = __m512i;
inline Words broadcast(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
inline Words load(const uint8_t* from) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline Words load(const int16_t* from) { return _mm512_loadu_si512(from); }
inline Words zip_low(Words a, Words b) { return _mm512_unpacklo_epi16(a, b); }
inline Words zip_high(Words a, Words b) { return _mm512_unpackhi_epi16(a, b); }
inline Words add_products(Words sum, Words a, Words b) { return _mm512_dpwssd_epi32(sum, a, b); }
inline void store_sums(int16_t* to, Words low, Words high) {
  _mm512_storeu_si512(to, _mm512_packs_epi32(_mm512_srai_epi32(low, kBlendShift),
                                             _mm512_srai_epi32(high, kBlendShift)));
}
inline void store_sums(uint8_t* to, Words low, Words high) {
  const Words words = _mm512_packs_epi32(_mm512_srai_epi32(low, kReduceShift),
                                         _mm512_srai_epi32(high, kReduceShift));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtusepi16_epi8(_mm512_max_epi16(words, _mm512_setzero_si512())));
}
#elif defined(__AVX2__)
constexpr size_t kLanes = 16;
using Words = __m256i;
inline Words broadcast(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
inline Words load(const uint8_t* from) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Words load(const int16_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline Words zip_low(Words a, Words b) { return _mm256_unpacklo_epi16(a, b); }
inline Words zip_high(Words a, Words b) { return _mm256_unpackhi_epi16(a, b); }
inline Words add_products(Words sum, Words a, Words b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
inline void store_sums(int16_t* to, Words low, Words high) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_packs_epi32(_mm256_srai_epi32(low, kBlendShift),
                                         _mm256_srai_epi32(high, kBlendShift)));
}
inline void store_sums(uint8_t* to, Words low, Words high) {
  const Words words = _mm256_packs_epi32(_mm256_srai_epi32(low, kReduceShift),
                                         _mm256_srai_epi32(high, kReduceShift));
  const Words bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
}
#else
constexpr size_t kLanes = 8;
using Words = __m128i;
inline Words broadcast(uint32_t value) { return _mm_set1_epi32(static_cast<int>(value)); }
inline Words load(const uint8_t* from) {
  return _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
inline Words load(const int16_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline Words zip_low(Words a, Words b) { return _mm_unpacklo_epi16(a, b); }
inline Words zip_high(Words a, Words b) { return _mm_unpackhi_epi16(a, b); }
inline Words add_products(Words sum, Words a, Words b) {
  return _mm_add_epi32(sum, _mm_madd_epi16(a, b));
}
inline void store_sums(int16_t* to, Words low, Words high) {
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packs_epi32(_mm_srai_epi32(low, kBlendShift), _mm_srai_epi32(high, kBlendShift)));
}
inline void store_sums(uint8_t* to, Words low, Words high) {
  const Words words =
      _mm_packs_epi32(_mm_srai_epi32(low, kReduceShift), _mm_srai_epi32(high, kReduceShift));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}
#endif

inline uint32_t pair_of(const int16_t* weights) {
  uint32_t pair;
  __builtin_memcpy(&pair, weights, sizeof pair);
  return pair;
}

// As many columns as there are lanes. An odd last tap is paired with itself and a weight of
// nothing.
template <typename Source, typename Value>
inline void blend_block(const Source* column, size_t stride, const int16_t* weights, size_t taps,
                        Value* out) {
  Words low = broadcast(kHalf<Value>);
  Words high = low;
  size_t k = 0;
  for (; k + 1 < taps; k += 2, column += 2 * stride) {
    const Words weight = broadcast(pair_of(weights + k));
    const Words a = load(column);
    const Words b = load(column + stride);
    low = add_products(low, zip_low(a, b), weight);
    high = add_products(high, zip_high(a, b), weight);
  }
  if (k < taps) {
    const Words weight = broadcast(static_cast<uint16_t>(weights[k]));
    const Words a = load(column);
    low = add_products(low, zip_low(a, a), weight);
    high = add_products(high, zip_high(a, a), weight);
  }
  store_sums(out, low, high);
}

// Whole blocks; the last one takes some columns twice, and none behind the end.
template <typename Source, typename Value>
inline void blend(const Source* first_row, size_t stride, const int16_t* weights, size_t taps,
                  size_t size, Value* out) {
  if (size < kLanes) return blend_columns(first_row, stride, weights, taps, 0, size, out);
  size_t x = 0;
  for (; x + kLanes <= size; x += kLanes) {
    blend_block(first_row + x, stride, weights, taps, out + x);
  }
  if (x == size) return;
  x = size - kLanes;
  blend_block(first_row + x, stride, weights, taps, out + x);
}

#else

// Some columns at a time, row after row, so that a compiler for any CPU can use what vectors it
// has.
template <typename Source, typename Value>
inline void blend(const Source* first_row, size_t stride, const int16_t* weights, size_t taps,
                  size_t size, Value* out) {
  constexpr size_t kColumns = 64;
  size_t x = 0;
  for (; x + kColumns <= size; x += kColumns) {
    int32_t sums[kColumns];
    for (size_t i = 0; i < kColumns; ++i) sums[i] = kHalf<Value>;
    for (size_t k = 0; k < taps; ++k) {
      const Source* row = first_row + k * stride + x;
      for (size_t i = 0; i < kColumns; ++i) sums[i] += weights[k] * row[i];
    }
    for (size_t i = 0; i < kColumns; ++i) store_sum(out + x + i, sums[i]);
  }
  blend_columns(first_row, stride, weights, taps, x, size, out);
}

#endif

}  // namespace

void blend_rows_fixed(const uint8_t* first_row, size_t stride, const int16_t* weights, size_t taps,
                      size_t size, int16_t* work) noexcept {
  blend(first_row, stride, weights, taps, size, work);
}

void blend_rows_sharp(const int16_t* first_row, size_t stride, const int16_t* weights, size_t taps,
                      size_t size, uint8_t* out) noexcept {
  blend(first_row, stride, weights, taps, size, out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
