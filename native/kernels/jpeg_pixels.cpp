// Samples of a JPEG to pixels: fancy upsampling and colour conversion as libjpeg does them, to the
// last bit. Every loop handles whole vectors and writes past what was asked for.
#include "kernels/kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

#define HEADRACE_INLINE inline __attribute__((always_inline))

#if defined(__AVX512VBMI__)
using Vector = __m512i;  // of 16-bit values
using Bytes = __m256i;
#define HEADRACE_V(name) _mm512_##name
HEADRACE_INLINE Vector load(const uint8_t* from) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const Bytes*>(from)));
}
HEADRACE_INLINE void store_pairs(uint8_t* out, Vector even, Vector odd) {
  _mm512_storeu_si512(out, _mm512_or_si512(even, _mm512_slli_epi16(odd, 8)));
}
HEADRACE_INLINE Bytes to_bytes(Vector v) { return _mm512_cvtepi16_epi8(v); }
// Levels below 0 or above 255 are cut.
HEADRACE_INLINE Bytes to_levels(Vector v) {
  return _mm512_cvtusepi16_epi8(_mm512_max_epi16(v, _mm512_setzero_si512()));
}
HEADRACE_INLINE void store(uint8_t* out, Bytes bytes) {
  _mm256_storeu_si256(reinterpret_cast<Bytes*>(out), bytes);
}
HEADRACE_INLINE Bytes load_bytes(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const Bytes*>(from));
}

// Where each byte of 32 interleaved pixels is among their planes.
struct Order {
  uint8_t places[128];
};
constexpr Order make_order() {
  Order order{};
  for (int i = 0; i < 96; ++i) order.places[i] = static_cast<uint8_t>(i % 3 * 32 + i / 3);
  return order;
}
alignas(64) constexpr Order kOrder = make_order();

HEADRACE_INLINE void store_pixels(uint8_t* out, Bytes red, Bytes green, Bytes blue) {
  const __m512i two = _mm512_inserti64x4(_mm512_castsi256_si512(red), green, 1);
  const __m512i third = _mm512_castsi256_si512(blue);
  _mm512_storeu_si512(out, _mm512_permutex2var_epi8(two, _mm512_load_si512(kOrder.places), third));
  store(out + 64, _mm512_castsi512_si256(
                      _mm512_permutex2var_epi8(two, _mm512_load_si512(kOrder.places + 64), third)));
}

#elif defined(__AVX2__)
using Vector = __m256i;
using Bytes = __m128i;
#define HEADRACE_V(name) _mm256_##name
HEADRACE_INLINE Vector load(const uint8_t* from) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const Bytes*>(from)));
}
HEADRACE_INLINE void store_pairs(uint8_t* out, Vector even, Vector odd) {
  _mm256_storeu_si256(reinterpret_cast<Vector*>(out),
                      _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}
HEADRACE_INLINE Bytes to_levels(Vector v) {
  return _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}
HEADRACE_INLINE Bytes to_bytes(Vector v) { return to_levels(v); }
HEADRACE_INLINE void store(uint8_t* out, Bytes bytes) {
  _mm_storeu_si128(reinterpret_cast<Bytes*>(out), bytes);
}
HEADRACE_INLINE Bytes load_bytes(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const Bytes*>(from));
}

// For each third of 16 interleaved pixels and each channel: which of its levels go where.
struct Order {
  uint8_t places[3][3][16];
};
constexpr Order make_order() {
  Order order{};
  for (int third = 0; third < 3; ++third) {
    for (int channel = 0; channel < 3; ++channel) {
      for (int i = 0; i < 16; ++i) {
        const int at = third * 16 + i;
        order.places[third][channel][i] =
            at % 3 == channel ? static_cast<uint8_t>(at / 3) : static_cast<uint8_t>(0x80);
      }
    }
  }
  return order;
}
alignas(16) constexpr Order kOrder = make_order();

HEADRACE_INLINE void store_pixels(uint8_t* out, Bytes red, Bytes green, Bytes blue) {
#pragma GCC unroll 3
  for (int third = 0; third < 3; ++third) {
    const auto& places = kOrder.places[third];
    const __m128i a = _mm_shuffle_epi8(red, load_bytes(places[0]));
    const __m128i b = _mm_shuffle_epi8(green, load_bytes(places[1]));
    const __m128i c = _mm_shuffle_epi8(blue, load_bytes(places[2]));
    store(out + 16 * third, _mm_or_si128(a, _mm_or_si128(b, c)));
  }
}
#endif

#if defined(__AVX2__)

constexpr size_t kStep = sizeof(Vector) / 2;

HEADRACE_INLINE Vector add(Vector a, Vector b) { return HEADRACE_V(add_epi16)(a, b); }
HEADRACE_INLINE Vector all(int value) {
  return HEADRACE_V(set1_epi16)(static_cast<int16_t>(value));
}
HEADRACE_INLINE Vector triple(Vector v) { return add(v, add(v, v)); }

// Nearest sums counted three times, those beside them once.
template <int kShift>
HEADRACE_INLINE void store_mixed(uint8_t* out, Vector left, Vector middle, Vector right,
                                 int even_bias, int odd_bias) {
  const Vector nearest = triple(middle);
  const Vector even = add(add(nearest, left), all(even_bias));
  const Vector odd = add(add(nearest, right), all(odd_bias));
  store_pairs(out, HEADRACE_V(srli_epi16)(even, kShift), HEADRACE_V(srli_epi16)(odd, kShift));
}

HEADRACE_INLINE Vector column_sum(const JpegSamples* samples, size_t at, int shift) {
  const uint8_t* row = samples->row + at + shift;
  const uint8_t* beside = samples->beside + at + shift;
  return add(triple(load(row)), load(beside));
}

#endif

#if !defined(__AVX2__)
HEADRACE_INLINE uint8_t cut(int level) {
  return static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
}
#endif

}  // namespace

#if defined(__AVX2__)

void upsample_h2v1(const uint8_t* row, size_t size, uint8_t* out) noexcept {
  for (size_t i = 0; i < size; i += kStep) {
    store_mixed<2>(out + 2 * i, load(row + i - 1), load(row + i), load(row + i + 1), 1, 2);
  }
}

void upsample_h2v2(const JpegSamples* samples, size_t size, uint8_t* out) noexcept {
  for (size_t i = 0; i < size; i += kStep) {
    store_mixed<4>(out + 2 * i, column_sum(samples, i, -1), column_sum(samples, i, 0),
                   column_sum(samples, i, 1), 8, 7);
  }
}

void upsample_h1v2(const JpegSamples* samples, size_t size, int bias, uint8_t* out) noexcept {
  for (size_t i = 0; i < size; i += kStep) {
    const Vector sum = add(column_sum(samples, i, 0), all(bias));
    store(out + i, to_bytes(HEADRACE_V(srli_epi16)(sum, 2)));
  }
}

// The products of libjpeg in 1/65536, rounded, with factors split so that they fit 16 bits: 1.402
// is 1 + 0.402, 1.772 is 2 - 0.228, -0.71414 is 0.28586 - 1.
void ycc_to_rgb(const uint8_t* const* planes, size_t pixels, uint8_t* out) noexcept {
  const Vector one = all(1);
  const Vector half = HEADRACE_V(set1_epi32)(32768);
  const Vector green_factors = HEADRACE_V(set1_epi32)(
      static_cast<int>(18734U << 16 | (static_cast<uint32_t>(-22554) & 0xFFFF)));
  for (size_t i = 0; i < pixels; i += kStep) {
    const Vector y = load(planes[0] + i);
    const Vector cb = HEADRACE_V(sub_epi16)(load(planes[1] + i), all(128));
    const Vector cr = HEADRACE_V(sub_epi16)(load(planes[2] + i), all(128));
    const Vector cb2 = add(cb, cb);
    const Vector cr2 = add(cr, cr);
    const Vector blue =
        add(HEADRACE_V(srai_epi16)(add(HEADRACE_V(mulhi_epi16)(cb2, all(-14942)), one), 1), cb2);
    const Vector red =
        add(HEADRACE_V(srai_epi16)(add(HEADRACE_V(mulhi_epi16)(cr2, all(26345)), one), 1), cr);
    const Vector low = HEADRACE_V(madd_epi16)(HEADRACE_V(unpacklo_epi16)(cb, cr), green_factors);
    const Vector high = HEADRACE_V(madd_epi16)(HEADRACE_V(unpackhi_epi16)(cb, cr), green_factors);
    const Vector green = HEADRACE_V(sub_epi16)(
        HEADRACE_V(packs_epi32)(HEADRACE_V(srai_epi32)(HEADRACE_V(add_epi32)(low, half), 16),
                                HEADRACE_V(srai_epi32)(HEADRACE_V(add_epi32)(high, half), 16)),
        cr);
    store_pixels(out + 3 * i, to_levels(add(y, red)), to_levels(add(y, green)),
                 to_levels(add(y, blue)));
  }
}

void planes_to_rgb(const uint8_t* const* planes, size_t pixels, uint8_t* out) noexcept {
  for (size_t i = 0; i < pixels; i += kStep) {
    store_pixels(out + 3 * i, load_bytes(planes[0] + i), load_bytes(planes[1] + i),
                 load_bytes(planes[2] + i));
  }
}

#else

void upsample_h2v1(const uint8_t* row, size_t size, uint8_t* out) noexcept {
  for (size_t i = 0; i < size; ++i) {
    const uint8_t* at = row + i;
    out[2 * i] = static_cast<uint8_t>((3 * at[0] + at[-1] + 1) >> 2);
    out[2 * i + 1] = static_cast<uint8_t>((3 * at[0] + at[1] + 2) >> 2);
  }
}

void upsample_h2v2(const JpegSamples* samples, size_t size, uint8_t* out) noexcept {
  int left = 3 * samples->row[-1] + samples->beside[-1];
  int middle = 3 * samples->row[0] + samples->beside[0];
  for (size_t i = 0; i < size; ++i) {
    const int right = 3 * samples->row[i + 1] + samples->beside[i + 1];
    out[2 * i] = static_cast<uint8_t>((3 * middle + left + 8) >> 4);
    out[2 * i + 1] = static_cast<uint8_t>((3 * middle + right + 7) >> 4);
    left = middle;
    middle = right;
  }
}

void upsample_h1v2(const JpegSamples* samples, size_t size, int bias, uint8_t* out) noexcept {
  for (size_t i = 0; i < size; ++i) {
    out[i] = static_cast<uint8_t>((3 * samples->row[i] + samples->beside[i] + bias) >> 2);
  }
}

void ycc_to_rgb(const uint8_t* const* planes, size_t pixels, uint8_t* out) noexcept {
  for (size_t i = 0; i < pixels; ++i) {
    const int y = planes[0][i];
    const int cb = planes[1][i] - 128;
    const int cr = planes[2][i] - 128;
    out[3 * i] = cut(y + ((91881 * cr + 32768) >> 16));
    out[3 * i + 1] = cut(y + ((-22554 * cb - 46802 * cr + 32768) >> 16));
    out[3 * i + 2] = cut(y + ((116130 * cb + 32768) >> 16));
  }
}

void planes_to_rgb(const uint8_t* const* planes, size_t pixels, uint8_t* out) noexcept {
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) out[3 * i + c] = planes[c][i];
  }
}

#endif

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
