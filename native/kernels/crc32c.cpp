// CRC-32C three ways: slicing-by-8 tables, three interleaved streams of the CRC32 instruction, and
// folding with 512-bit carry-less products. Polynomials are bit-reflected: bit 31 is x^0.
#include "kernels/kernels.hpp"

#if defined(__SSE4_2__) && defined(__PCLMUL__)
#include <immintrin.h>
#endif

namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;

constexpr uint32_t times_x(uint32_t a) { return (a >> 1) ^ ((a & 1) != 0 ? kPolynomial : 0); }

#if defined(__SSE4_2__) && defined(__PCLMUL__)

// Words of 8 bytes in one of the three streams of a block; one combination per block.
constexpr size_t kMaxStreamWords = 256;
constexpr size_t kMinBlockBytes = 192;

// to_shift[i] moves a register past i + 1 words: x^(64 * (i + 1) - 33). The 33 pays for what the
// carry-less product and the CRC32 instruction add.
struct ShiftTable {
  uint32_t to_shift[2 * kMaxStreamWords];
  constexpr ShiftTable() : to_shift() {
    uint32_t power = 0x80000000;
    for (int i = 0; i < 31; ++i) power = times_x(power);
    for (size_t i = 0; i < 2 * kMaxStreamWords; ++i) {
      to_shift[i] = power;
      for (int bit = 0; bit < 64; ++bit) power = times_x(power);
    }
  }
};
constexpr ShiftTable kShift;

inline uint64_t load_word(const uint8_t* from) {
  uint64_t word;
  __builtin_memcpy(&word, from, sizeof word);
  return word;
}

inline uint64_t shift(uint64_t state, size_t words) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<int64_t>(state)),
                           _mm_cvtsi32_si128(static_cast<int32_t>(kShift.to_shift[words - 1])), 0);
  return static_cast<uint64_t>(_mm_cvtsi128_si64(product));
}

// Three streams of `words` words each hide the latency of the instruction.
inline uint64_t update_block(uint64_t state, const uint8_t* data, size_t words) {
  const uint8_t* second = data + 8 * words;
  const uint8_t* third = second + 8 * words;
  uint64_t state_2 = 0;
  uint64_t state_3 = 0;
  for (size_t i = 0; i + 1 < words; ++i) {
    state = _mm_crc32_u64(state, load_word(data + 8 * i));
    state_2 = _mm_crc32_u64(state_2, load_word(second + 8 * i));
    state_3 = _mm_crc32_u64(state_3, load_word(third + 8 * i));
  }
  const size_t last = 8 * (words - 1);
  state = _mm_crc32_u64(state, load_word(data + last));
  state_2 = _mm_crc32_u64(state_2, load_word(second + last));
  return _mm_crc32_u64(state_3,
                       load_word(third + last) ^ shift(state, 2 * words) ^ shift(state_2, words));
}

inline uint32_t update_streams(uint32_t initial, const uint8_t* data, size_t size) {
  uint64_t state = initial;
  while (size >= kMinBlockBytes) {
    const size_t fitting = size / 24;
    const size_t words = fitting < kMaxStreamWords ? fitting : kMaxStreamWords;
    state = update_block(state, data, words);
    data += 24 * words;
    size -= 24 * words;
  }
  for (; size >= 8; data += 8, size -= 8) state = _mm_crc32_u64(state, load_word(data));
  uint32_t narrow = static_cast<uint32_t>(state);
  for (; size > 0; ++data, --size) narrow = _mm_crc32_u8(narrow, *data);
  return narrow;
}

#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)

constexpr size_t kFoldBytes = 256;
constexpr size_t kMinFoldBytes = 256;

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
constexpr FoldPair kFold256(256), kFold64(64), kFold48(48), kFold32(32), kFold16(16);

inline __m512i broadcast(const FoldPair& pair) {
  return _mm512_broadcast_i32x4(_mm_set_epi64x(pair.high, pair.low));
}

// (sum moved ahead by the multiplier's distance) + next
inline __m512i fold(__m512i sum, __m512i multiplier, __m512i next) {
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, multiplier, 0x00),
                                   _mm512_clmulepi64_epi128(sum, multiplier, 0x11), next, 0x96);
}

inline __m512i load(const uint8_t* from) { return _mm512_loadu_si512(from); }

inline uint32_t reduce(__m512i sum) {
  const __m512i multiplier = _mm512_set_epi64(0, 0, kFold16.high, kFold16.low, kFold32.high,
                                              kFold32.low, kFold48.high, kFold48.low);
  const __m512i folded = fold(sum, multiplier, _mm512_setzero_si512());
  __m128i rest = _mm512_extracti32x4_epi32(sum, 3);
  rest = _mm_xor_si128(rest, _mm512_castsi512_si128(folded));
  rest = _mm_xor_si128(rest, _mm512_extracti32x4_epi32(folded, 1));
  rest = _mm_xor_si128(rest, _mm512_extracti32x4_epi32(folded, 2));
  const uint64_t state = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(rest)));
  return static_cast<uint32_t>(
      _mm_crc32_u64(state, static_cast<uint64_t>(_mm_extract_epi64(rest, 1))));
}

inline uint32_t update_folding(uint32_t state, const uint8_t* data, size_t size) {
  const __m512i by_256 = broadcast(kFold256);
  const __m512i by_64 = broadcast(kFold64);
  __m512i sum_0 = _mm512_xor_si512(
      load(data), _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int32_t>(state))));
  __m512i sum_1 = load(data + 64);
  __m512i sum_2 = load(data + 128);
  __m512i sum_3 = load(data + 192);
  data += kFoldBytes;
  size -= kFoldBytes;
  for (; size >= kFoldBytes; data += kFoldBytes, size -= kFoldBytes) {
    sum_0 = fold(sum_0, by_256, load(data));
    sum_1 = fold(sum_1, by_256, load(data + 64));
    sum_2 = fold(sum_2, by_256, load(data + 128));
    sum_3 = fold(sum_3, by_256, load(data + 192));
  }
  sum_1 = fold(sum_0, by_64, sum_1);
  sum_2 = fold(sum_1, by_64, sum_2);
  sum_3 = fold(sum_2, by_64, sum_3);
  for (; size >= 64; data += 64, size -= 64) sum_3 = fold(sum_3, by_64, load(data));
  return update_streams(reduce(sum_3), data, size);
}

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  return size >= kMinFoldBytes ? update_folding(state, data, size)
                               : update_streams(state, data, size);
}

#else

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  return update_streams(state, data, size);
}

#endif
#else

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

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  for (; size >= 8; data += 8, size -= 8) state = update_word(state, data);
  for (; size > 0; ++data, --size) {
    state = (state >> 8) ^ kSlice.by_byte[0][(state ^ *data) & 0xFF];
  }
  return state;
}

#endif

}  // namespace

uint32_t crc32c_update(uint32_t state, const uint8_t* data, size_t size) noexcept {
  return update(state, data, size);
}

}  // namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL
