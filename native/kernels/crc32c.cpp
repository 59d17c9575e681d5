// CRC-32C three ways: slicing-by-8 tables, three interleaved streams of the CRC32 instruction, and
// folding with 512-bit carry-less products. Polynomials are bit-reflected: bit 31 is x^0.
#include "kernels/crc.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;

#if defined(__SSE4_2__) && defined(__PCLMUL__)

// Words of 8 bytes in one of the three streams of a block; one combination per block.
constexpr size_t kMaxStreamWords = 256;
constexpr size_t kMinBlockBytes = 192;

// to_shift[i] moves a register past i + 1 words: x^(64 * (i + 1) - 33). The 33 pays for what the
// carry-less product and the CRC32 instruction add.
struct ShiftTable {
  uint32_t to_shift[2 * kMaxStreamWords];
  constexpr ShiftTable() : to_shift() {
    uint32_t power = power_of_x<kPolynomial>(31);
    for (size_t i = 0; i < 2 * kMaxStreamWords; ++i) {
      to_shift[i] = power;
      for (int bit = 0; bit < 64; ++bit) power = times_x<kPolynomial>(power);
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

// Register after the 16 bytes.
inline uint32_t reduce(__m128i sum) {
  const uint64_t state = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(sum)));
  return static_cast<uint32_t>(
      _mm_crc32_u64(state, static_cast<uint64_t>(_mm_extract_epi64(sum, 1))));
}

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  if (size < kMinWideBytes) return update_streams(state, data, size);
  ByteQueue from{data, size};
  const __m128i sum = fold_wide<kPolynomial>(state, from);
  return update_streams(reduce(sum), from.data, from.size);
}

inline uint32_t update_and_copy(uint32_t state, const uint8_t* data, uint8_t* to, size_t size) {
  if (size < kMinWideBytes) return copy_pieces(state, data, to, size, update_streams);
  CopiedByteQueue from{data, size, to};
  const __m128i sum = fold_wide<kPolynomial>(state, from);
  return copy_pieces(reduce(sum), from.data, from.to, from.size, update_streams);
}

#else

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  return update_streams(state, data, size);
}

inline uint32_t update_and_copy(uint32_t state, const uint8_t* data, uint8_t* to, size_t size) {
  return copy_pieces(state, data, to, size, update_streams);
}

#endif
#else

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  return update_sliced<kPolynomial>(state, data, size);
}

inline uint32_t update_and_copy(uint32_t state, const uint8_t* data, uint8_t* to, size_t size) {
  return copy_pieces(state, data, to, size, update);
}

#endif

}  // namespace

uint32_t crc32c_update(uint32_t state, const uint8_t* data, size_t size) noexcept {
  return update(state, data, size);
}

uint32_t crc32c_copy(uint32_t state, const uint8_t* from, uint8_t* to, size_t size) noexcept {
  return update_and_copy(state, from, to, size);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
