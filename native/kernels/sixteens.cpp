// The second pass of resampling with few taps, sixteen pixels at a time and one channel after the
// other, straight to the type and layout of the batch. For vectors of 512 bits; others do without.
// Sums are exact, so that the levels are those of reduce_row_fixed.
#include "kernels/resample.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

#if defined(__AVX512VBMI__)

constexpr size_t kGroup = 16;
constexpr size_t kReach = 64;  // source values that two vectors hold

// Grey levels of the channels.
struct Sums {
  __m512i red, green, blue;
};

inline __m512i levels_of(__m512i sum) { return _mm512_srai_epi32(sum, kReduceShift); }

inline __mmask16 first_lanes(size_t count) { return static_cast<__mmask16>((1U << count) - 1); }

// What a channel's sums become. Product and sum are rounded one by one, as everywhere; multiplied
// by one, the sum runs on the units that the conversions leave idle.
struct Scaling {
  __m512 scale, bias;

  [[nodiscard]] __m512 operator()(__m512i sum) const {
    const __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(levels_of(sum)), scale);
    return _mm512_fmadd_ps(product, _mm512_set1_ps(1), bias);
  }
};

inline void put(uint8_t* out, __m512i sum, const Scaling&, size_t count) {
  const __m128i bytes = _mm512_cvtepi32_epi8(levels_of(sum));
  if (count == kGroup) return _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
  _mm_mask_storeu_epi8(out, first_lanes(count), bytes);
}

inline __m256i halves_of(__m512i sum, const Scaling& scaling) {
  return _mm512_cvtps_ph(scaling(sum), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

inline void put(uint16_t* out, __m512i sum, const Scaling& scaling, size_t count) {
  const __m256i halves = halves_of(sum, scaling);
  if (count == kGroup) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), halves);
  _mm256_mask_storeu_epi16(out, first_lanes(count), halves);
}

inline void put(float* out, __m512i sum, const Scaling& scaling, size_t count) {
  if (count == kGroup) return _mm512_storeu_ps(out, scaling(sum));
  _mm512_mask_storeu_ps(out, first_lanes(count), scaling(sum));
}

// Copies of everything: a store to the batch could change what is behind a pointer.
template <typename T>
struct Planes {
  explicit Planes(const ValueRow& row) {
    for (size_t c = 0; c < 3; ++c) {
      planes[c] = static_cast<T*>(row.planes[c]);
      scalings[c] = {_mm512_set1_ps(row.scale[c]), _mm512_set1_ps(row.bias[c])};
    }
  }

  void store(size_t at, const Sums& sums, size_t count) const {
    put(planes[0] + at, sums.red, scalings[0], count);
    put(planes[1] + at, sums.green, scalings[1], count);
    put(planes[2] + at, sums.blue, scalings[2], count);
  }

  T* planes[3];
  Scaling scalings[3];
};

// Where value i of sixteen interleaved pixels is in their three planes.
template <typename Index, size_t kSize>
struct Order {
  constexpr Order() {
    for (size_t i = 0; i < 48; ++i) at[i] = static_cast<Index>(i % 3 * kGroup + i / 3);
  }
  alignas(64) Index at[kSize] = {};
};

inline void put_pixels(uint8_t* out, const Sums& sums, const Scaling*, size_t count) {
  static constexpr Order<uint8_t, 64> kOrder;
  __m512i planes = _mm512_castsi128_si512(_mm512_cvtepi32_epi8(levels_of(sums.red)));
  planes = _mm512_inserti32x4(planes, _mm512_cvtepi32_epi8(levels_of(sums.green)), 1);
  planes = _mm512_inserti32x4(planes, _mm512_cvtepi32_epi8(levels_of(sums.blue)), 2);
  const __m512i pixels = _mm512_permutexvar_epi8(_mm512_load_si512(kOrder.at), planes);
  if (count < kGroup) {
    return _mm512_mask_storeu_epi8(out, (uint64_t{1} << (3 * count)) - 1, pixels);
  }
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(pixels));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 32), _mm512_extracti32x4_epi32(pixels, 2));
}

inline void put_pixels(uint16_t* out, const Sums& sums, const Scaling* scalings, size_t count) {
  static constexpr Order<uint16_t, 64> kOrder;
  const __m512i red = _mm512_castsi256_si512(halves_of(sums.red, scalings[0]));
  const __m512i both = _mm512_inserti64x4(red, halves_of(sums.green, scalings[1]), 1);
  const __m512i blue = _mm512_castsi256_si512(halves_of(sums.blue, scalings[2]));
  const __m512i first = _mm512_permutex2var_epi16(both, _mm512_load_si512(kOrder.at), blue);
  const __m512i last = _mm512_permutex2var_epi16(both, _mm512_load_si512(kOrder.at + 32), blue);
  const uint64_t values = (uint64_t{1} << (3 * count)) - 1;
  if (count < kGroup) {
    _mm512_mask_storeu_epi16(out, static_cast<__mmask32>(values), first);
    _mm512_mask_storeu_epi16(out + 32, static_cast<__mmask32>(values >> 32), last);
    return;
  }
  _mm512_storeu_si512(out, first);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 32), _mm512_castsi512_si256(last));
}

// Two of the planes at a time.
inline void put_pixels(float* out, const Sums& sums, const Scaling* scalings, size_t count) {
  static constexpr Order<uint32_t, 48> kOrder;
  const __m512 red = scalings[0](sums.red);
  const __m512 green = scalings[1](sums.green);
  const __m512 blue = scalings[2](sums.blue);
  const uint64_t values = (uint64_t{1} << (3 * count)) - 1;
  for (size_t v = 0; v < 3; ++v) {
    const __m512i order = _mm512_load_si512(kOrder.at + v * kGroup);
    const __mmask16 is_blue = _mm512_cmpge_epu32_mask(order, _mm512_set1_epi32(2 * kGroup));
    const __m512 both = _mm512_permutex2var_ps(red, order, green);
    _mm512_mask_storeu_ps(out + v * kGroup, static_cast<__mmask16>(values >> (v * kGroup)),
                          _mm512_mask_permutexvar_ps(both, is_blue, order, blue));
  }
}

template <typename T>
struct Pixels {
  explicit Pixels(const ValueRow& values) : row(static_cast<T*>(values.planes[0])) {
    for (size_t c = 0; c < 3; ++c) {
      scalings[c] = {_mm512_set1_ps(values.scale[c]), _mm512_set1_ps(values.bias[c])};
    }
  }

  void store(size_t at, const Sums& sums, size_t count) const {
    put_pixels(row + 3 * at, sums, scalings, count);
  }

  T* row;
  Scaling scalings[3];
};

inline size_t count_groups(const FixedColumns& columns) {
  return (columns.pixels + kGroup - 1) / kGroup;
}

inline size_t end_of(const FixedColumns& columns, size_t begin) {
  return begin + kGroup < columns.pixels ? begin + kGroup : columns.pixels;
}

// Starts rise from left to right, or fall in a mirror image.
inline uint32_t first_of(const FixedColumns& columns, size_t begin, size_t end, size_t* span) {
  const uint32_t left = columns.starts[begin];
  const uint32_t right = columns.starts[end - 1];
  const uint32_t low = left < right ? left : right;
  *span = 3 * (static_cast<size_t>(left < right ? right - left : left - right) +
               2 * columns.pair_count);
  return low;
}

// For a pair of taps: 32 indices of 16 bits into the group's source values, for red, and 32
// weights.
inline void plan_group(const FixedColumns& columns, size_t begin, uint32_t first, uint8_t* table) {
  const __mmask16 lanes = first_lanes(end_of(columns, begin) - begin);
  const __m512i starts = _mm512_maskz_loadu_epi32(lanes, columns.starts + begin);
  const __m512i pixels = _mm512_sub_epi32(starts, _mm512_set1_epi32(static_cast<int>(first)));
  const __m512i value = _mm512_maskz_mullo_epi32(lanes, pixels, _mm512_set1_epi32(0x00030003));
  for (size_t p = 0; p < columns.pair_count; ++p, table += kColumnTableBytes) {
    const auto offset = static_cast<int>(6 * p);
    _mm512_store_si512(table, _mm512_maskz_add_epi32(
                                  lanes, value, _mm512_set1_epi32(offset | (offset + 3) << 16)));
    _mm512_store_si512(table + 64,
                       _mm512_maskz_loadu_epi32(lanes, columns.pairs + p * columns.padded + begin));
  }
}

inline bool plan(const FixedColumns& columns, uint8_t* table) {
  const size_t groups = count_groups(columns);
  const size_t group_bytes = columns.pair_count * kColumnTableBytes;
  uint8_t* firsts = table + groups * group_bytes;
  for (size_t g = 0; g < groups; ++g) {
    size_t span;
    const uint32_t first = first_of(columns, g * kGroup, end_of(columns, g * kGroup), &span);
    if (span > kReach) return false;
    __builtin_memcpy(firsts + g * sizeof first, &first, sizeof first);
    plan_group(columns, g * kGroup, first, table + g * group_bytes);
  }
  return true;
}

inline __m512i add_taps(__m512i sum, __m512i low, __m512i high, __m512i indices, __m512i weights) {
  const __m512i values = _mm512_permutex2var_epi16(low, indices, high);
  return _mm512_dpwssd_epi32(sum, values, weights);
}

inline Sums sum_group(const int16_t* source, const uint8_t* table, size_t pairs) {
  const __m512i one = _mm512_set1_epi16(1);
  const __m512i half = _mm512_set1_epi32(1 << (kReduceShift - 1));
  const __m512i low = _mm512_loadu_si512(source);
  const __m512i high = _mm512_loadu_si512(source + 32);
  Sums sums{half, half, half};
  for (size_t p = 0; p < pairs; ++p, table += kColumnTableBytes) {
    const __m512i red = _mm512_load_si512(table);
    const __m512i green = _mm512_add_epi16(red, one);
    const __m512i blue = _mm512_add_epi16(green, one);
    const __m512i weights = _mm512_load_si512(table + 64);
    sums.red = add_taps(sums.red, low, high, red, weights);
    sums.green = add_taps(sums.green, low, high, green, weights);
    sums.blue = add_taps(sums.blue, low, high, blue, weights);
  }
  return sums;
}

// kPairs is the number of pairs of taps, or 0 for "known at run time only".
template <size_t kPairs, typename Output>
inline void reduce_groups(const int16_t* work, const FixedColumns& columns, const Output out) {
  const size_t pairs = kPairs == 0 ? columns.pair_count : kPairs;
  const size_t pixels = columns.pixels;
  const uint8_t* table = columns.table;
  const uint8_t* firsts = table + count_groups(columns) * pairs * kColumnTableBytes;
  size_t j = 0;
  const auto next = [&] {
    uint32_t first;
    __builtin_memcpy(&first, firsts, sizeof first);
    const Sums sums = sum_group(work + 3 * static_cast<size_t>(first), table, pairs);
    firsts += sizeof first;
    table += pairs * kColumnTableBytes;
    return sums;
  };
  for (; j + kGroup <= pixels; j += kGroup) out.store(j, next(), kGroup);
  if (j < pixels) out.store(j, next(), pixels - j);
}

template <typename Output>
inline void reduce(const int16_t* work, const FixedColumns& columns, const Output& out) {
  switch (columns.pair_count) {
    case 1:
      return reduce_groups<1>(work, columns, out);
    case 2:
      return reduce_groups<2>(work, columns, out);
    default:
      return reduce_groups<0>(work, columns, out);
  }
}

template <typename T>
inline void reduce_to(const int16_t* work, const FixedColumns& columns, const ValueRow& out) {
  if (out.is_interleaved) return reduce(work, columns, Pixels<T>(out));
  reduce(work, columns, Planes<T>(out));
}

inline void reduce_all(const int16_t* work, const FixedColumns& columns, const ValueRow& out) {
  switch (out.value_size) {
    case 1:
      return reduce_to<uint8_t>(work, columns, out);
    case 2:
      return reduce_to<uint16_t>(work, columns, out);
    default:
      return reduce_to<float>(work, columns, out);
  }
}

#else

inline bool plan(const FixedColumns&, uint8_t*) { return false; }
inline void reduce_all(const int16_t*, const FixedColumns&, const ValueRow&) {}

#endif

}  // namespace

bool plan_sixteens(const FixedColumns* columns, uint8_t* table) noexcept {
  return plan(*columns, table);
}

void reduce_sixteens(const int16_t* work, const FixedColumns* columns,
                     const ValueRow* out) noexcept {
  reduce_all(work, *columns, *out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
