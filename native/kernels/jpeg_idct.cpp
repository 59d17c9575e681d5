// Coefficients to samples: the accurate inverse DCT of libjpeg (jidctint), bit for bit, of four
// blocks at a time.
#include "kernels/jpeg_blocks.hpp"
#include "kernels/plain_idct.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

constexpr int kFirstShift = 11;
constexpr int kSecondShift = 18;

#if defined(__AVX2__)

HEADRACE_INLINE Vector dot(Vector sum, Vector pairs, Vector weights) {
#if defined(__AVX512VNNI__)
  return _mm512_dpwssd_epi32(sum, pairs, weights);
#else
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, weights));
#endif
}

HEADRACE_INLINE Vector pair(int a, int b) {
  return HEADRACE_V(set1_epi32)(
      static_cast<int>(static_cast<uint32_t>(b) << 16 | (static_cast<uint32_t>(a) & 0xFFFF)));
}

// One half of the columns of each block, widened to 32 bits.
template <bool kIsHigh>
HEADRACE_INLINE Vector interleave(Vector a, Vector b) {
  return kIsHigh ? HEADRACE_V(unpackhi_epi16)(a, b) : HEADRACE_V(unpacklo_epi16)(a, b);
}

template <int kShift, bool kIsHigh>
HEADRACE_INLINE void transform_half(const Vector* v, Vector* out) {
  const Vector rounding = HEADRACE_V(set1_epi32)(1 << (kShift - 1));
  const Vector p04 = interleave<kIsHigh>(v[0], v[4]);
  const Vector p26 = interleave<kIsHigh>(v[2], v[6]);
  const Vector p13 = interleave<kIsHigh>(v[1], v[3]);
  const Vector p57 = interleave<kIsHigh>(v[5], v[7]);
  const Vector t0 = dot(rounding, p04, pair(8192, 8192));
  const Vector t1 = dot(rounding, p04, pair(8192, -8192));
  const Vector t2 = HEADRACE_V(madd_epi16)(p26, pair(4433, -10704));
  const Vector t3 = HEADRACE_V(madd_epi16)(p26, pair(10703, 4433));
  const Vector even[4] = {HEADRACE_V(add_epi32)(t0, t3), HEADRACE_V(add_epi32)(t1, t2),
                          HEADRACE_V(sub_epi32)(t1, t2), HEADRACE_V(sub_epi32)(t0, t3)};
  const Vector odd[4] = {
      dot(HEADRACE_V(madd_epi16)(p13, pair(11363, 9633)), p57, pair(6437, 2260)),
      dot(HEADRACE_V(madd_epi16)(p13, pair(9633, -2259)), p57, pair(-11362, -6436)),
      dot(HEADRACE_V(madd_epi16)(p13, pair(6437, -11362)), p57, pair(2261, 9633)),
      dot(HEADRACE_V(madd_epi16)(p13, pair(2260, -6436)), p57, pair(9633, -11363))};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    out[i] = HEADRACE_V(srai_epi32)(HEADRACE_V(add_epi32)(even[i], odd[i]), kShift);
    out[7 - i] = HEADRACE_V(srai_epi32)(HEADRACE_V(sub_epi32)(even[i], odd[i]), kShift);
  }
}

template <int kShift>
HEADRACE_INLINE void transform(Vector* v) {
  Vector low[8];
  Vector high[8];
  transform_half<kShift, false>(v, low);
  transform_half<kShift, true>(v, high);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) v[i] = HEADRACE_V(packs_epi32)(low[i], high[i]);
}

// Of as many blocks as a vector has room for. Clears the coefficients.
HEADRACE_INLINE bool transform_blocks(int16_t* coefficients, const int16_t* quantiser,
                                      const int16_t* limits, uint8_t* out, size_t stride) {
  Vector v[8];
  Vector wild = HEADRACE_V(set1_epi32)(0);
#pragma GCC unroll 8
  for (size_t y = 0; y < 8; ++y) {
    const Vector row = load(coefficients + y * kGroupWidth);
    wild = either(wild, beyond(row, load(limits + y * kGroupWidth)));
    v[y] = HEADRACE_V(mullo_epi16)(row, load(quantiser + y * kGroupWidth));
    clear(coefficients + y * kGroupWidth);
  }
  transform<kFirstShift>(v);
  const Vector most = HEADRACE_V(set1_epi16)(kMaxDequantised);
#pragma GCC unroll 8
  for (size_t y = 0; y < 8; ++y) wild = either(wild, beyond(v[y], most));
  transpose(v);
  transform<kSecondShift>(v);
  store_levels(v, out, stride);
  return is_zero(wild);
}

__attribute__((noinline)) bool transform_group(int16_t* coefficients, const int16_t* quantiser,
                                               const int16_t* limits, uint8_t* out, size_t stride) {
  bool is_tame = true;
  for (size_t block = 0; block < kGroupBlocks; block += kVectorBlocks) {
    const size_t at = 8 * block;
    is_tame &= transform_blocks(coefficients + at, quantiser + at, limits + at, out + at, stride);
  }
  return is_tame;
}

#else

// Values `step` apart, in place.
template <int kShift>
void transform(int32_t* values, size_t step) {
  int32_t v[8];
  for (size_t i = 0; i < 8; ++i) v[i] = values[i * step];
  inverse_dct<kShift>(v, 1U << (kShift - 1), v);
  for (size_t i = 0; i < 8; ++i) values[i * step] = v[i];
}

bool is_beyond(int32_t value, int32_t limit) { return value < -limit || value > limit; }

bool transform_block(int16_t* coefficients, const int16_t* quantiser, const int16_t* limits,
                     uint8_t* out, size_t stride) {
  int32_t values[64];
  for (size_t i = 0; i < 64; ++i) {
    const size_t at = i / 8 * kGroupWidth + i % 8;
    if (is_beyond(coefficients[at], limits[at])) return false;
    values[i] = coefficients[at] * quantiser[at];
    coefficients[at] = 0;
  }
  for (size_t x = 0; x < 8; ++x) transform<kFirstShift>(values + x, 8);
  for (const int32_t value : values) {
    if (is_beyond(value, kMaxDequantised)) return false;
  }
  for (size_t y = 0; y < 8; ++y) {
    transform<kSecondShift>(values + 8 * y, 1);
    for (size_t x = 0; x < 8; ++x) {
      const int32_t level = values[8 * y + x] + 128;
      out[y * stride + x] = static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
    }
  }
  return true;
}

bool transform_group(int16_t* coefficients, const int16_t* quantiser, const int16_t* limits,
                     uint8_t* out, size_t stride) {
  bool is_tame = true;
  for (size_t at = 0; at < kGroupWidth; at += 8) {
    is_tame &= transform_block(coefficients + at, quantiser + at, limits + at, out + at, stride);
  }
  return is_tame;
}

#endif

}  // namespace

bool transform_jpeg_mcus(const JpegRows* rows, size_t first) noexcept {
  return transform_all_groups(*rows, first,
                              [rows](int16_t* group, size_t c, uint8_t* out, size_t stride) {
                                return transform_group(group, rows->factors[c].quantiser,
                                                       rows->factors[c].limits, out, stride);
                              });
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
