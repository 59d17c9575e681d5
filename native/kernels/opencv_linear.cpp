// The passes of OpenCV's INTER_AREA where a side grows, in its order: every source row is stretched
// to the output's width, then two such rows are blended. Whole numbers, cut where OpenCV cuts them,
// so that all levels give the bits that it gives.
#include "kernels/kernels.hpp"
#include "kernels/tap_vectors.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

constexpr int kKeptShift = 4;   // of the 11 bits of a weight, 7 go into the second pass
constexpr int kBlendShift = 2;  // those that are left after its weights took 16 away
constexpr int kBlendHalf = 1 << (kBlendShift - 1);

inline void interpolate_pixel(const uint8_t* row, const TapColumns& columns, size_t j,
                              int16_t* out) {
  const uint8_t* source = row + 3 * static_cast<size_t>(columns.starts[j]);
  const int first = static_cast<int>(columns.pairs[j] & 0xFFFFU);
  const int second = static_cast<int>(columns.pairs[j] >> 16);
  // The last source has no neighbour, and needs none.
  const size_t next = second == 0 ? 0 : 3;
  for (size_t c = 0; c < 3; ++c) {
    out[c] = static_cast<int16_t>((first * source[c] + second * source[c + next]) >> kKeptShift);
  }
}

#if defined(__AVX2__)

inline __m256i blend_words(const int16_t* first, const int16_t* second, __m256i first_weight,
                           __m256i second_weight) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second));
  const __m256i sum =
      _mm256_add_epi16(_mm256_mulhi_epi16(a, first_weight), _mm256_mulhi_epi16(b, second_weight));
  return _mm256_srai_epi16(_mm256_add_epi16(sum, _mm256_set1_epi16(kBlendHalf)), kBlendShift);
}

inline void blend_pair(const int16_t* first, const int16_t* second, int first_weight,
                       int second_weight, size_t size, uint8_t* out) {
  constexpr size_t kWords = 32;
  const __m256i a = _mm256_set1_epi16(static_cast<short>(first_weight));
  const __m256i b = _mm256_set1_epi16(static_cast<short>(second_weight));
  for (size_t x = 0; x < size; x += kWords) {
    const __m256i low = blend_words(first + x, second + x, a, b);
    const __m256i high = blend_words(first + x + 16, second + x + 16, a, b);
    const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(low, high), 0xD8);
    if (x + kWords <= size) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + x), bytes);
    } else {
      uint8_t last[kWords];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(last), bytes);
      __builtin_memcpy(out + x, last, size - x);
    }
  }
}

inline __m128i load_eight(const uint8_t* from) {
  return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}

inline __m256i interpolate_two(const uint8_t* low, const uint8_t* high, uint32_t low_weights,
                               uint32_t high_weights) {
  constexpr char x = -1;
  const __m256i taps_together =
      _mm256_broadcastsi128_si256(_mm_setr_epi8(0, x, 3, x, 1, x, 4, x, 2, x, 5, x, x, x, x, x));
  const __m256i bytes =
      _mm256_inserti128_si256(_mm256_castsi128_si256(load_eight(low)), load_eight(high), 1);
  const __m256i weights =
      _mm256_inserti128_si256(_mm256_set1_epi32(static_cast<int>(low_weights)),
                              _mm_set1_epi32(static_cast<int>(high_weights)), 1);
  const __m256i sums = _mm256_madd_epi16(_mm256_shuffle_epi8(bytes, taps_together), weights);
  return _mm256_srai_epi32(sums, kKeptShift);
}

inline void interpolate_pairs(const uint8_t* row, const TapColumns& columns, int16_t* out) {
  constexpr size_t kRead = 8;
  const size_t size = bytes_of(columns);
  size_t j = 0;
  for (; j + 2 <= columns.pixels; j += 2) {
    const size_t low = 3 * static_cast<size_t>(columns.starts[j]);
    const size_t high = 3 * static_cast<size_t>(columns.starts[j + 1]);
    if ((low > high ? low : high) + kRead > size) {
      interpolate_pixel(row, columns, j, out + 3 * j);
      interpolate_pixel(row, columns, j + 1, out + 3 * j + 3);
      continue;
    }
    const __m256i sums =
        interpolate_two(row + low, row + high, columns.pairs[j], columns.pairs[j + 1]);
    const __m256i words = _mm256_packs_epi32(sums, sums);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 3 * j), _mm256_castsi256_si128(words));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 3 * j + 3),
                     _mm256_extracti128_si256(words, 1));
  }
  if (j < columns.pixels) interpolate_pixel(row, columns, j, out + 3 * j);
}

#else

inline void blend_pair(const int16_t* first, const int16_t* second, int first_weight,
                       int second_weight, size_t size, uint8_t* out) {
  for (size_t x = 0; x < size; ++x) {
    const int sum = ((first[x] * first_weight) >> 16) + ((second[x] * second_weight) >> 16);
    out[x] = static_cast<uint8_t>((sum + kBlendHalf) >> kBlendShift);
  }
}

#endif

#if defined(__AVX512VBMI__)

inline bool plan_interpolate_vectors(const TapColumns& columns, uint8_t* table) {
  if (!is_short(columns)) return false;
  const size_t vectors = count_vectors(columns);
  auto* firsts = reinterpret_cast<uint32_t*>(table + vectors * 128);
  for (size_t v = 0; v < vectors; ++v, table += 128) {
    const Lanes lanes(columns, v);
    if (!plan_index(columns, lanes, firsts + v, table, 3)) return false;
    const __m512i pairs = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), lanes.exist,
                                                      lanes.pixel, columns.pairs, 4);
    _mm512_store_si512(table + 64, pairs);
  }
  return true;
}

inline void interpolate_vectors(const uint8_t* row, const TapColumns& columns, int16_t* out) {
  constexpr uint64_t kLowOfEach = 0x5555555555555555;
  const size_t vectors = count_vectors(columns);
  const size_t size = bytes_of(columns);
  const uint8_t* table = columns.table;
  const auto* firsts = reinterpret_cast<const uint32_t*>(table + vectors * 128);
  for (size_t v = 0; v < vectors; ++v, out += 16, table += 128) {
    const __m512i levels = _mm512_maskz_permutexvar_epi8(kLowOfEach, _mm512_load_si512(table),
                                                         load_window(row, firsts[v], size));
    const __m512i sums = _mm512_madd_epi16(levels, _mm512_load_si512(table + 64));
    const __m256i words = _mm512_cvtepi32_epi16(_mm512_srai_epi32(sums, kKeptShift));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), words);
  }
}

inline bool plan(const TapColumns& columns, uint8_t* table) {
  return plan_interpolate_vectors(columns, table);
}

inline void interpolate(const uint8_t* row, const TapColumns& columns, int16_t* out) {
  if (columns.has_vectors) return interpolate_vectors(row, columns, out);
  interpolate_pairs(row, columns, out);
}

#else

inline bool plan(const TapColumns&, uint8_t*) { return false; }

inline void interpolate(const uint8_t* row, const TapColumns& columns, int16_t* out) {
#if defined(__AVX2__)
  interpolate_pairs(row, columns, out);
#else
  for (size_t j = 0; j < columns.pixels; ++j) interpolate_pixel(row, columns, j, out + 3 * j);
#endif
}

#endif

}  // namespace

bool plan_interpolate_row(const TapColumns* columns, uint8_t* table) noexcept {
  return plan(*columns, table);
}

void interpolate_row(const uint8_t* row, const TapColumns* columns, int16_t* out) noexcept {
  interpolate(row, *columns, out);
}

void blend_two_rows(const int16_t* first, const int16_t* second, int first_weight,
                    int second_weight, size_t size, uint8_t* out) noexcept {
  blend_pair(first, second, first_weight, second_weight, size, out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
