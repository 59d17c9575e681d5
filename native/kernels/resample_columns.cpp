// The pass of resampling with few taps that makes the pixels of an output row from those of a row
// of 16 bits, three channels each.
#include "kernels/resample_groups.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

#if defined(__SSE4_1__)

#if defined(__AVX2__)

// Two pixels, each in its half: its first eight values, of which the shuffle makes pairs of taps.
inline __m256i load_pixels(const int16_t* low, const int16_t* high) {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

// Two pixels from each half, without the fourth value of each; what lies behind them is
// overwritten.
inline void store_pixels(uint8_t* out, __m256i words) {
  const __m256i without_fourth = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(words, words), without_fourth);
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(bytes));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 6), _mm256_extracti128_si256(bytes, 1));
}

inline void store_pixels(int16_t* out, __m256i words) {
  const __m256i without_fourth = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1));
  const __m256i kept = _mm256_min_epi16(_mm256_max_epi16(words, _mm256_setzero_si256()),
                                        _mm256_set1_epi16(Parts::kWhite));
  const __m256i parts = _mm256_shuffle_epi8(kept, without_fourth);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(parts));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 6), _mm256_extracti128_si256(parts, 1));
}

// Four pixels from j on; writes up to 16 values, 12 of which count.
template <typename Output>
inline void reduce_four(const int16_t* work, const FixedColumns& columns, size_t j,
                        typename Output::Value* out) {
  const __m256i taps_together = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1));
  const __m256i even = _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2);
  const __m256i odd = _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3);
  const int16_t* source[4];
  for (size_t i = 0; i < 4; ++i) {
    source[i] = work + 3 * static_cast<size_t>(columns.starts[j + i]);
  }
  __m256i sum_02 = _mm256_set1_epi32(1 << (Output::kShift - 1));
  __m256i sum_13 = sum_02;
  for (size_t p = 0; p < columns.pair_count; ++p) {
    const uint32_t* pairs = columns.pairs + p * columns.padded + j;
    const __m256i weights =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pairs)));
    const __m256i pixels_02 =
        _mm256_shuffle_epi8(load_pixels(source[0] + 6 * p, source[2] + 6 * p), taps_together);
    const __m256i pixels_13 =
        _mm256_shuffle_epi8(load_pixels(source[1] + 6 * p, source[3] + 6 * p), taps_together);
    sum_02 = _mm256_add_epi32(
        sum_02, _mm256_madd_epi16(pixels_02, _mm256_permutevar8x32_epi32(weights, even)));
    sum_13 = _mm256_add_epi32(
        sum_13, _mm256_madd_epi16(pixels_13, _mm256_permutevar8x32_epi32(weights, odd)));
  }
  store_pixels(out, _mm256_packs_epi32(_mm256_srai_epi32(sum_02, Output::kShift),
                                       _mm256_srai_epi32(sum_13, Output::kShift)));
}

#else

// Four pixels, without the fourth value of each; what lies behind them is overwritten.
inline void store_pixels(uint8_t* out, __m128i first, __m128i second) {
  const __m128i without_fourth =
      _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out),
                   _mm_shuffle_epi8(_mm_packus_epi16(first, second), without_fourth));
}

inline void store_two_pixels(int16_t* out, __m128i words) {
  const __m128i without_fourth =
      _mm_setr_epi8(0, 1, 2, 3, 4, 5, 8, 9, 10, 11, 12, 13, -1, -1, -1, -1);
  const __m128i kept =
      _mm_min_epi16(_mm_max_epi16(words, _mm_setzero_si128()), _mm_set1_epi16(Parts::kWhite));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(kept, without_fourth));
}

inline void store_pixels(int16_t* out, __m128i first, __m128i second) {
  store_two_pixels(out, first);
  store_two_pixels(out + 6, second);
}

// Of the eight values of a pixel and what follows it, the shuffle makes pairs of taps.
template <typename Output>
inline __m128i reduce_one(const int16_t* work, const FixedColumns& columns, size_t j) {
  const __m128i taps_together = _mm_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
  const int16_t* source = work + 3 * static_cast<size_t>(columns.starts[j]);
  const uint32_t* pairs = columns.pairs + j;
  __m128i sum = _mm_set1_epi32(1 << (Output::kShift - 1));
  for (size_t p = 0; p < columns.pair_count; ++p, source += 6, pairs += columns.padded) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source));
    const __m128i pixels = _mm_shuffle_epi8(values, taps_together);
    const __m128i weights = _mm_set1_epi32(static_cast<int>(*pairs));
    sum = _mm_add_epi32(sum, _mm_madd_epi16(pixels, weights));
  }
  return _mm_srai_epi32(sum, Output::kShift);
}

// Four pixels from j on; writes up to 16 values, 12 of which count.
template <typename Output>
inline void reduce_four(const int16_t* work, const FixedColumns& columns, size_t j,
                        typename Output::Value* out) {
  store_pixels(out,
               _mm_packs_epi32(reduce_one<Output>(work, columns, j),
                               reduce_one<Output>(work, columns, j + 1)),
               _mm_packs_epi32(reduce_one<Output>(work, columns, j + 2),
                               reduce_one<Output>(work, columns, j + 3)));
}

#endif

// The last pixels go through memory of our own: what follows the row belongs to someone else.
template <typename Output>
inline void reduce_by_four(const int16_t* work, const FixedColumns& columns,
                           typename Output::Value* out) {
  size_t j = 0;
  for (; j + 6 <= columns.pixels; j += 4) reduce_four<Output>(work, columns, j, out + 3 * j);
  for (; j < columns.pixels; j += 4) {
    typename Output::Value last[16];
    reduce_four<Output>(work, columns, j, last);
    const size_t left = columns.pixels - j;
    __builtin_memcpy(out + 3 * j, last, 3 * (left < 4 ? left : 4) * sizeof last[0]);
  }
}

#else

inline void store_sum(uint8_t* to, int32_t sum) {
  *to = static_cast<uint8_t>(sum >> Levels::kShift);
}

inline void store_sum(int16_t* to, int32_t sum) {
  const int32_t parts = sum >> Parts::kShift;
  *to = static_cast<int16_t>(parts < 0 ? 0 : parts > Parts::kWhite ? Parts::kWhite : parts);
}

inline int32_t weight_of(uint32_t pair, size_t tap) {
  return static_cast<int16_t>(pair >> (tap % 2 == 0 ? 0 : 16));
}

template <typename Output>
inline void reduce_pixel(const int16_t* work, const FixedColumns& columns, size_t j,
                         typename Output::Value* out) {
  const int16_t* source = work + 3 * static_cast<size_t>(columns.starts[j]);
  constexpr int32_t kHalf = 1 << (Output::kShift - 1);
  int32_t sums[3] = {kHalf, kHalf, kHalf};
  for (size_t k = 0; k < 2 * columns.pair_count; ++k, source += 3) {
    const int32_t weight = weight_of(columns.pairs[k / 2 * columns.padded + j], k);
    for (size_t c = 0; c < 3; ++c) sums[c] += weight * source[c];
  }
  for (size_t c = 0; c < 3; ++c) store_sum(out + c, sums[c]);
}

#endif

#if !defined(__AVX512BW__)
inline bool plan_columns(const FixedColumns&, uint8_t*) { return false; }
#endif

template <typename Output>
inline void reduce(const int16_t* work, const FixedColumns& columns, typename Output::Value* out) {
#if defined(__AVX512BW__)
  if (columns.table != nullptr) return reduce_by_table<Output>(work, columns, out);
#endif
#if defined(__SSE4_1__)
  reduce_by_four<Output>(work, columns, out);
#else
  for (size_t j = 0; j < columns.pixels; ++j) {
    reduce_pixel<Output>(work, columns, j, out + 3 * j);
  }
#endif
}

}  // namespace

bool plan_columns_fixed(const FixedColumns* columns, uint8_t* table) noexcept {
  return plan_columns(*columns, table);
}

void reduce_row_fixed(const int16_t* work, const FixedColumns* columns, uint8_t* out) noexcept {
  reduce<Levels>(work, *columns, out);
}

void reduce_row_sharp(const int16_t* work, const FixedColumns* columns, int16_t* out) noexcept {
  reduce<Parts>(work, *columns, out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
