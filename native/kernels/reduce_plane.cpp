// The second pass of resampling with few taps, as in resample_columns.cpp, of one channel. Sums are
// exact, so that all levels give the same bytes.
#include "kernels/resample.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

#if defined(__SSE4_1__)

inline __m128i load_eight(const void* from) {
  return _mm_loadl_epi64(static_cast<const __m128i*>(from));
}

inline __m128i load_all(const void* from) {
  return _mm_loadu_si128(static_cast<const __m128i*>(from));
}

// Four values from j on, two pairs of taps at a time: of each value four sources stand side by
// side.
inline __m128i reduce_four(const int16_t* work, const FixedColumns& columns, size_t j) {
  const uint32_t* starts = columns.starts + j;
  __m128i sum = _mm_set1_epi32(1 << (kReduceShift - 1));
  for (size_t p = 0; p < columns.pair_count; p += 2) {
    const uint32_t* pairs = columns.pairs + p * columns.padded + j;
    const __m128i first = load_all(pairs);
    const __m128i second =
        p + 1 < columns.pair_count ? load_all(pairs + columns.padded) : _mm_setzero_si128();
    const int16_t* source = work + 2 * p;
    const __m128i low =
        _mm_unpacklo_epi64(load_eight(source + starts[0]), load_eight(source + starts[1]));
    const __m128i high =
        _mm_unpacklo_epi64(load_eight(source + starts[2]), load_eight(source + starts[3]));
    sum =
        _mm_add_epi32(sum, _mm_hadd_epi32(_mm_madd_epi16(low, _mm_unpacklo_epi32(first, second)),
                                          _mm_madd_epi16(high, _mm_unpackhi_epi32(first, second))));
  }
  return _mm_srai_epi32(sum, kReduceShift);
}

inline void reduce_by_four(const int16_t* work, const FixedColumns& columns, uint8_t* out) {
  for (size_t j = 0; j < columns.pixels; j += 4) {
    const __m128i words = _mm_packs_epi32(reduce_four(work, columns, j), _mm_setzero_si128());
    const int bytes = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    __builtin_memcpy(out + j, &bytes, sizeof bytes);
  }
}

#endif

#if defined(__AVX512BW__)

// A group is 16 values. Of each pair of taps the table has 32 indices of 16 bits into the group's
// 64 sources, and behind all groups where each of these begins.
constexpr size_t kGroup = 16;
constexpr size_t kReach = 64;

inline size_t count_groups(const FixedColumns& columns) {
  return (columns.pixels + kGroup - 1) / kGroup;
}

// Starts rise from left to right, or fall in a mirror image.
inline bool plan(const FixedColumns& columns, uint8_t* table) {
  const size_t groups = count_groups(columns);
  uint8_t* firsts = table + groups * columns.pair_count * kPlaneTableBytes;
  bool is_narrow = true;
  for (size_t g = 0; g < groups; ++g) {
    const size_t begin = g * kGroup;
    const size_t end = begin + kGroup < columns.pixels ? begin + kGroup : columns.pixels;
    const uint32_t left = columns.starts[begin];
    const uint32_t right = columns.starts[end - 1];
    const uint32_t first = left < right ? left : right;
    const size_t span = (left < right ? right - left : left - right) + 2 * columns.pair_count;
    if (span > kReach) return false;
    is_narrow &= span <= kReach / 2;
    __builtin_memcpy(firsts + g * sizeof first, &first, sizeof first);
    const auto lanes = static_cast<__mmask16>((1U << (end - begin)) - 1);
    const __m512i offsets =
        _mm512_maskz_sub_epi32(lanes, _mm512_maskz_loadu_epi32(lanes, columns.starts + begin),
                               _mm512_set1_epi32(static_cast<int>(first)));
    const __m512i indices = _mm512_or_si512(offsets, _mm512_slli_epi32(offsets, 16));
    for (size_t p = 0; p < columns.pair_count; ++p, table += kPlaneTableBytes) {
      const auto tap = static_cast<int>(2 * p);
      _mm512_store_si512(table,
                         _mm512_add_epi16(indices, _mm512_set1_epi32(tap | (tap + 1) << 16)));
    }
  }
  firsts[groups * sizeof(uint32_t)] = is_narrow ? 1 : 0;
  return true;
}

// kPairs is the number of pairs of taps, or 0 for "known at run time only".
template <size_t kPairs, bool kIsNarrow>
inline void reduce_groups(const int16_t* work, const FixedColumns& columns, uint8_t* out) {
  const size_t pairs = kPairs == 0 ? columns.pair_count : kPairs;
  const size_t groups = count_groups(columns);
  const uint8_t* table = columns.table;
  const uint8_t* firsts = table + groups * pairs * kPlaneTableBytes;
  for (size_t g = 0; g < groups; ++g) {
    uint32_t first;
    __builtin_memcpy(&first, firsts + g * sizeof first, sizeof first);
    const __m512i low = _mm512_loadu_si512(work + first);
    const __m512i high = kIsNarrow ? low : _mm512_loadu_si512(work + first + 32);
    __m512i sum = _mm512_set1_epi32(1 << (kReduceShift - 1));
    for (size_t p = 0; p < pairs; ++p, table += kPlaneTableBytes) {
      const __m512i indices = _mm512_load_si512(table);
      const __m512i values = kIsNarrow ? _mm512_permutexvar_epi16(indices, low)
                                       : _mm512_permutex2var_epi16(low, indices, high);
      const uint32_t* weights = columns.pairs + p * columns.padded + g * kGroup;
      sum = _mm512_dpwssd_epi32(sum, values, _mm512_loadu_si512(weights));
    }
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + g * kGroup),
                     _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, kReduceShift)));
  }
}

template <size_t kPairs>
inline void reduce_pairs(const int16_t* work, const FixedColumns& columns, uint8_t* out) {
  const size_t group_bytes = columns.pair_count * kPlaneTableBytes + sizeof(uint32_t);
  if (columns.table[count_groups(columns) * group_bytes] != 0) {
    return reduce_groups<kPairs, true>(work, columns, out);
  }
  reduce_groups<kPairs, false>(work, columns, out);
}

inline void reduce(const int16_t* work, const FixedColumns& columns, uint8_t* out) {
  if (columns.table == nullptr) return reduce_by_four(work, columns, out);
  switch (columns.pair_count) {
    case 1:
      return reduce_pairs<1>(work, columns, out);
    case 2:
      return reduce_pairs<2>(work, columns, out);
    default:
      return reduce_pairs<0>(work, columns, out);
  }
}

#else

inline bool plan(const FixedColumns&, uint8_t*) { return false; }

inline void reduce(const int16_t* work, const FixedColumns& columns, uint8_t* out) {
#if defined(__SSE4_1__)
  reduce_by_four(work, columns, out);
#else
  for (size_t j = 0; j < columns.pixels; ++j) {
    const int16_t* source = work + columns.starts[j];
    int32_t sum = 1 << (kReduceShift - 1);
    for (size_t p = 0; p < columns.pair_count; ++p, source += 2) {
      const uint32_t pair = columns.pairs[p * columns.padded + j];
      sum += static_cast<int16_t>(pair) * source[0] + static_cast<int16_t>(pair >> 16) * source[1];
    }
    out[j] = static_cast<uint8_t>(sum >> kReduceShift);
  }
#endif
}

#endif

}  // namespace

bool plan_plane_columns(const FixedColumns* columns, uint8_t* table) noexcept {
  return plan(*columns, table);
}

void reduce_plane_row(const int16_t* work, const FixedColumns* columns, uint8_t* out) noexcept {
  reduce(work, *columns, out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
