// Sixteen interleaved RGB pixels, three vectors, from and to three planes. Included by kernel
// sources: everything here is theirs alone, compiled for their level.
#pragma once

#if defined(__SSE4_1__)
#include <immintrin.h>
#include <stdint.h>

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

// Three vectors of 16 bytes: 16 pixels one after another, or their red, green and blue.
struct ThreeVectors {
  __m128i a, b, c;
};

inline ThreeVectors load_three(const uint8_t* from) {
  const auto* source = reinterpret_cast<const __m128i*>(from);
  return {_mm_loadu_si128(source), _mm_loadu_si128(source + 1), _mm_loadu_si128(source + 2)};
}

[[maybe_unused]] inline void store_three(uint8_t* to, const ThreeVectors& vectors) {
  auto* out = reinterpret_cast<__m128i*>(to);
  _mm_storeu_si128(out, vectors.a);
  _mm_storeu_si128(out + 1, vectors.b);
  _mm_storeu_si128(out + 2, vectors.c);
}

// Each byte comes from one of the three; the others' indices say nothing with -1.
inline __m128i pick(const ThreeVectors& from, __m128i of_a, __m128i of_b, __m128i of_c) {
  return _mm_or_si128(_mm_or_si128(_mm_shuffle_epi8(from.a, of_a), _mm_shuffle_epi8(from.b, of_b)),
                      _mm_shuffle_epi8(from.c, of_c));
}

inline ThreeVectors to_planes(const ThreeVectors& pixels) {
  constexpr char x = -1;
  const __m128i red_a = _mm_setr_epi8(0, 3, 6, 9, 12, 15, x, x, x, x, x, x, x, x, x, x);
  const __m128i red_b = _mm_setr_epi8(x, x, x, x, x, x, 2, 5, 8, 11, 14, x, x, x, x, x);
  const __m128i red_c = _mm_setr_epi8(x, x, x, x, x, x, x, x, x, x, x, 1, 4, 7, 10, 13);
  const __m128i green_a = _mm_setr_epi8(1, 4, 7, 10, 13, x, x, x, x, x, x, x, x, x, x, x);
  const __m128i green_b = _mm_setr_epi8(x, x, x, x, x, 0, 3, 6, 9, 12, 15, x, x, x, x, x);
  const __m128i green_c = _mm_setr_epi8(x, x, x, x, x, x, x, x, x, x, x, 2, 5, 8, 11, 14);
  const __m128i blue_a = _mm_setr_epi8(2, 5, 8, 11, 14, x, x, x, x, x, x, x, x, x, x, x);
  const __m128i blue_b = _mm_setr_epi8(x, x, x, x, x, 1, 4, 7, 10, 13, x, x, x, x, x, x);
  const __m128i blue_c = _mm_setr_epi8(x, x, x, x, x, x, x, x, x, x, 0, 3, 6, 9, 12, 15);
  return {pick(pixels, red_a, red_b, red_c), pick(pixels, green_a, green_b, green_c),
          pick(pixels, blue_a, blue_b, blue_c)};
}

[[maybe_unused]] inline ThreeVectors to_pixels(const ThreeVectors& planes) {
  constexpr char x = -1;
  const __m128i a_red = _mm_setr_epi8(0, x, x, 1, x, x, 2, x, x, 3, x, x, 4, x, x, 5);
  const __m128i a_green = _mm_setr_epi8(x, 0, x, x, 1, x, x, 2, x, x, 3, x, x, 4, x, x);
  const __m128i a_blue = _mm_setr_epi8(x, x, 0, x, x, 1, x, x, 2, x, x, 3, x, x, 4, x);
  const __m128i b_red = _mm_setr_epi8(x, x, 6, x, x, 7, x, x, 8, x, x, 9, x, x, 10, x);
  const __m128i b_green = _mm_setr_epi8(5, x, x, 6, x, x, 7, x, x, 8, x, x, 9, x, x, 10);
  const __m128i b_blue = _mm_setr_epi8(x, 5, x, x, 6, x, x, 7, x, x, 8, x, x, 9, x, x);
  const __m128i c_red = _mm_setr_epi8(x, 11, x, x, 12, x, x, 13, x, x, 14, x, x, 15, x, x);
  const __m128i c_green = _mm_setr_epi8(x, x, 11, x, x, 12, x, x, 13, x, x, 14, x, x, 15, x);
  const __m128i c_blue = _mm_setr_epi8(10, x, x, 11, x, x, 12, x, x, 13, x, x, 14, x, x, 15);
  return {pick(planes, a_red, a_green, a_blue), pick(planes, b_red, b_green, b_blue),
          pick(planes, c_red, c_green, c_blue)};
}

// Sixteen pixels in the opposite order.
[[maybe_unused]] inline ThreeVectors mirrored(const ThreeVectors& pixels) {
  constexpr char x = -1;
  const __m128i a_of_c = _mm_setr_epi8(13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, x);
  const __m128i a_of_b = _mm_setr_epi8(x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, 14);
  const __m128i b_of_c = _mm_setr_epi8(x, 0, x, x, x, x, x, x, x, x, x, x, x, x, x, x);
  const __m128i b_of_b = _mm_setr_epi8(15, x, 11, 12, 13, 8, 9, 10, 5, 6, 7, 2, 3, 4, x, 0);
  const __m128i b_of_a = _mm_setr_epi8(x, x, x, x, x, x, x, x, x, x, x, x, x, x, 15, x);
  const __m128i c_of_b = _mm_setr_epi8(1, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x);
  const __m128i c_of_a = _mm_setr_epi8(x, 12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2);
  const __m128i nothing = _mm_set1_epi8(x);
  return {pick(pixels, nothing, a_of_b, a_of_c), pick(pixels, b_of_a, b_of_b, b_of_c),
          pick(pixels, c_of_a, c_of_b, nothing)};
}

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL

#endif
