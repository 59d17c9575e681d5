// Half precision by hand, as the CPU's own instructions have it. Included by kernel sources:
// everything here is theirs alone, compiled for their level.
#pragma once

#include <stdint.h>

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

// The type says what the bits are.
struct [[gnu::may_alias]] Half {
  uint16_t bits;
};

// IEEE 754: what does not fit becomes infinite, small values lose bits one by one.
[[maybe_unused]] inline uint16_t half_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000U;
  bits &= 0x7FFFFFFFU;
  if (bits > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U | (bits >> 13 & 0x3FFU));
  if (bits >= 0x47800000U) return static_cast<uint16_t>(sign | 0x7C00U);  // 2^16 and above
  if (bits <= 0x33000000U) return static_cast<uint16_t>(sign);            // 2^-25 and below
  const bool is_normal = bits >= 0x38800000U;
  const uint32_t exponent = bits >> 23;
  const uint32_t shift = is_normal ? 13 : 126 - exponent;
  const uint32_t exact = is_normal ? bits - 0x38000000U : (bits & 0x7FFFFFU) | 0x800000U;
  const uint32_t rest = exact & ((1U << shift) - 1);
  const uint32_t middle = 1U << (shift - 1);
  const uint32_t cut = exact >> shift;
  const uint32_t up = rest > middle || (rest == middle && (cut & 1U) != 0) ? 1 : 0;
  return static_cast<uint16_t>(sign | (cut + up));
}

[[maybe_unused]] inline float float_of(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t exponent = half >> 10 & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  uint32_t bits;
  if (exponent == 31) {
    bits = 0x7F800000U | fraction << 13 | (fraction != 0 ? 0x400000U : 0);  // a quiet NaN
  } else if (exponent != 0) {
    bits = (exponent + 112) << 23 | fraction << 13;
  } else {
    const float small = static_cast<float>(fraction) * 0x1p-24F;
    __builtin_memcpy(&bits, &small, sizeof bits);
  }
  bits |= sign;
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
