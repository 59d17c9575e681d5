// What CRCs of 32 bits share, whatever their polynomial: slicing-by-8 tables, and folding with
// carry-less products. Polynomials are bit-reflected: bit 31 is x^0. Included by kernel sources:
// everything here is theirs alone, compiled for their level.
#pragma once

#include "kernels/kernels.hpp"

#if defined(__SSE4_2__) && defined(__PCLMUL__)
#include <immintrin.h>
#endif

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

template <uint32_t kPolynomial>
constexpr uint32_t times_x(uint32_t a) {
  return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0);
}

// by_byte[k][b]: register after byte b and k zero bytes.
template <uint32_t kPolynomial>
struct SliceTable {
  uint32_t by_byte[8][256];
  constexpr SliceTable() : by_byte() {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      uint32_t state = byte;
      for (int bit = 0; bit < 8; ++bit) state = times_x<kPolynomial>(state);
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

template <uint32_t kPolynomial>
constexpr SliceTable<kPolynomial> kSlice;

template <uint32_t kPolynomial>
inline uint32_t update_sliced(uint32_t state, const uint8_t* data, size_t size) {
  const auto& table = kSlice<kPolynomial>.by_byte;
  for (; size >= 8; data += 8, size -= 8) {
    const uint32_t low =
        state ^ (data[0] | static_cast<uint32_t>(data[1]) << 8 |
                 static_cast<uint32_t>(data[2]) << 16 | static_cast<uint32_t>(data[3]) << 24);
    state = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
            table[4][low >> 24] ^ table[3][data[4]] ^ table[2][data[5]] ^ table[1][data[6]] ^
            table[0][data[7]];
  }
  for (; size > 0; ++data, --size) state = (state >> 8) ^ table[0][(state ^ *data) & 0xFF];
  return state;
}

template <uint32_t kPolynomial>
constexpr uint32_t power_of_x(size_t exponent) {
  uint32_t power = 0x80000000;
  for (size_t i = 0; i < exponent; ++i) power = times_x<kPolynomial>(power);
  return power;
}

// Multipliers that move the two halves of 16 bytes ahead by some bytes.
struct FoldPair {
  int64_t low;
  int64_t high;
};

template <uint32_t kPolynomial, size_t kBytes>
constexpr FoldPair kFold = {power_of_x<kPolynomial>(8 * kBytes + 31),
                            power_of_x<kPolynomial>(8 * kBytes - 33)};

#if defined(__SSE4_2__) && defined(__PCLMUL__)

[[maybe_unused]] inline __m128i multiplier(const FoldPair& pair) {
  return _mm_set_epi64x(pair.high, pair.low);
}

// (sum moved ahead by the multiplier's distance) + next
[[maybe_unused]] inline __m128i fold(__m128i sum, __m128i by, __m128i next) {
  const __m128i low = _mm_clmulepi64_si128(sum, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(sum, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)
inline __m512i fold(__m512i sum, __m512i by, __m512i next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, by, 0x00),
                                   _mm512_clmulepi64_epi128(sum, by, 0x11), next, 0x96);
}
#endif

// Bytes that are taken from the front.
struct ByteQueue {
  const uint8_t* data;
  size_t size;

  template <typename Vector>
  Vector take() {
    Vector value;
    __builtin_memcpy(&value, data, sizeof value);
    data += sizeof value;
    size -= sizeof value;
    return value;
  }
};

// The same; what is taken is copied to `to` at once.
struct CopiedByteQueue {
  const uint8_t* data;
  size_t size;
  uint8_t* to;

  template <typename Vector>
  Vector take() {
    Vector value;
    __builtin_memcpy(&value, data, sizeof value);
    __builtin_memcpy(to, &value, sizeof value);
    data += sizeof value;
    to += sizeof value;
    size -= sizeof value;
    return value;
  }
};

// The vector that stands for all whole blocks of four vectors, at least one, when `sum_0` is the
// first of them and has been taken; four sums hide the latency of the products.
template <typename Vector, typename From>
inline Vector fold_blocks(Vector sum_0, Vector by_block, Vector by_vector, From& from) {
  Vector sum_1 = from.template take<Vector>();
  Vector sum_2 = from.template take<Vector>();
  Vector sum_3 = from.template take<Vector>();
  while (from.size >= 4 * sizeof(Vector)) {
    sum_0 = fold(sum_0, by_block, from.template take<Vector>());
    sum_1 = fold(sum_1, by_block, from.template take<Vector>());
    sum_2 = fold(sum_2, by_block, from.template take<Vector>());
    sum_3 = fold(sum_3, by_block, from.template take<Vector>());
  }
  sum_1 = fold(sum_0, by_vector, sum_1);
  sum_2 = fold(sum_1, by_vector, sum_2);
  return fold(sum_2, by_vector, sum_3);
}

#endif

// Copies in pieces that are still in the first-level cache when they are summed up.
template <typename Update>
[[maybe_unused]] inline uint32_t copy_pieces(uint32_t state, const uint8_t* from, uint8_t* to,
                                             size_t size, const Update& update) {
  constexpr size_t kPieceSize = 8192;
  while (size > 0) {
    const size_t piece = size < kPieceSize ? size : kPieceSize;
    __builtin_memcpy(to, from, piece);
    // Of the copy, not of the source: a mapped file may change in between.
    state = update(state, to, piece);
    from += piece;
    to += piece;
    size -= piece;
  }
  return state;
}

#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)

constexpr size_t kMinWideBytes = 256;

inline __m512i broadcast(const FoldPair& pair) { return _mm512_broadcast_i32x4(multiplier(pair)); }

// Of the four parts, the first three moved onto the last.
template <uint32_t kPolynomial>
inline __m128i narrow(__m512i sum) {
  constexpr FoldPair by_16 = kFold<kPolynomial, 16>;
  constexpr FoldPair by_32 = kFold<kPolynomial, 32>;
  constexpr FoldPair by_48 = kFold<kPolynomial, 48>;
  const __m512i by =
      _mm512_set_epi64(0, 0, by_16.high, by_16.low, by_32.high, by_32.low, by_48.high, by_48.low);
  const __m512i folded = fold(sum, by, _mm512_setzero_si512());
  __m128i rest = _mm512_extracti32x4_epi32(sum, 3);
  rest = _mm_xor_si128(rest, _mm512_castsi512_si128(folded));
  rest = _mm_xor_si128(rest, _mm512_extracti32x4_epi32(folded, 1));
  return _mm_xor_si128(rest, _mm512_extracti32x4_epi32(folded, 2));
}

// The 16 bytes that stand for all whole 64 bytes of the source, at least kMinWideBytes; less than
// 64 are left in it.
template <uint32_t kPolynomial, typename From>
inline __m128i fold_wide(uint32_t state, From& from) {
  const __m512i by_64 = broadcast(kFold<kPolynomial, 64>);
  const __m512i first =
      _mm512_xor_si512(from.template take<__m512i>(),
                       _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int32_t>(state))));
  __m512i sum = fold_blocks(first, broadcast(kFold<kPolynomial, 256>), by_64, from);
  while (from.size >= 64) sum = fold(sum, by_64, from.template take<__m512i>());
  return narrow<kPolynomial>(sum);
}

#endif

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
