// The two passes of resampling with few taps, in whole numbers: rows are blended first, at source
// width, to 16 bits; each output row is then reduced once. Sums are exact in 32 bits, so that all
// levels give the same bytes.
#include "kernels/kernels.hpp"

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL {
namespace {

constexpr int kBlendShift = 7;    // 14 bits of weight, 7 of them kept
constexpr int kReduceShift = 21;  // 7 bits kept, 14 bits of weight
constexpr int kWhite = 255 << kBlendShift;

// What a sum of the second pass becomes: a grey level where the first pass kept 7 bits, and 128ths
// of one where it kept none.
struct Levels {
  using Value = uint8_t;
  static constexpr int kShift = kReduceShift;
};
struct Parts {
  using Value = int16_t;
  static constexpr int kShift = kBlendShift;
};

inline uint8_t to_output(int32_t sum, Levels) {
  return static_cast<uint8_t>((sum + (1 << (kReduceShift - 1))) >> kReduceShift);
}

inline int16_t to_output(int32_t sum, Parts) {
  const int32_t parts = (sum + (1 << (kBlendShift - 1))) >> kBlendShift;
  return static_cast<int16_t>(parts < 0 ? 0 : parts > kWhite ? kWhite : parts);
}

inline uint8_t to_level(int32_t sum) {
  const int32_t level = (sum + (1 << (kReduceShift - 1))) >> kReduceShift;
  return static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
}

inline void blend_sharp_columns(const int16_t* first_row, size_t stride, const int16_t* weights,
                                size_t taps, size_t begin, size_t end, uint8_t* out) {
  for (size_t x = begin; x < end; ++x) {
    int32_t sum = 0;
    for (size_t k = 0; k < taps; ++k) sum += weights[k] * first_row[k * stride + x];
    out[x] = to_level(sum);
  }
}

inline void blend_columns(const uint8_t* first_row, size_t stride, const int16_t* weights,
                          size_t taps, size_t begin, size_t end, int16_t* work) {
  for (size_t x = begin; x < end; ++x) {
    int32_t sum = 1 << (kBlendShift - 1);
    for (size_t k = 0; k < taps; ++k) sum += weights[k] * first_row[k * stride + x];
    work[x] = static_cast<int16_t>(sum >> kBlendShift);
  }
}

#if defined(__SSE4_1__)

inline uint32_t pair_of(const int16_t* weights) {
  uint32_t pair;
  __builtin_memcpy(&pair, weights, sizeof pair);
  return pair;
}

#if defined(__AVX512BW__)
constexpr size_t kLanes = 32;
using Words = __m512i;
inline Words broadcast(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
inline Words load_bytes(const uint8_t* from) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline Words load_words(const int16_t* from) { return _mm512_loadu_si512(from); }
inline Words zip_low(Words a, Words b) { return _mm512_unpacklo_epi16(a, b); }
inline Words zip_high(Words a, Words b) { return _mm512_unpackhi_epi16(a, b); }
inline Words add_products(Words sum, Words a, Words b) { return _mm512_dpwssd_epi32(sum, a, b); }
inline void store_shifted(int16_t* to, Words low, Words high) {
  _mm512_storeu_si512(to, _mm512_packs_epi32(_mm512_srai_epi32(low, kBlendShift),
                                             _mm512_srai_epi32(high, kBlendShift)));
}
inline void store_levels(uint8_t* to, Words low, Words high) {
  const Words words = _mm512_packs_epi32(_mm512_srai_epi32(low, kReduceShift),
                                         _mm512_srai_epi32(high, kReduceShift));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtusepi16_epi8(_mm512_max_epi16(words, _mm512_setzero_si512())));
}
#elif defined(__AVX2__)
constexpr size_t kLanes = 16;
using Words = __m256i;
inline Words broadcast(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
inline Words load_bytes(const uint8_t* from) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline Words load_words(const int16_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline Words zip_low(Words a, Words b) { return _mm256_unpacklo_epi16(a, b); }
inline Words zip_high(Words a, Words b) { return _mm256_unpackhi_epi16(a, b); }
inline Words add_products(Words sum, Words a, Words b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
}
inline void store_shifted(int16_t* to, Words low, Words high) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_packs_epi32(_mm256_srai_epi32(low, kBlendShift),
                                         _mm256_srai_epi32(high, kBlendShift)));
}
inline void store_levels(uint8_t* to, Words low, Words high) {
  const Words words = _mm256_packs_epi32(_mm256_srai_epi32(low, kReduceShift),
                                         _mm256_srai_epi32(high, kReduceShift));
  const Words bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(words, words), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
}
#else
constexpr size_t kLanes = 8;
using Words = __m128i;
inline Words broadcast(uint32_t value) { return _mm_set1_epi32(static_cast<int>(value)); }
inline Words load_bytes(const uint8_t* from) {
  return _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
inline Words load_words(const int16_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline Words zip_low(Words a, Words b) { return _mm_unpacklo_epi16(a, b); }
inline Words zip_high(Words a, Words b) { return _mm_unpackhi_epi16(a, b); }
inline Words add_products(Words sum, Words a, Words b) {
  return _mm_add_epi32(sum, _mm_madd_epi16(a, b));
}
inline void store_shifted(int16_t* to, Words low, Words high) {
  _mm_storeu_si128(
      reinterpret_cast<__m128i*>(to),
      _mm_packs_epi32(_mm_srai_epi32(low, kBlendShift), _mm_srai_epi32(high, kBlendShift)));
}
inline void store_levels(uint8_t* to, Words low, Words high) {
  const Words words =
      _mm_packs_epi32(_mm_srai_epi32(low, kReduceShift), _mm_srai_epi32(high, kReduceShift));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}
#endif

inline Words load_source(const uint8_t* from) { return load_bytes(from); }
inline Words load_source(const int16_t* from) { return load_words(from); }

// An odd last tap is paired with itself and a weight of nothing.
template <typename Source>
inline void add_taps(const Source* column, size_t stride, const int16_t* weights, size_t taps,
                     Words& low, Words& high) {
  size_t k = 0;
  for (; k + 1 < taps; k += 2, column += 2 * stride) {
    const Words weight = broadcast(pair_of(weights + k));
    const Words a = load_source(column);
    const Words b = load_source(column + stride);
    low = add_products(low, zip_low(a, b), weight);
    high = add_products(high, zip_high(a, b), weight);
  }
  if (k == taps) return;
  const Words weight = broadcast(static_cast<uint16_t>(weights[k]));
  const Words a = load_source(column);
  low = add_products(low, zip_low(a, a), weight);
  high = add_products(high, zip_high(a, a), weight);
}

inline void blend_block(const uint8_t* column, size_t stride, const int16_t* weights, size_t taps,
                        int16_t* work) {
  Words low = broadcast(1 << (kBlendShift - 1));
  Words high = low;
  add_taps(column, stride, weights, taps, low, high);
  store_shifted(work, low, high);
}

inline void blend_block(const int16_t* column, size_t stride, const int16_t* weights, size_t taps,
                        uint8_t* out) {
  Words low = broadcast(1 << (kReduceShift - 1));
  Words high = low;
  add_taps(column, stride, weights, taps, low, high);
  store_levels(out, low, high);
}

// Whole blocks; the last one takes some columns twice, and none behind the end.
template <typename Source, typename Value>
inline void blend_blocks(const Source* first_row, size_t stride, const int16_t* weights,
                         size_t taps, size_t size, Value* out) {
  size_t x = 0;
  for (; x + kLanes <= size; x += kLanes) {
    blend_block(first_row + x, stride, weights, taps, out + x);
  }
  if (x == size) return;
  x = size - kLanes;
  blend_block(first_row + x, stride, weights, taps, out + x);
}

inline void blend(const uint8_t* first_row, size_t stride, const int16_t* weights, size_t taps,
                  size_t size, int16_t* work) {
  if (size < kLanes) return blend_columns(first_row, stride, weights, taps, 0, size, work);
  blend_blocks(first_row, stride, weights, taps, size, work);
}

inline void blend_sharp(const int16_t* first_row, size_t stride, const int16_t* weights,
                        size_t taps, size_t size, uint8_t* out) {
  if (size < kLanes) return blend_sharp_columns(first_row, stride, weights, taps, 0, size, out);
  blend_blocks(first_row, stride, weights, taps, size, out);
}

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
  const __m256i kept =
      _mm256_min_epi16(_mm256_max_epi16(words, _mm256_setzero_si256()), _mm256_set1_epi16(kWhite));
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
      _mm_min_epi16(_mm_max_epi16(words, _mm_setzero_si128()), _mm_set1_epi16(kWhite));
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
    const __m128i pixels = _mm_shuffle_epi8(load_words(source), taps_together);
    sum = add_products(sum, pixels, broadcast(*pairs));
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

// Some columns at a time, row after row, so that a compiler for any CPU can use what vectors it
// has.
inline void blend(const uint8_t* first_row, size_t stride, const int16_t* weights, size_t taps,
                  size_t size, int16_t* work) {
  constexpr size_t kColumns = 64;
  size_t x = 0;
  for (; x + kColumns <= size; x += kColumns) {
    int32_t sums[kColumns];
    for (size_t i = 0; i < kColumns; ++i) sums[i] = 1 << (kBlendShift - 1);
    for (size_t k = 0; k < taps; ++k) {
      const uint8_t* row = first_row + k * stride + x;
      for (size_t i = 0; i < kColumns; ++i) sums[i] += weights[k] * row[i];
    }
    for (size_t i = 0; i < kColumns; ++i)
      work[x + i] = static_cast<int16_t>(sums[i] >> kBlendShift);
  }
  blend_columns(first_row, stride, weights, taps, x, size, work);
}

inline void blend_sharp(const int16_t* first_row, size_t stride, const int16_t* weights,
                        size_t taps, size_t size, uint8_t* out) {
  constexpr size_t kColumns = 64;
  size_t x = 0;
  for (; x + kColumns <= size; x += kColumns) {
    int32_t sums[kColumns] = {};
    for (size_t k = 0; k < taps; ++k) {
      const int16_t* row = first_row + k * stride + x;
      for (size_t i = 0; i < kColumns; ++i) sums[i] += weights[k] * row[i];
    }
    for (size_t i = 0; i < kColumns; ++i) out[x + i] = to_level(sums[i]);
  }
  blend_sharp_columns(first_row, stride, weights, taps, x, size, out);
}

inline int32_t weight_of(uint32_t pair, size_t tap) {
  return static_cast<int16_t>(pair >> (tap % 2 == 0 ? 0 : 16));
}

template <typename Output>
inline void reduce_pixel(const int16_t* work, const FixedColumns& columns, size_t j,
                         typename Output::Value* out) {
  const int16_t* source = work + 3 * static_cast<size_t>(columns.starts[j]);
  int32_t sums[3] = {0, 0, 0};
  for (size_t k = 0; k < 2 * columns.pair_count; ++k, source += 3) {
    const int32_t weight = weight_of(columns.pairs[k / 2 * columns.padded + j], k);
    for (size_t c = 0; c < 3; ++c) sums[c] += weight * source[c];
  }
  for (size_t c = 0; c < 3; ++c) out[c] = to_output(sums[c], Output{});
}

#endif

#if defined(__AVX512BW__)

// A group is 5 pixels: 15 sums of 32 bits. Its table row for a pair of taps has 32 indices of
// 16 bits into 64 source values, and 32 weights. Behind the groups the table has the first source
// pixel of each of them, so that the vectors stay aligned, and last whether 32 source values were
// enough for every group.
constexpr size_t kReach = 64;

// Source values from the first to the last that the group uses.
inline size_t span_of(const FixedColumns& columns, size_t begin, size_t end, uint32_t* first) {
  uint32_t low = columns.starts[begin];
  uint32_t high = low;
  for (size_t j = begin + 1; j < end; ++j) {
    low = columns.starts[j] < low ? columns.starts[j] : low;
    high = columns.starts[j] > high ? columns.starts[j] : high;
  }
  *first = low;
  return 3 * (static_cast<size_t>(high - low) + 2 * columns.pair_count);
}

inline void plan_group(const FixedColumns& columns, size_t begin, size_t end, uint32_t first,
                       uint8_t* table) {
  for (size_t p = 0; p < columns.pair_count; ++p, table += kColumnTableBytes) {
    _mm512_storeu_si512(table, _mm512_setzero_si512());
    _mm512_storeu_si512(table + 64, _mm512_setzero_si512());
    for (size_t j = begin; j < end; ++j) {
      const uint32_t offset = 3 * (columns.starts[j] - first) + static_cast<uint32_t>(6 * p);
      const uint32_t pair = columns.pairs[p * columns.padded + j];
      const uint32_t both = offset | (offset + 3) << 16;
      const uint32_t indices[3] = {both, both + 0x00010001U, both + 0x00020002U};
      const uint32_t weights[3] = {pair, pair, pair};
      __builtin_memcpy(table + 12 * (j - begin), indices, sizeof indices);
      __builtin_memcpy(table + 64 + 12 * (j - begin), weights, sizeof weights);
    }
  }
}

inline bool plan_columns(const FixedColumns& columns, uint8_t* table) {
  const size_t groups = (columns.pixels + kColumnGroup - 1) / kColumnGroup;
  uint8_t* firsts = table + groups * columns.pair_count * kColumnTableBytes;
  size_t longest = 0;
  for (size_t g = 0; g < groups; ++g) {
    const size_t begin = g * kColumnGroup;
    const size_t end =
        begin + kColumnGroup < columns.pixels ? begin + kColumnGroup : columns.pixels;
    uint32_t first;
    const size_t span = span_of(columns, begin, end, &first);
    if (span > kReach) return false;
    longest = span > longest ? span : longest;
    __builtin_memcpy(firsts + g * sizeof first, &first, sizeof first);
    plan_group(columns, begin, end, first, table + g * columns.pair_count * kColumnTableBytes);
  }
  firsts[groups * sizeof(uint32_t)] = longest <= kReach / 2 ? 1 : 0;
  return true;
}

// The first `count` of 16 values; all of them when there are 16, of which the last is overwritten.
inline void store_group(uint8_t* out, __m512i sum, size_t count) {
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, kReduceShift));
  if (count == 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
  _mm_mask_storeu_epi8(out, static_cast<__mmask16>((1U << count) - 1), bytes);
}

inline void store_group(int16_t* out, __m512i sum, size_t count) {
  const __m512i kept = _mm512_min_epi32(
      _mm512_max_epi32(_mm512_srai_epi32(sum, kBlendShift), _mm512_setzero_si512()),
      _mm512_set1_epi32(kWhite));
  const __m256i parts = _mm512_cvtepi32_epi16(kept);
  if (count == 16) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), parts);
  _mm256_mask_storeu_epi16(out, static_cast<__mmask16>((1U << count) - 1), parts);
}

template <typename Output, size_t kPairs, bool kIsNarrow>
inline void reduce_groups(const int16_t* work, const FixedColumns& columns,
                          typename Output::Value* out) {
  const size_t pairs = kPairs == 0 ? columns.pair_count : kPairs;
  const size_t groups = (columns.pixels + kColumnGroup - 1) / kColumnGroup;
  const uint8_t* table = columns.table;
  const uint8_t* firsts = table + groups * pairs * kColumnTableBytes;
  for (size_t g = 0; g < groups; ++g, out += 3 * kColumnGroup) {
    uint32_t first;
    __builtin_memcpy(&first, firsts + g * sizeof first, sizeof first);
    const int16_t* source = work + 3 * static_cast<size_t>(first);
    const __m512i low = _mm512_loadu_si512(source);
    const __m512i high = kIsNarrow ? low : _mm512_loadu_si512(source + 32);
    __m512i sum = _mm512_set1_epi32(1 << (Output::kShift - 1));
    for (size_t p = 0; p < pairs; ++p, table += kColumnTableBytes) {
      const __m512i indices = _mm512_load_si512(table);
      const __m512i values = kIsNarrow ? _mm512_permutexvar_epi16(indices, low)
                                       : _mm512_permutex2var_epi16(low, indices, high);
      sum = add_products(sum, values, _mm512_load_si512(table + 64));
    }
    const size_t left = columns.pixels - g * kColumnGroup;
    // The sixteenth value is the next group's, who overwrites it.
    store_group(out, sum, left > kColumnGroup ? 16 : 3 * left);
  }
}

template <typename Output, size_t kPairs>
inline void reduce_pairs(const int16_t* work, const FixedColumns& columns,
                         typename Output::Value* out) {
  const size_t groups = (columns.pixels + kColumnGroup - 1) / kColumnGroup;
  const size_t row_bytes = columns.pair_count * kColumnTableBytes + sizeof(uint32_t);
  if (columns.table[groups * row_bytes] != 0) {
    reduce_groups<Output, kPairs, true>(work, columns, out);
  } else {
    reduce_groups<Output, kPairs, false>(work, columns, out);
  }
}

template <typename Output>
inline void reduce(const int16_t* work, const FixedColumns& columns, typename Output::Value* out) {
  if (columns.table == nullptr) return reduce_by_four<Output>(work, columns, out);
  switch (columns.pair_count) {
    case 1:
      return reduce_pairs<Output, 1>(work, columns, out);
    case 2:
      return reduce_pairs<Output, 2>(work, columns, out);
    case 3:
      return reduce_pairs<Output, 3>(work, columns, out);
    default:
      return reduce_pairs<Output, 0>(work, columns, out);
  }
}

#else

inline bool plan_columns(const FixedColumns&, uint8_t*) { return false; }

template <typename Output>
inline void reduce(const int16_t* work, const FixedColumns& columns, typename Output::Value* out) {
#if defined(__SSE4_1__)
  reduce_by_four<Output>(work, columns, out);
#else
  for (size_t j = 0; j < columns.pixels; ++j) {
    reduce_pixel<Output>(work, columns, j, out + 3 * j);
  }
#endif
}

#endif

}  // namespace

void blend_rows_fixed(const uint8_t* first_row, size_t stride, const int16_t* weights, size_t taps,
                      size_t size, int16_t* work) noexcept {
  blend(first_row, stride, weights, taps, size, work);
}

bool plan_columns_fixed(const FixedColumns* columns, uint8_t* table) noexcept {
  return plan_columns(*columns, table);
}

void reduce_row_fixed(const int16_t* work, const FixedColumns* columns, uint8_t* out) noexcept {
  reduce<Levels>(work, *columns, out);
}

void reduce_row_sharp(const int16_t* work, const FixedColumns* columns, int16_t* out) noexcept {
  reduce<Parts>(work, *columns, out);
}

void blend_rows_sharp(const int16_t* first_row, size_t stride, const int16_t* weights, size_t taps,
                      size_t size, uint8_t* out) noexcept {
  blend_sharp(first_row, stride, weights, taps, size, out);
}

}  // namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL
