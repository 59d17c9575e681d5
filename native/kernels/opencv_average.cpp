// The passes of OpenCV's INTER_AREA where no side grows, in its order: every source row is reduced
// to the output's width, then such rows are blended. Averages are sums of products in single
// precision, each a chain of multiply-then-add in the order of its taps, every step rounded; the
// build forbids to fuse them. Taps that weigh nothing add zero, which changes no sum. So all levels
// give the bits that OpenCV gives.
#include "kernels/floats.hpp"
#include "kernels/kernels.hpp"
#include "kernels/tap_vectors.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

inline void average_pixel(const uint8_t* row, const TapColumns& columns, size_t j, float* out) {
  const uint8_t* source = row + 3 * static_cast<size_t>(columns.starts[j]);
  const float* weights = columns.weights + j * columns.stride;
  float sums[3] = {0, 0, 0};
  for (size_t k = 0; k < columns.counts[j]; ++k, source += 3) {
    for (size_t c = 0; c < 3; ++c) sums[c] += static_cast<float>(source[c]) * weights[k];
  }
  for (size_t c = 0; c < 3; ++c) out[c] = sums[c];
}

#if defined(__AVX2__)

constexpr size_t kBlock = 4 * kLanes;

// What sums become before they are rounded: with whole weights they are not averages yet.
struct Same {
  Floats operator()(Floats sum) const { return sum; }
};
struct Scaled {
  Floats scale, bias;
  Floats operator()(Floats sum) const { return add(multiply(sum, scale), bias); }
};

template <typename Finish>
inline void blend_block(const float* const* rows, size_t x, const float* weights, size_t taps,
                        const Finish& finish, uint8_t* out) {
  Floats sums[4];
  for (size_t v = 0; v < 4; ++v) {
    sums[v] = multiply(broadcast(weights[0]), load(rows[0] + x + v * kLanes));
  }
  for (size_t k = 1; k < taps; ++k) {
    const Floats weight = broadcast(weights[k]);
    for (size_t v = 0; v < 4; ++v) {
      sums[v] = add(sums[v], multiply(weight, load(rows[k] + x + v * kLanes)));
    }
  }
  for (size_t v = 0; v < 4; ++v) store(out + v * kLanes, rounded(finish(sums[v])));
}

// The last block goes through memory of our own: what follows the row belongs to someone else.
template <typename Finish>
inline void blend_blocks(const float* const* rows, const float* weights, size_t taps, size_t size,
                         const Finish& finish, uint8_t* out) {
  size_t x = 0;
  for (; x + kBlock <= size; x += kBlock) {
    blend_block(rows, x, weights, taps, finish, out + x);
  }
  if (x == size) return;
  uint8_t last[kBlock];
  blend_block(rows, x, weights, taps, finish, last);
  __builtin_memcpy(out + x, last, size - x);
}

inline void blend(const float* const* rows, const float* weights, size_t taps, size_t size,
                  float scale, float bias, uint8_t* out) {
  if (scale == 1 && bias == 0) {
    return blend_blocks(rows, weights, taps, size, Same{}, out);
  }
  const Scaled finish{broadcast(scale), broadcast(bias)};
  blend_blocks(rows, weights, taps, size, finish, out);
}

// Two pixels at a time, each in its half of a vector: 16 bytes from its first source on, which are
// five taps.
constexpr size_t kBlockTaps = 5;
constexpr size_t kReach = 16;

inline __m256i load_two(const uint8_t* low, const uint8_t* high) {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(low));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(high));
  return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
}

// The three values of tap k, and a zero.
struct TapShuffles {
  constexpr TapShuffles() {
    for (size_t k = 0; k < kBlockTaps; ++k) {
      for (size_t i = 0; i < 32; ++i) {
        const bool counts = i % 4 == 0 && i % 16 < 12;
        at[k][i] = static_cast<uint8_t>(counts ? 3 * k + i % 16 / 4 : 0x80);
      }
    }
  }
  alignas(32) uint8_t at[kBlockTaps][32] = {};
};

inline __m256 tap_of(__m256i bytes, size_t k) {
  static constexpr TapShuffles kShuffles;
  const __m256i shuffle = _mm256_load_si256(reinterpret_cast<const __m256i*>(kShuffles.at[k]));
  return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, shuffle));
}

inline __m256 add_tap(__m256 sum, __m256i bytes, size_t k, const float* weights) {
  return _mm256_add_ps(sum, _mm256_mul_ps(tap_of(bytes, k), _mm256_loadu_ps(weights)));
}

// kTaps is the number of taps, or 0 for "known at run time only".
template <size_t kTaps>
inline __m256 average_two(const uint8_t* low, const uint8_t* high, size_t taps,
                          const float* weights) {
  __m256 sum = _mm256_setzero_ps();
  if constexpr (kTaps != 0) {
    const __m256i bytes = load_two(low, high);
#pragma GCC unroll 5
    for (size_t k = 0; k < kTaps; ++k) sum = add_tap(sum, bytes, k, weights + 8 * k);
    return sum;
  }
  for (size_t block = 0; block < taps; block += kBlockTaps) {
    const __m256i bytes = load_two(low + 3 * block, high + 3 * block);
    const size_t count = taps - block < kBlockTaps ? taps - block : kBlockTaps;
#pragma GCC unroll 5
    for (size_t k = 0; k < kBlockTaps; ++k) {
      if (k < count) sum = add_tap(sum, bytes, k, weights + 8 * (block + k));
    }
  }
  return sum;
}

// Bytes read from a pixel's first source on.
inline size_t reach_of(size_t taps) { return (taps - 1) / kBlockTaps * 3 * kBlockTaps + kReach; }

template <size_t kTaps>
inline void average_pairs(const uint8_t* row, const TapColumns& columns, float* out) {
  const size_t taps = kTaps == 0 ? columns.taps : kTaps;
  const size_t reach = reach_of(taps);
  const size_t size = bytes_of(columns);
  const float* weights = reinterpret_cast<const float*>(columns.table);
  size_t j = 0;
  for (; j + 2 <= columns.pixels; j += 2, weights += 8 * taps) {
    const size_t low = 3 * static_cast<size_t>(columns.starts[j]);
    const size_t high = 3 * static_cast<size_t>(columns.starts[j + 1]);
    if ((low > high ? low : high) + reach > size) {
      average_pixel(row, columns, j, out + 3 * j);
      average_pixel(row, columns, j + 1, out + 3 * j + 3);
      continue;
    }
    const __m256 sum = average_two<kTaps>(row + low, row + high, taps, weights);
    _mm_storeu_ps(out + 3 * j, _mm256_castps256_ps128(sum));
    _mm_storeu_ps(out + 3 * j + 3, _mm256_extractf128_ps(sum, 1));
  }
  if (j < columns.pixels) average_pixel(row, columns, j, out + 3 * j);
}

inline void average_by_pairs(const uint8_t* row, const TapColumns& columns, float* out) {
  switch (columns.taps) {
    case 1:
      return average_pairs<1>(row, columns, out);
    case 2:
      return average_pairs<2>(row, columns, out);
    case 3:
      return average_pairs<3>(row, columns, out);
    case 4:
      return average_pairs<4>(row, columns, out);
    case 5:
      return average_pairs<5>(row, columns, out);
    default:
      return average_pairs<0>(row, columns, out);
  }
}

inline void average_by_pairs(const SourceRows& rows, const TapColumns& columns, float* const* out) {
  for (size_t r = 0; r < rows.count; ++r) {
    average_by_pairs(rows.first + r * rows.stride, columns, out[r]);
  }
}

// For each two pixels and tap: four times the first one's weight, four times the other's.
inline void plan_pairs(const TapColumns& columns, uint8_t* table) {
  float* to = reinterpret_cast<float*>(table);
  for (size_t j = 0; j + 2 <= columns.pixels; j += 2) {
    const float* weights = columns.weights + j * columns.stride;
    for (size_t k = 0; k < columns.taps; ++k, to += 8) {
      _mm_store_ps(to, _mm_set1_ps(weights[k]));
      _mm_store_ps(to + 4, _mm_set1_ps(weights[columns.stride + k]));
    }
  }
}

#else

// Row after row, so that a compiler for any CPU can use what vectors it has.
inline void blend(const float* const* rows, const float* weights, size_t taps, size_t size,
                  float scale, float bias, uint8_t* out) {
  constexpr size_t kColumns = 64;
  for (size_t x = 0; x < size; x += kColumns) {
    float sums[kColumns] = {};
    for (size_t k = 0; k < taps; ++k) {
      const float* row = rows[k] + x;
      for (size_t i = 0; i < kColumns; ++i) sums[i] += weights[k] * row[i];
    }
    const size_t count = size - x < kColumns ? size - x : kColumns;
    for (size_t i = 0; i < count; ++i) out[x + i] = to_level(sums[i] * scale + bias);
  }
}

#endif

#if defined(__AVX512VBMI__)

inline bool plan_average_vectors(const TapColumns& columns, uint8_t* table) {
  if (!is_short(columns)) return false;
  const size_t vectors = count_vectors(columns);
  auto* firsts = reinterpret_cast<uint32_t*>(table + vectors * 64 * (columns.taps + 1));
  const __m512i stride = _mm512_set1_epi32(static_cast<int>(columns.stride));
  for (size_t v = 0; v < vectors; ++v) {
    const Lanes lanes(columns, v);
    if (!plan_index(columns, lanes, firsts + v, table, 0)) return false;
    const __m512i at = _mm512_mullo_epi32(lanes.pixel, stride);
    table += 64;
    for (size_t k = 0; k < columns.taps; ++k, table += 64) {
      const __m512 weights =
          _mm512_mask_i32gather_ps(_mm512_setzero_ps(), lanes.exist, at, columns.weights + k, 4);
      _mm512_store_ps(table, weights);
    }
  }
  return true;
}

// Levels as floats above 2^23, whose last byte a level is: fused with the weight, and less what the
// weight makes of 2^23, the product is rounded once, as that of the level alone would be.
constexpr int kLargeBits = 0x4B000000;
constexpr float kLarge = 0x1p23F;

inline __m512 product_of(__m512i source, __m512i index, __m512 weight, __m512 surplus) {
  constexpr uint64_t kLowest = 0x1111111111111111;
  const __m512i large = _mm512_set1_epi32(kLargeBits);
  const __m512i levels = _mm512_mask_permutexvar_epi8(large, kLowest, index, source);
  return _mm512_fmsub_ps(_mm512_castsi512_ps(levels), weight, surplus);
}

template <size_t kTaps, size_t kRows>
inline void average_vectors_of(const SourceRows& rows, const TapColumns& columns,
                               float* const* out) {
  const size_t taps = kTaps == 0 ? columns.taps : kTaps;
  const size_t vectors = count_vectors(columns);
  const size_t size = bytes_of(columns);
  const uint8_t* table = columns.table;
  const auto* firsts = reinterpret_cast<const uint32_t*>(table + vectors * 64 * (taps + 1));
  for (size_t v = 0; v < vectors; ++v) {
    __m512i sources[kRows];
    __m512 sums[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      sources[r] = load_window(rows.first + r * rows.stride, firsts[v], size);
    }
    __m512i index = _mm512_load_si512(table);
    table += 64;
#pragma GCC unroll 5
    for (size_t k = 0; k < taps; ++k, table += 64) {
      __m512 weight = _mm512_load_ps(table);
      __asm__("" : "+v"(weight));  // or the compiler loads it three times
      const __m512 surplus = _mm512_mul_ps(weight, _mm512_set1_ps(kLarge));
      for (size_t r = 0; r < kRows; ++r) {
        const __m512 product = product_of(sources[r], index, weight, surplus);
        sums[r] = k == 0 ? product : _mm512_add_ps(sums[r], product);
      }
      index = _mm512_add_epi8(index, _mm512_set1_epi8(3));
    }
    for (size_t r = 0; r < kRows; ++r) _mm512_storeu_ps(out[r] + 16 * v, sums[r]);
  }
}

template <size_t kTaps>
inline void average_vectors_by_rows(const SourceRows& rows, const TapColumns& columns,
                                    float* const* out) {
  if (rows.count == 2) return average_vectors_of<kTaps, 2>(rows, columns, out);
  average_vectors_of<kTaps, 1>(rows, columns, out);
}

inline void average_vectors(const SourceRows& rows, const TapColumns& columns, float* const* out) {
  switch (columns.taps) {
    case 2:
      return average_vectors_by_rows<2>(rows, columns, out);
    case 3:
      return average_vectors_by_rows<3>(rows, columns, out);
    case 4:
      return average_vectors_by_rows<4>(rows, columns, out);
    default:
      return average_vectors_by_rows<0>(rows, columns, out);
  }
}

inline bool plan_average(const TapColumns& columns, uint8_t* table) {
  if (plan_average_vectors(columns, table)) return true;
  plan_pairs(columns, table);
  return false;
}

inline void average(const SourceRows& rows, const TapColumns& columns, float* const* out) {
  if (columns.has_vectors) return average_vectors(rows, columns, out);
  average_by_pairs(rows, columns, out);
}

#elif defined(__AVX2__)

inline bool plan_average(const TapColumns& columns, uint8_t* table) {
  plan_pairs(columns, table);
  return false;
}

inline void average(const SourceRows& rows, const TapColumns& columns, float* const* out) {
  average_by_pairs(rows, columns, out);
}

#else

inline bool plan_average(const TapColumns&, uint8_t*) { return false; }

// Vectors of four that any CPU has: a pixel and the next one's red, which that one overwrites.
using FourFloats = float __attribute__((vector_size(16)));

inline void average_four(const float* source, const float* weights, size_t taps, float* out) {
  FourFloats sum = {0, 0, 0, 0};
  for (size_t k = 0; k < taps; ++k, source += 3) {
    FourFloats levels;
    __builtin_memcpy(&levels, source, sizeof levels);
    sum += levels * weights[k];
  }
  __builtin_memcpy(out, &sum, sizeof sum);
}

// Some pixels at a time, so that what they are made of becomes floats once, and nearby.
inline void average_row(const uint8_t* row, const TapColumns& columns, float* out) {
  constexpr size_t kGroup = 16;
  constexpr size_t kMostLevels = 4096;
  float levels[kMostLevels + 1];
  for (size_t begin = 0; begin < columns.pixels; begin += kGroup) {
    const size_t end = begin + kGroup < columns.pixels ? begin + kGroup : columns.pixels;
    size_t first = columns.starts[begin];
    size_t last = first;
    for (size_t j = begin; j < end; ++j) {
      const size_t start = columns.starts[j];
      first = start < first ? start : first;
      last = start + columns.counts[j] > last ? start + columns.counts[j] : last;
    }
    const size_t size = 3 * (last - first);
    if (size > kMostLevels) {
      for (size_t j = begin; j < end; ++j) average_pixel(row, columns, j, out + 3 * j);
      continue;
    }
    for (size_t i = 0; i < size; ++i) levels[i] = static_cast<float>(row[3 * first + i]);
    levels[size] = 0;
    for (size_t j = begin; j < end; ++j) {
      average_four(levels + 3 * (columns.starts[j] - first), columns.weights + j * columns.stride,
                   columns.counts[j], out + 3 * j);
    }
  }
}

inline void average(const SourceRows& rows, const TapColumns& columns, float* const* out) {
  for (size_t r = 0; r < rows.count; ++r) {
    average_row(rows.first + r * rows.stride, columns, out[r]);
  }
}

#endif

}  // namespace

bool plan_average_rows(const TapColumns* columns, uint8_t* table) noexcept {
  return plan_average(*columns, table);
}

void average_rows(const SourceRows* rows, const TapColumns* columns, float* const* out) noexcept {
  average(*rows, *columns, out);
}

void add_average(const float* row, float weight, size_t size, float* sums) noexcept {
  for (size_t i = 0; i < size; ++i) sums[i] += row[i] * weight;
}

void blend_averages(const float* const* rows, const float* weights, size_t taps, size_t size,
                    float scale, float bias, uint8_t* out) noexcept {
  blend(rows, weights, taps, size, scale, bias, out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
