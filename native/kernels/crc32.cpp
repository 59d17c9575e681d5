// CRC-32 (zlib's polynomial) three ways: slicing-by-8 tables, folding with 128-bit and with 512-bit
// carry-less products. Polynomials are bit-reflected: bit 31 is x^0.
#include "kernels/kernels.hpp"

#if defined(__SSE4_2__) && defined(__PCLMUL__)
#include <immintrin.h>
#endif

namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;

constexpr uint32_t times_x(uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0); }

// by_byte[k][b]: register after byte b and k zero bytes.
struct SliceTable {
  uint32_t by_byte[8][256];
  constexpr SliceTable() : by_byte() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t state = byte;
      for (int bit = 0; bit < 8; ++bit) state = times_x(state);
      by_byte[0][byte] = state;
    }
    for (int k = 1; k < 8; ++k) {
      for (int byte = 0; byte < 256; ++byte) {
        const uint32_t before = by_byte[k - 1][byte];
        by_byte[k][byte] = (before >> 8) ^ by_byte[0][before & 0xFF];
      }
    }
  }
};
constexpr SliceTable kSlice;

inline uint32_t update_word(uint32_t state, const uint8_t* data) {
  const auto& table = kSlice.by_byte;
  const uint32_t low =
      state ^ (data[0] | static_cast<uint32_t>(data[1]) << 8 |
               static_cast<uint32_t>(data[2]) << 16 | static_cast<uint32_t>(data[3]) << 24);
  return table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
         table[4][low >> 24] ^ table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^
         table[0][data[7]];
}

inline uint32_t update_sliced(uint32_t state, const uint8_t* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) state = update_word(state, data);
  for (; size > 0; ++data, --size) {
    state = (state >> 8) ^ kSlice.by_byte[0][(state ^ *data) & 0xFF];
  }
  return state;
}

#if defined(__SSE4_2__) && defined(__PCLMUL__)

constexpr uint32_t power_of_x(size_t exponent) {
  uint32_t power = 0x80000000;
  for (size_t i = 0; i < exponent; ++i) power = times_x(power);
  return power;
}

// Multipliers that move the two halves of 16 bytes ahead by `bytes` bytes.
struct FoldPair {
  int64_t low;
  int64_t high;
  explicit constexpr FoldPair(size_t bytes)
      : low(power_of_x(8 * bytes + 31)), high(power_of_x(8 * bytes - 33)) {}
};
constexpr FoldPair kFold64(64), kFold16(16);

// Quotient of x^64 and the polynomial, 33 bits, reflected: its bit k, the coefficient of
// x^(32 - k), is what is left of the dividend there when its turn comes.
constexpr uint64_t reciprocal() {
  constexpr uint64_t divisor = uint64_t{kPolynomial} << 1 | 1;
  uint64_t quotient = 1;
  uint64_t rest = divisor ^ 1;  // below x^64, which the divisor's first bit has taken away
  for (int k = 1; k < 33; ++k) {
    rest >>= 1;
    if ((rest & 1) != 0) {
      quotient |= uint64_t{1} << k;
      rest ^= divisor;
    }
  }
  return quotient;
}

constexpr int64_t kTo96 = int64_t{power_of_x(96)} << 1;
constexpr int64_t kTo64 = int64_t{power_of_x(64)} << 1;
constexpr int64_t kInverse = static_cast<int64_t>(reciprocal());
constexpr int64_t kDivisor = int64_t{kPolynomial} << 1 | 1;

inline __m128i multiplier(const FoldPair& pair) { return _mm_set_epi64x(pair.high, pair.low); }

inline __m128i load_16(const uint8_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// (sum moved ahead by the multiplier's distance) + next
inline __m128i fold(__m128i sum, __m128i by, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(sum, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(sum, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

// Register after the 16 bytes: to 96 bits, to 64 bits, and Barrett's reduction to 32.
inline uint32_t reduce(__m128i sum) {
  const __m128i low_32 = _mm_set_epi32(0, 0, 0, -1);
  sum = _mm_xor_si128(_mm_clmulepi64_si128(sum, _mm_cvtsi64_si128(kTo96), 0x00),
                      _mm_srli_si128(sum, 8));
  sum = _mm_xor_si128(
      _mm_clmulepi64_si128(_mm_and_si128(sum, low_32), _mm_cvtsi64_si128(kTo64), 0x00),
      _mm_srli_si128(sum, 4));
  __m128i quotient =
      _mm_clmulepi64_si128(_mm_and_si128(sum, low_32), _mm_cvtsi64_si128(kInverse), 0x00);
  quotient =
      _mm_clmulepi64_si128(_mm_and_si128(quotient, low_32), _mm_cvtsi64_si128(kDivisor), 0x00);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(sum, quotient), 1));
}

// The rest behind what is in `sum`.
inline uint32_t finish(__m128i sum, const uint8_t* data, size_t size) {
  const __m128i by_16 = multiplier(kFold16);
  for (; size >= 16; data += 16, size -= 16) sum = fold(sum, by_16, load_16(data));
  return update_sliced(reduce(sum), data, size);
}

inline uint32_t update_narrow(uint32_t state, const uint8_t* data, size_t size) {
  const __m128i by_64 = multiplier(kFold64);
  const __m128i by_16 = multiplier(kFold16);
  __m128i sum_0 = _mm_xor_si128(load_16(data), _mm_cvtsi32_si128(static_cast<int32_t>(state)));
  if (size < 64) return finish(sum_0, data + 16, size - 16);
  __m128i sum_1 = load_16(data + 16);
  __m128i sum_2 = load_16(data + 32);
  __m128i sum_3 = load_16(data + 48);
  for (data += 64, size -= 64; size >= 64; data += 64, size -= 64) {
    sum_0 = fold(sum_0, by_64, load_16(data));
    sum_1 = fold(sum_1, by_64, load_16(data + 16));
    sum_2 = fold(sum_2, by_64, load_16(data + 32));
    sum_3 = fold(sum_3, by_64, load_16(data + 48));
  }
  sum_1 = fold(sum_0, by_16, sum_1);
  sum_2 = fold(sum_1, by_16, sum_2);
  return finish(fold(sum_2, by_16, sum_3), data, size);
}

#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)

constexpr size_t kMinWideBytes = 256;
constexpr FoldPair kFold256(256), kFold48(48), kFold32(32);

inline __m512i broadcast(const FoldPair& pair) { return _mm512_broadcast_i32x4(multiplier(pair)); }

inline __m512i fold(__m512i sum, __m512i by, __m512i next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, by, 0x00),
                                   _mm512_clmulepi64_epi128(sum, by, 0x11), next, 0x96);
}

inline __m512i load_64(const uint8_t* from) { return _mm512_loadu_si512(from); }

// Of the four parts, the first three moved onto the last.
inline __m128i narrow(__m512i sum) {
  const __m512i by = _mm512_set_epi64(0, 0, kFold16.high, kFold16.low, kFold32.high, kFold32.low,
                                      kFold48.high, kFold48.low);
  const __m512i folded = fold(sum, by, _mm512_setzero_si512());
  __m128i rest = _mm512_extracti32x4_epi32(sum, 3);
  rest = _mm_xor_si128(rest, _mm512_castsi512_si128(folded));
  rest = _mm_xor_si128(rest, _mm512_extracti32x4_epi32(folded, 1));
  return _mm_xor_si128(rest, _mm512_extracti32x4_epi32(folded, 2));
}

inline uint32_t update_wide(uint32_t state, const uint8_t* data, size_t size) {
  const __m512i by_256 = broadcast(kFold256);
  const __m512i by_64 = broadcast(kFold64);
  __m512i sum_0 = _mm512_xor_si512(
      load_64(data), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int32_t>(state))));
  __m512i sum_1 = load_64(data + 64);
  __m512i sum_2 = load_64(data + 128);
  __m512i sum_3 = load_64(data + 192);
  for (data += 256, size -= 256; size >= 256; data += 256, size -= 256) {
    sum_0 = fold(sum_0, by_256, load_64(data));
    sum_1 = fold(sum_1, by_256, load_64(data + 64));
    sum_2 = fold(sum_2, by_256, load_64(data + 128));
    sum_3 = fold(sum_3, by_256, load_64(data + 192));
  }
  sum_1 = fold(sum_0, by_64, sum_1);
  sum_2 = fold(sum_1, by_64, sum_2);
  sum_3 = fold(sum_2, by_64, sum_3);
  for (; size >= 64; data += 64, size -= 64) sum_3 = fold(sum_3, by_64, load_64(data));
  return finish(narrow(sum_3), data, size);
}

#endif

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  if (size < 16) return update_sliced(state, data, size);
#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)
  if (size >= kMinWideBytes) return update_wide(state, data, size);
#endif
  return update_narrow(state, data, size);
}

#else

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  return update_sliced(state, data, size);
}

#endif

}  // namespace

uint32_t crc32_update(uint32_t state, const uint8_t* data, size_t size) noexcept {
  return update(state, data, size);
}

}  // namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL
