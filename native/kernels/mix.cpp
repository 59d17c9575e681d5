// Two samples blended to one. Multiplication and addition are separate everywhere (the build
// forbids fusing them), so that all levels give the same bits.
#include "kernels/half.hpp"
#include "kernels/kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL {
namespace {

inline float value_of(float value) { return value; }
inline float value_of(uint8_t value) { return value; }
inline float value_of(Half value) { return float_of(value.bits); }

inline void put(float value, float* out) { *out = value; }
inline void put(float value, uint8_t* out) { *out = static_cast<uint8_t>(value); }
inline void put(float value, Half* out) { out->bits = half_of(value); }

#if defined(__AVX2__)

#if defined(__AVX512F__)
constexpr size_t kLanes = 16;
using Floats = __m512;
inline Floats broadcast(float value) { return _mm512_set1_ps(value); }
inline Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats load(const float* from) { return _mm512_loadu_ps(from); }
inline Floats load(const uint8_t* from) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}
inline Floats load(const Half* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
inline void store(float* to, Floats value) { _mm512_storeu_ps(to, value); }
inline void store(uint8_t* to, Floats value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(value)));
}
inline void store(Half* to, Floats value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
constexpr size_t kLanes = 8;
using Floats = __m256;
inline Floats broadcast(float value) { return _mm256_set1_ps(value); }
inline Floats add(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats multiply(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats load(const float* from) { return _mm256_loadu_ps(from); }
inline Floats load(const uint8_t* from) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
}
inline Floats load(const Half* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
inline void store(float* to, Floats value) { _mm256_storeu_ps(to, value); }
inline void store(uint8_t* to, Floats value) {
  const __m256i whole = _mm256_cvttps_epi32(value);
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
}
inline void store(Half* to, Floats value) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

// Whole vectors only; returns how far it came.
template <typename T>
inline size_t mix_vectors(const T* a, const T* b, size_t size, float weight, float rest, T* out) {
  const Floats weights = broadcast(weight);
  const Floats rests = broadcast(rest);
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    store(out + i, add(multiply(load(a + i), weights), multiply(load(b + i), rests)));
  }
  return i;
}

#else

template <typename T>
inline size_t mix_vectors(const T*, const T*, size_t, float, float, T*) {
  return 0;
}

#endif

template <typename T>
inline void mix(const T* a, const T* b, size_t size, float weight, T* out) {
  const float rest = 1 - weight;
  for (size_t i = mix_vectors(a, b, size, weight, rest, out); i < size; ++i) {
    put(value_of(a[i]) * weight + value_of(b[i]) * rest, out + i);
  }
}

}  // namespace

void mix_bytes(const uint8_t* a, const uint8_t* b, size_t size, float weight,
               uint8_t* out) noexcept {
  mix(a, b, size, weight, out);
}

void mix_halves(const uint16_t* a, const uint16_t* b, size_t size, float weight,
                uint16_t* out) noexcept {
  mix(reinterpret_cast<const Half*>(a), reinterpret_cast<const Half*>(b), size, weight,
      reinterpret_cast<Half*>(out));
}

void mix_floats(const float* a, const float* b, size_t size, float weight, float* out) noexcept {
  mix(a, b, size, weight, out);
}

}  // namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL
