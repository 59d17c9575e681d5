// Coefficients to samples in 16 bits: the inverse DCT of Arai, Agui and Nakajima, with rounded
// products. Not exact, but close: the error of a sample is well below one level. All levels give
// the same samples.
#include "kernels/jpeg_blocks.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

// Values have two binary places, and the two passes multiply by eight.
constexpr int kShift = 5;

// In 1/32768, the parts below one of 1.41421, 1.84776, 1.08239 and 2.61313.
constexpr int16_t kRoot = 13573;
constexpr int16_t kCosine = 27779;
constexpr int16_t kDifference = 2700;
constexpr int16_t kSum = 20091;

#if defined(__AVX2__)

using Value = Vector;
HEADRACE_INLINE Value add(Value a, Value b) { return HEADRACE_V(adds_epi16)(a, b); }
HEADRACE_INLINE Value sub(Value a, Value b) { return HEADRACE_V(subs_epi16)(a, b); }
HEADRACE_INLINE Value part(Value a, int16_t factor) {
  return HEADRACE_V(mulhrs_epi16)(a, HEADRACE_V(set1_epi16)(factor));
}

#else

using Value = int16_t;
HEADRACE_INLINE Value cut(int32_t value) {
  return static_cast<Value>(value < -32768 ? -32768 : value > 32767 ? 32767 : value);
}
HEADRACE_INLINE Value add(Value a, Value b) { return cut(a + b); }
HEADRACE_INLINE Value sub(Value a, Value b) { return cut(a - b); }
HEADRACE_INLINE Value part(Value a, int16_t factor) {
  return static_cast<Value>((a * factor + (1 << 14)) >> 15);
}

#endif

HEADRACE_INLINE void transform(Value* v) {
  const Value sum_04 = add(v[0], v[4]);
  const Value difference_04 = sub(v[0], v[4]);
  const Value sum_26 = add(v[2], v[6]);
  const Value difference_26 = sub(v[2], v[6]);
  const Value turned_26 = sub(add(difference_26, part(difference_26, kRoot)), sum_26);
  const Value even[4] = {add(sum_04, sum_26), add(difference_04, turned_26),
                         sub(difference_04, turned_26), sub(sum_04, sum_26)};
  const Value sum_53 = add(v[5], v[3]);
  const Value difference_53 = sub(v[5], v[3]);
  const Value sum_17 = add(v[1], v[7]);
  const Value difference_17 = sub(v[1], v[7]);
  const Value beside = sub(sum_17, sum_53);
  const Value both = add(difference_53, difference_17);
  const Value turned = add(both, part(both, kCosine));
  const Value twice = add(difference_53, difference_53);
  Value odd[4];
  odd[0] = add(sum_17, sum_53);
  odd[1] = sub(sub(turned, add(twice, part(difference_53, kSum))), odd[0]);
  odd[2] = sub(add(beside, part(beside, kRoot)), odd[1]);
  odd[3] = sub(turned, add(add(difference_17, part(difference_17, kDifference)), odd[2]));
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = add(even[i], odd[i]);
    v[7 - i] = sub(even[i], odd[i]);
  }
}

#if defined(__AVX2__)

// Of as many blocks as a vector has room for. Clears the coefficients.
HEADRACE_INLINE bool transform_blocks(int16_t* coefficients, const JpegFactors& factors, size_t at,
                                      uint8_t* out, size_t stride) {
  Vector v[8];
  Vector wild = HEADRACE_V(set1_epi32)(0);
#pragma GCC unroll 8
  for (size_t y = 0; y < 8; ++y) {
    const Vector row = load(coefficients + y * kGroupWidth);
    wild = either(wild, beyond(row, load(factors.limits + at + y * kGroupWidth)));
    const Vector coarse =
        HEADRACE_V(mullo_epi16)(row, load(factors.quantiser + at + y * kGroupWidth));
    v[y] = HEADRACE_V(mulhrs_epi16)(coarse, load(factors.fine + at + y * kGroupWidth));
    clear(coefficients + y * kGroupWidth);
  }
  transform(v);
  transpose(v);
  v[0] = add(v[0], HEADRACE_V(set1_epi16)(1 << (kShift - 1)));
  transform(v);
#pragma GCC unroll 8
  for (size_t y = 0; y < 8; ++y) v[y] = HEADRACE_V(srai_epi16)(v[y], kShift);
  store_levels(v, out, stride);
  return is_zero(wild);
}

__attribute__((noinline)) bool transform_group(int16_t* coefficients, const JpegFactors& factors,
                                               uint8_t* out, size_t stride) {
  bool is_tame = true;
  for (size_t block = 0; block < kGroupBlocks; block += kVectorBlocks) {
    const size_t at = 8 * block;
    is_tame &= transform_blocks(coefficients + at, factors, at, out + at, stride);
  }
  return is_tame;
}

#else

bool transform_block(int16_t* coefficients, const JpegFactors& factors, size_t column, uint8_t* out,
                     size_t stride) {
  Value values[8][8];
  for (size_t i = 0; i < 64; ++i) {
    const size_t at = i / 8 * kGroupWidth + i % 8;
    const int32_t limit = factors.limits[column + at];
    const int32_t coefficient = coefficients[at];
    if (coefficient < -limit || coefficient > limit) return false;
    const auto coarse = static_cast<Value>(coefficient * factors.quantiser[column + at]);
    values[i % 8][i / 8] = part(coarse, factors.fine[column + at]);
    coefficients[at] = 0;
  }
  for (auto& column_values : values) transform(column_values);
  for (size_t y = 0; y < 8; ++y) {
    Value row[8];
    for (size_t x = 0; x < 8; ++x) row[x] = values[x][y];
    row[0] = add(row[0], 1 << (kShift - 1));
    transform(row);
    for (size_t x = 0; x < 8; ++x) {
      const int level = (row[x] >> kShift) + 128;
      out[y * stride + x] = static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
    }
  }
  return true;
}

bool transform_group(int16_t* coefficients, const JpegFactors& factors, uint8_t* out,
                     size_t stride) {
  bool is_tame = true;
  for (size_t at = 0; at < kGroupWidth; at += 8) {
    is_tame &= transform_block(coefficients + at, factors, at, out + at, stride);
  }
  return is_tame;
}

#endif

}  // namespace

bool transform_jpeg_mcus_fast(const JpegRows* rows, size_t first) noexcept {
  return transform_all_groups(*rows, first,
                              [rows](int16_t* group, size_t c, uint8_t* out, size_t stride) {
                                return transform_group(group, rows->factors[c], out, stride);
                              });
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
