// Output rows of resampling with few taps in groups of five pixels, by a table: the way of AVX-512,
// where the sources of each group lie close together. Included by kernel sources: everything here
// is theirs alone, compiled for their level.
#pragma once

#include "kernels/resample.hpp"

#if defined(__AVX512BW__)

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

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
  const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, Levels::kShift));
  if (count == 16) return _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
  _mm_mask_storeu_epi8(out, static_cast<__mmask16>((1U << count) - 1), bytes);
}

inline void store_group(int16_t* out, __m512i sum, size_t count) {
  const __m512i kept = _mm512_min_epi32(
      _mm512_max_epi32(_mm512_srai_epi32(sum, Parts::kShift), _mm512_setzero_si512()),
      _mm512_set1_epi32(Parts::kWhite));
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
      sum = _mm512_dpwssd_epi32(sum, values, _mm512_load_si512(table + 64));
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
inline void reduce_by_table(const int16_t* work, const FixedColumns& columns,
                            typename Output::Value* out) {
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

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL

#endif
