// CRC-32 (zlib's polynomial) three ways: slicing-by-8 tables, folding with 128-bit and with 512-bit
// carry-less products. Polynomials are bit-reflected: bit 31 is x^0.
#include "kernels/crc.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;

#if defined(__SSE4_2__) && defined(__PCLMUL__)

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

constexpr int64_t kTo96 = int64_t{power_of_x<kPolynomial>(96)} << 1;
constexpr int64_t kTo64 = int64_t{power_of_x<kPolynomial>(64)} << 1;
constexpr int64_t kInverse = static_cast<int64_t>(reciprocal());
constexpr int64_t kDivisor = int64_t{kPolynomial} << 1 | 1;

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
inline uint32_t finish(__m128i sum, ByteQueue from) {
  const __m128i by_16 = multiplier(kFold<kPolynomial, 16>);
  while (from.size >= 16) sum = fold(sum, by_16, from.take<__m128i>());
  return update_sliced<kPolynomial>(reduce(sum), from.data, from.size);
}

inline uint32_t update_narrow(uint32_t state, ByteQueue from) {
  const __m128i first =
      _mm_xor_si128(from.take<__m128i>(), _mm_cvtsi32_si128(static_cast<int32_t>(state)));
  if (from.size < 48) return finish(first, from);
  const __m128i by_64 = multiplier(kFold<kPolynomial, 64>);
  const __m128i by_16 = multiplier(kFold<kPolynomial, 16>);
  const __m128i sum = fold_blocks(first, by_64, by_16, from);
  return finish(sum, from);
}

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  if (size < 16) return update_sliced<kPolynomial>(state, data, size);
#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)
  if (size >= kMinWideBytes) {
    ByteQueue from{data, size};
    const __m128i sum = fold_wide<kPolynomial>(state, from);
    return finish(sum, from);
  }
#endif
  return update_narrow(state, {data, size});
}

#else

inline uint32_t update(uint32_t state, const uint8_t* data, size_t size) {
  return update_sliced<kPolynomial>(state, data, size);
}

#endif

inline uint32_t update_and_copy(uint32_t state, const uint8_t* data, uint8_t* to, size_t size) {
#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)
  if (size >= kMinWideBytes) {
    CopiedByteQueue from{data, size, to};
    const __m128i sum = fold_wide<kPolynomial>(state, from);
    __builtin_memcpy(from.to, from.data, from.size);
    return finish(sum, {from.to, from.size});
  }
#endif
  return copy_pieces(state, data, to, size, update);
}

#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)

// Offsets that are taken from the front, eight at a time; `signs` are those of all so far and of
// the distances between them.
struct OffsetQueue {
  const uint8_t* data;
  size_t size;
  __m512i before;
  __m512i signs;

  template <typename Vector>
  Vector take() {
    Vector value;
    __builtin_memcpy(&value, data, sizeof value);
    const __m512i distances = _mm512_sub_epi64(value, _mm512_alignr_epi64(value, before, 7));
    signs = _mm512_ternarylogic_epi64(signs, value, distances, 0xFE);
    before = value;
    data += sizeof value;
    size -= sizeof value;
    return value;
  }
};

#endif

}  // namespace

uint32_t crc32_update(uint32_t state, const uint8_t* data, size_t size) noexcept {
  return update(state, data, size);
}

uint32_t crc32_copy(uint32_t state, const uint8_t* from, uint8_t* to, size_t size) noexcept {
  return update_and_copy(state, from, to, size);
}

#if defined(__AVX512F__) && defined(__VPCLMULQDQ__)

uint32_t crc32_offsets(uint32_t state, uint64_t before, const uint8_t* table, size_t count,
                       uint64_t* signs) noexcept {
  if (8 * count < kMinWideBytes) {
    *signs = offset_signs(before, table, count);
    return update(state, table, 8 * count);
  }
  const __m512i first = _mm512_set1_epi64(static_cast<int64_t>(before));
  OffsetQueue from{table, 8 * count, first, first};
  const __m128i sum = fold_wide<kPolynomial>(state, from);
  uint64_t last;
  __builtin_memcpy(&last, from.data - sizeof last, sizeof last);
  *signs = static_cast<uint64_t>(_mm512_reduce_or_epi64(from.signs)) |
           offset_signs(last, from.data, from.size / 8);
  return finish(sum, {from.data, from.size});
}

#endif

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
