// Vectors of floats, as wide as the level has them, from and to floats, halves and bytes; and
// single floats to levels. Included by kernel sources: everything here is theirs alone, compiled
// for their level.
#pragma once

#include <stddef.h>

#include "kernels/half.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

// The nearest of the 256 levels.
[[maybe_unused]] inline uint8_t to_level(float value) {
  const long rounded = __builtin_lrintf(value);
  return static_cast<uint8_t>(rounded < 0 ? 0 : rounded > 255 ? 255 : rounded);
}

#if defined(__AVX512F__)

constexpr size_t kLanes = 16;
using Floats = __m512;
using Ints = __m512i;

inline Floats broadcast(float value) { return _mm512_set1_ps(value); }
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Ints cut(Floats values) { return _mm512_cvttps_epi32(values); }
inline Ints rounded(Floats values) { return _mm512_cvtps_epi32(values); }
// The first kLanes of sixteen bytes.
inline Floats widen(__m128i bytes) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)); }

inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline Floats load(const uint8_t* from) {
  return widen(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline void store(float* to, Floats values) { _mm512_storeu_ps(to, values); }
// None of them negative; those above 255 become 255.
inline void store(uint8_t* to, Ints values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtusepi32_epi8(values));
}

#if defined(__F16C__)
inline Floats load(const Half* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline void store(Half* to, Floats values) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

#elif defined(__AVX2__)

constexpr size_t kLanes = 8;
using Floats = __m256;
using Ints = __m256i;

inline Floats broadcast(float value) { return _mm256_set1_ps(value); }
inline Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Ints cut(Floats values) { return _mm256_cvttps_epi32(values); }
inline Ints rounded(Floats values) { return _mm256_cvtps_epi32(values); }
inline Floats widen(__m128i bytes) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)); }

inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
inline Floats load(const uint8_t* from) {
  return widen(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
}
inline void store(float* to, Floats values) { _mm256_storeu_ps(to, values); }
inline void store(uint8_t* to, Ints values) {
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}

#if defined(__F16C__)
inline Floats load(const Half* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline void store(Half* to, Floats values) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

#endif

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
