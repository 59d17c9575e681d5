// Blends of a picture with black, a grey level or its own grey, in double precision as numpy has
// them, its hue, and its mirror image. Multiplication and addition are separate everywhere (the
// build forbids fusing them), so that all levels give the same bits.
#include "kernels/kernels.hpp"
#include "kernels/pixel_arithmetic.hpp"
#include "kernels/planes.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

constexpr double kRed = 0.2989;
constexpr double kGreen = 0.587;
constexpr double kBlue = 0.114;

inline uint8_t grey_of(const uint8_t* pixel) {
  return kernels::grey_of(pixel[0], pixel[1], pixel[2]);
}

#if defined(__AVX2__)

// Sixteen bytes are kParts vectors of doubles.
#if defined(__AVX512F__)
constexpr int kParts = 2;
using Doubles = __m512d;
inline Doubles broadcast(double value) { return _mm512_set1_pd(value); }
inline Doubles add(Doubles a, Doubles b) { return _mm512_add_pd(a, b); }
inline Doubles multiply(Doubles a, Doubles b) { return _mm512_mul_pd(a, b); }
inline Doubles kept(Doubles value) {
  return _mm512_min_pd(_mm512_max_pd(value, _mm512_setzero_pd()), _mm512_set1_pd(255));
}
inline Doubles cut(Doubles value) { return _mm512_cvtepi32_pd(_mm512_cvttpd_epi32(value)); }
inline void widen(__m128i bytes, Doubles* parts) {
  parts[0] = _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(bytes));
  parts[1] = _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
}
inline __m128i narrow(const Doubles* parts) {
  const __m512i low = _mm512_castsi256_si512(_mm512_cvttpd_epi32(parts[0]));
  return _mm512_cvtepi32_epi8(_mm512_inserti64x4(low, _mm512_cvttpd_epi32(parts[1]), 1));
}
#else
constexpr int kParts = 4;
using Doubles = __m256d;
inline Doubles broadcast(double value) { return _mm256_set1_pd(value); }
inline Doubles add(Doubles a, Doubles b) { return _mm256_add_pd(a, b); }
inline Doubles multiply(Doubles a, Doubles b) { return _mm256_mul_pd(a, b); }
inline Doubles kept(Doubles value) {
  return _mm256_min_pd(_mm256_max_pd(value, _mm256_setzero_pd()), _mm256_set1_pd(255));
}
inline Doubles cut(Doubles value) { return _mm256_cvtepi32_pd(_mm256_cvttpd_epi32(value)); }
inline void widen(__m128i bytes, Doubles* parts) {
  parts[0] = _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(bytes));
  parts[1] = _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_srli_si128(bytes, 4)));
  parts[2] = _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_srli_si128(bytes, 8)));
  parts[3] = _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_srli_si128(bytes, 12)));
}
inline __m128i narrow(const Doubles* parts) {
  const __m128i low = _mm_packs_epi32(_mm256_cvttpd_epi32(parts[0]), _mm256_cvttpd_epi32(parts[1]));
  const __m128i high =
      _mm_packs_epi32(_mm256_cvttpd_epi32(parts[2]), _mm256_cvttpd_epi32(parts[3]));
  return _mm_packus_epi16(low, high);
}
#endif

// Sixteen pixels as doubles.
struct Planes {
  Doubles red[kParts];
  Doubles green[kParts];
  Doubles blue[kParts];
};

inline Planes load_planes(const uint8_t* pixels) {
  const ThreeVectors bytes = to_planes(load_three(pixels));
  Planes planes;
  widen(bytes.a, planes.red);
  widen(bytes.b, planes.green);
  widen(bytes.c, planes.blue);
  return planes;
}

inline Doubles grey_part(const Planes& planes, int part) {
  const Doubles red = multiply(broadcast(kRed), planes.red[part]);
  const Doubles green = multiply(broadcast(kGreen), planes.green[part]);
  const Doubles blue = multiply(broadcast(kBlue), planes.blue[part]);
  return cut(add(add(red, green), blue));
}

// Whole vectors only, as the functions that follow; returns how far it came.
inline size_t sum_vectors(const uint8_t* pixels, size_t count, uint64_t* sum) {
  __m128i sums = _mm_setzero_si128();
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const Planes planes = load_planes(pixels + 3 * i);
    Doubles grey[kParts];
    for (int p = 0; p < kParts; ++p) grey[p] = grey_part(planes, p);
    sums = _mm_add_epi64(sums, _mm_sad_epu8(narrow(grey), _mm_setzero_si128()));
  }
  *sum = static_cast<uint64_t>(_mm_cvtsi128_si64(sums)) +
         static_cast<uint64_t>(_mm_extract_epi64(sums, 1));
  return i;
}

// The blend with a factor of 0, in fewer steps.
inline size_t grey_vectors(uint8_t* pixels, size_t count) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const Planes planes = load_planes(pixels + 3 * i);
    Doubles grey[kParts];
    for (int p = 0; p < kParts; ++p) grey[p] = grey_part(planes, p);
    const __m128i bytes = narrow(grey);
    store_three(pixels + 3 * i, to_pixels({bytes, bytes, bytes}));
  }
  return i;
}

inline size_t blend_grey_vectors(uint8_t* pixels, size_t count, double factor) {
  if (factor == 0) return grey_vectors(pixels, count);
  const Doubles factors = broadcast(factor);
  const Doubles rests = broadcast(1 - factor);
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    Planes planes = load_planes(pixels + 3 * i);
    for (int p = 0; p < kParts; ++p) {
      const Doubles rest = multiply(rests, grey_part(planes, p));
      planes.red[p] = kept(add(multiply(factors, planes.red[p]), rest));
      planes.green[p] = kept(add(multiply(factors, planes.green[p]), rest));
      planes.blue[p] = kept(add(multiply(factors, planes.blue[p]), rest));
    }
    store_three(pixels + 3 * i,
                to_pixels({narrow(planes.red), narrow(planes.green), narrow(planes.blue)}));
  }
  return i;
}

// Limits of every 48th byte, in three vectors each.
inline size_t limit_vectors(const uint8_t* pixels, size_t count, uint8_t* lows, uint8_t* highs) {
  if (count < 16) return 0;
  ThreeVectors low = load_three(pixels);
  ThreeVectors high = low;
  size_t i = 16;
  for (; i + 16 <= count; i += 16) {
    const ThreeVectors values = load_three(pixels + 3 * i);
    low = {_mm_min_epu8(low.a, values.a), _mm_min_epu8(low.b, values.b),
           _mm_min_epu8(low.c, values.c)};
    high = {_mm_max_epu8(high.a, values.a), _mm_max_epu8(high.b, values.b),
            _mm_max_epu8(high.c, values.c)};
  }
  store_three(lows, low);
  store_three(highs, high);
  return i;
}

// Sixteen pixels from either end change places; returns how many at each end have.
inline size_t mirror_vectors(uint8_t* row, size_t pixels) {
  size_t j = 0;
  for (; 2 * (j + 16) <= pixels; j += 16) {
    uint8_t* left = row + 3 * j;
    uint8_t* right = row + 3 * (pixels - j - 16);
    const ThreeVectors from_left = load_three(left);
    store_three(left, mirrored(load_three(right)));
    store_three(right, mirrored(from_left));
  }
  return j;
}

#if defined(__AVX512VBMI__)

// Two lookups of 128 entries; the top bit says which one counts.
inline size_t map_vectors(uint8_t* values, size_t size, const uint8_t* table) {
  const __m512i t0 = _mm512_loadu_si512(table);
  const __m512i t1 = _mm512_loadu_si512(table + 64);
  const __m512i t2 = _mm512_loadu_si512(table + 128);
  const __m512i t3 = _mm512_loadu_si512(table + 192);
  size_t i = 0;
  for (; i + 64 <= size; i += 64) {
    const __m512i index = _mm512_loadu_si512(values + i);
    const __m512i low = _mm512_permutex2var_epi8(t0, index, t1);
    const __m512i high = _mm512_permutex2var_epi8(t2, index, t3);
    _mm512_storeu_si512(values + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high));
  }
  return i;
}

#else

// Sixteen lookups of 16 entries. An index outside of them has its top bit set by the saturating
// sum, and its lookup gives zero.
inline size_t map_vectors(uint8_t* values, size_t size, const uint8_t* table) {
  size_t i = 0;
  for (; i + 32 <= size; i += 32) {
    auto* at = reinterpret_cast<__m256i*>(values + i);
    const __m256i index = _mm256_loadu_si256(at);
    __m256i found = _mm256_setzero_si256();
    for (int row = 0; row < 16; ++row) {
      const __m256i entries = _mm256_broadcastsi128_si256(
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * row)));
      const __m256i inside =
          _mm256_adds_epu8(_mm256_xor_si256(index, _mm256_set1_epi8(static_cast<char>(16 * row))),
                           _mm256_set1_epi8(0x70));
      found = _mm256_or_si256(found, _mm256_shuffle_epi8(entries, inside));
    }
    _mm256_storeu_si256(at, found);
  }
  return i;
}

#endif

#else

inline size_t sum_vectors(const uint8_t*, size_t, uint64_t* sum) {
  *sum = 0;
  return 0;
}

inline size_t blend_grey_vectors(uint8_t*, size_t, double) { return 0; }

inline size_t map_vectors(uint8_t*, size_t, const uint8_t*) { return 0; }

inline size_t mirror_vectors(uint8_t*, size_t) { return 0; }

inline size_t limit_vectors(const uint8_t*, size_t, uint8_t*, uint8_t*) { return 0; }

#endif

// Red, green and blue of some pixels, apart, so that the compiler finds vectors in what is
// computed.
constexpr size_t kHueBlock = 64;
struct HueBlock {
  uint8_t red[kHueBlock];
  uint8_t green[kHueBlock];
  uint8_t blue[kHueBlock];
};

#if defined(__SSE4_1__)

inline void load_block(const uint8_t* pixels, size_t count, HueBlock* block) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const ThreeVectors planes = to_planes(load_three(pixels + 3 * i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block->red + i), planes.a);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block->green + i), planes.b);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(block->blue + i), planes.c);
  }
  for (; i < count; ++i) {
    block->red[i] = pixels[3 * i];
    block->green[i] = pixels[3 * i + 1];
    block->blue[i] = pixels[3 * i + 2];
  }
}

inline void store_block(const HueBlock* block, size_t count, uint8_t* pixels) {
  size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const auto load = [i](const uint8_t* plane) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(plane + i));
    };
    store_three(pixels + 3 * i,
                to_pixels({load(block->red), load(block->green), load(block->blue)}));
  }
  for (; i < count; ++i) {
    pixels[3 * i] = block->red[i];
    pixels[3 * i + 1] = block->green[i];
    pixels[3 * i + 2] = block->blue[i];
  }
}

#else

inline void load_block(const uint8_t* pixels, size_t count, HueBlock* block) {
  for (size_t i = 0; i < count; ++i) {
    block->red[i] = pixels[3 * i];
    block->green[i] = pixels[3 * i + 1];
    block->blue[i] = pixels[3 * i + 2];
  }
}

inline void store_block(const HueBlock* block, size_t count, uint8_t* pixels) {
  for (size_t i = 0; i < count; ++i) {
    pixels[3 * i] = block->red[i];
    pixels[3 * i + 1] = block->green[i];
    pixels[3 * i + 2] = block->blue[i];
  }
}

#endif

inline void shift_block(HueBlock* block, float sixths) {
  for (size_t i = 0; i < kHueBlock; ++i) {
    const Hue hue = turned_hue(block->red[i], block->green[i], block->blue[i], sixths);
    block->red[i] = channel_of(hue, 5);
    block->green[i] = channel_of(hue, 3);
    block->blue[i] = channel_of(hue, 1);
  }
}

}  // namespace

void map_levels(uint8_t* values, size_t size, const uint8_t* table) noexcept {
  for (size_t i = map_vectors(values, size, table); i < size; ++i) values[i] = table[values[i]];
}

// Every byte of the picture is one of 256.
void blend_with_level(uint8_t* values, size_t size, double factor, double level) noexcept {
  const double rest = (1 - factor) * level;
  uint8_t table[256];
  for (size_t value = 0; value < 256; ++value) {
    table[value] = blended(static_cast<uint8_t>(value), factor, rest);
  }
  map_levels(values, size, table);
}

void blend_with_grey(uint8_t* pixels, size_t count, double factor) noexcept {
  for (size_t i = blend_grey_vectors(pixels, count, factor); i < count; ++i) {
    uint8_t* pixel = pixels + 3 * i;
    const double rest = (1 - factor) * grey_of(pixel);
    for (size_t c = 0; c < 3; ++c) pixel[c] = blended(pixel[c], factor, rest);
  }
}

void shift_hue(uint8_t* pixels, size_t count, float sixths) noexcept {
  HueBlock block = {};
  for (size_t i = 0; i < count; i += kHueBlock) {
    const size_t size = count - i < kHueBlock ? count - i : kHueBlock;
    load_block(pixels + 3 * i, size, &block);
    shift_block(&block, sixths);
    store_block(&block, size, pixels + 3 * i);
  }
}

void mirror_row(uint8_t* row, size_t pixels) noexcept {
  for (size_t j = mirror_vectors(row, pixels); 2 * j + 1 < pixels; ++j) {
    uint8_t* left = row + 3 * j;
    uint8_t* right = row + 3 * (pixels - 1 - j);
    for (size_t c = 0; c < 3; ++c) {
      const uint8_t value = left[c];
      left[c] = right[c];
      right[c] = value;
    }
  }
}

void find_limits(const uint8_t* pixels, size_t count, uint8_t* low, uint8_t* high) noexcept {
  uint8_t lows[48];
  uint8_t highs[48];
  const size_t done = limit_vectors(pixels, count, lows, highs);
  for (size_t c = 0; c < 3; ++c) {
    uint8_t least = 255;
    uint8_t most = 0;
    const auto take = [&least, &most](uint8_t smallest, uint8_t largest) {
      least = smallest < least ? smallest : least;
      most = largest > most ? largest : most;
    };
    for (size_t k = c; done != 0 && k < 48; k += 3) take(lows[k], highs[k]);
    for (size_t i = done; i < count; ++i) take(pixels[3 * i + c], pixels[3 * i + c]);
    low[c] = least;
    high[c] = most;
  }
}

uint64_t sum_grey(const uint8_t* pixels, size_t count) noexcept {
  uint64_t sum;
  for (size_t i = sum_vectors(pixels, count, &sum); i < count; ++i) sum += grey_of(pixels + 3 * i);
  return sum;
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
