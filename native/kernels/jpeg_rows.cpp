// Entropy-coded rows of MCUs to samples: Huffman codes of up to four rows in lockstep, then the
// accurate inverse DCT of libjpeg (jidctint), bit for bit, of four blocks at a time.
//
// Lanes go from block to block together. One that is done with its block takes an entry of the
// table that changes nothing until the others are done too: one hard to predict branch for four
// blocks. The number of bits that a lane has used up is that of the zeros below its lowest one.
#include "kernels/kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL {
namespace {

#define PENSTOCK_INLINE inline __attribute__((always_inline))

constexpr int kStepsPerRefill = 5;  // of at most 11 bits each, of 56
constexpr size_t kLastCoefficient = 63;

struct Reader {
  uint64_t bits;  // the next one at the top, a one below the last
  const uint8_t* next;
};

PENSTOCK_INLINE uint64_t load_bits(const uint8_t* from) {
  uint64_t value;
  __builtin_memcpy(&value, from, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value | 1;
}

PENSTOCK_INLINE void start(Reader* reader, const uint8_t* bytes, uint64_t bit) {
  reader->next = bytes + bit / 8;
  reader->bits = load_bits(reader->next) << bit % 8;
}

// At least 56 bits are there afterwards.
PENSTOCK_INLINE void refill(Reader* reader) {
  const unsigned used = static_cast<unsigned>(__builtin_ctzll(reader->bits));
  reader->next += used / 8;
  reader->bits = load_bits(reader->next) << used % 8;
}

PENSTOCK_INLINE uint64_t position_of(const Reader* reader, const uint8_t* bytes) {
  return static_cast<uint64_t>(reader->next - bytes) * 8 +
         static_cast<unsigned>(__builtin_ctzll(reader->bits));
}

// The value of `size` bits at the top: the lower half of the numbers stands for negative ones.
PENSTOCK_INLINE int32_t value_of(uint64_t bits, uint32_t size) {
  const int32_t number = static_cast<int32_t>(bits >> 1 >> (63 - size));
  const int32_t is_negative = static_cast<int32_t>(~bits >> 63);
  return number + (-is_negative & (1 - (1 << size)));
}

PENSTOCK_INLINE int32_t read_dc(Reader* reader, const JpegCodes* codes, bool* is_wrong) {
  refill(reader);
  const uint32_t entry = codes->entries[reader->bits >> (64 - kDcBits)];
  uint32_t length = entry >> 8 & 255;
  uint32_t size = entry >> 16;
  if (__builtin_expect(entry == 0, 0)) {
    length = search_code(codes, reader->bits, &size);
    *is_wrong |= length == 0;
    size &= 15;
  }
  const int32_t value = value_of(reader->bits << length, size);
  reader->bits = reader->bits << length << size;
  return value;
}

// An entry for a symbol whose value, or even code, does not fit the table. Refilled before.
__attribute__((noinline)) uint32_t long_entry(const JpegCodes* codes, uint64_t bits, uint32_t entry,
                                              bool* is_wrong) {
  uint32_t advance = entry >> 8 & 255;
  uint32_t length = entry >> 16 & 255;
  uint32_t size = entry >> 24;
  if (entry == 0) {
    uint32_t symbol = 0;
    length = search_code(codes, bits, &symbol);
    *is_wrong |= length == 0;
    size = symbol & 15;
    advance = (symbol >> 4) + 1;
    if (size == 0) return length | (symbol >> 4 == 15 ? 16 : kEndOfBlock) << 8;
  }
  const uint32_t value = static_cast<uint32_t>(value_of(bits << length, size));
  return (length + size) | advance << 8 | value << 16;
}

// The fields of an entry: loads are cheaper than shifts of what was loaded.
struct Entry {
  const uint8_t* at;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  PENSTOCK_INLINE uint32_t length() const { return at[0]; }
  PENSTOCK_INLINE uint32_t advance() const { return at[1]; }
  PENSTOCK_INLINE int16_t value() const {
    int16_t value;
    __builtin_memcpy(&value, at + 2, sizeof value);
    return value;
  }
#else
  PENSTOCK_INLINE uint32_t length() const { return all() & 255; }
  PENSTOCK_INLINE uint32_t advance() const { return all() >> 8 & 255; }
  PENSTOCK_INLINE int16_t value() const { return static_cast<int16_t>(all() >> 16); }
#endif
  PENSTOCK_INLINE uint32_t all() const {
    uint32_t entry;
    __builtin_memcpy(&entry, at, sizeof entry);
    return entry;
  }
};

// One symbol that the table does not decide.
PENSTOCK_INLINE void take_long(Reader* reader, uint64_t* bits, size_t* last, uint32_t entry,
                               const JpegCodes* codes, int16_t* block, bool* is_wrong) {
  reader->bits = *bits;
  refill(reader);
  entry = long_entry(codes, reader->bits, entry, is_wrong);
  reader->bits <<= entry & 63;
  refill(reader);
  *bits = reader->bits;
  *last += entry >> 8 & 255;
  block[codes->places[*last]] = static_cast<int16_t>(entry >> 16);
}

// All coefficients but the first of a block in each lane. The last index grows by one with each
// step that a lane waits, to below 64 + 62 + 65, and a place is known for every one below 512.
template <int kLanes>
PENSTOCK_INLINE void read_ac(Reader* readers, const JpegCodes* codes, int16_t* blocks,
                             bool* is_wrong) {
  uint64_t bits[kLanes];
  size_t last[kLanes];
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; ++i) {
    bits[i] = readers[i].bits;
    last[i] = 0;
  }
  size_t least;
  do {
#pragma GCC unroll 4
    for (int i = 0; i < kLanes; ++i) {
      readers[i].bits = bits[i];
      refill(&readers[i]);
      bits[i] = readers[i].bits;
    }
#pragma GCC unroll 5
    for (int step = 0; step < kStepsPerRefill; ++step) {
#pragma GCC unroll 4
      for (int i = 0; i < kLanes; ++i) {
        size_t at = bits[i] >> (64 - kAcBits);
        at = last[i] >= kLastCoefficient ? size_t{1} << kAcBits : at;
        const Entry entry{reinterpret_cast<const uint8_t*>(codes->entries + at)};
        const uint32_t length = entry.length();
        int16_t* const block = blocks + static_cast<size_t>(i) * kLaneSize;
        if (__builtin_expect(length == 0, 0)) {
          take_long(&readers[i], &bits[i], &last[i], entry.all(), codes, block, is_wrong);
        } else {
          bits[i] <<= length & 63;
          last[i] += entry.advance();
          block[codes->places[last[i]]] = entry.value();
        }
      }
    }
    least = last[0];
#pragma GCC unroll 4
    for (int i = 1; i < kLanes; ++i) least = last[i] < least ? last[i] : least;
  } while (least < kLastCoefficient);
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; ++i) readers[i].bits = bits[i];
}

struct State {
  Reader readers[kJpegLanes];
  int32_t predictors[kJpegLanes][3];
  size_t until_restart[kJpegLanes];
  bool is_wrong;
};

template <int kLanes>
__attribute__((noinline)) void read_block(State* state, const JpegRows* rows, size_t component,
                                          int16_t* blocks) {
  bool is_wrong = false;
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; ++i) {
    int32_t* predictor = &state->predictors[i][component];
    *predictor += read_dc(&state->readers[i], rows->dc[component], &is_wrong);
    is_wrong |= *predictor < -kMaxDequantised || *predictor > kMaxDequantised;
    blocks[static_cast<size_t>(i) * kLaneSize] = static_cast<int16_t>(*predictor);
  }
  read_ac<kLanes>(state->readers, rows->ac[component], blocks, &is_wrong);
  state->is_wrong |= is_wrong;
}

void restart_lanes(State* state, const JpegRows* rows) {
  for (size_t i = 0; i < rows->lane_count; ++i) {
    if (state->until_restart[i] == 0) {
      const uint8_t* bytes = rows->lanes[i].bytes;
      start(&state->readers[i], bytes, (position_of(&state->readers[i], bytes) + 7) / 8 * 8);
      for (int32_t& predictor : state->predictors[i]) predictor = 0;
      state->until_restart[i] = rows->restart_interval;
    }
    --state->until_restart[i];
  }
}

// The MCU's blocks go to column `column` of the groups.
template <int kLanes>
PENSTOCK_INLINE bool read_mcu(State* state, const JpegRows* rows, size_t column) {
  if (rows->restart_interval != 0) restart_lanes(state, rows);
  for (size_t y = 0; y < rows->v; ++y) {
    for (size_t x = 0; x < rows->h; ++x) {
      const size_t at = column * rows->h + x;
      const size_t group = y * rows->h + at / kGroupBlocks;
      read_block<kLanes>(state, rows, 0,
                         rows->coefficients + group * kGroupSize + at % kGroupBlocks * 8);
    }
  }
  for (size_t c = 1; c < rows->components; ++c) {
    const size_t group = rows->h * rows->v + c - 1;
    read_block<kLanes>(state, rows, c, rows->coefficients + group * kGroupSize + column * 8);
  }
  bool is_inside = !state->is_wrong;
  for (int i = 0; i < kLanes; ++i) is_inside &= state->readers[i].next <= rows->lanes[i].end;
  return is_inside;
}

// ---- The inverse DCT. All its constants are sums of those of jidctint, in 1/8192; in exact
// arithmetic the order of additions does not matter.

constexpr int kFirstShift = 11;
constexpr int kSecondShift = 18;

#if defined(__AVX2__)

#if defined(__AVX512VNNI__)
using Vector = __m512i;
#define PENSTOCK_V(name) _mm512_##name
PENSTOCK_INLINE Vector load(const int16_t* from) { return _mm512_load_si512(from); }
PENSTOCK_INLINE void clear(int16_t* to) { _mm512_store_si512(to, _mm512_setzero_si512()); }
PENSTOCK_INLINE Vector either(Vector a, Vector b) { return _mm512_or_si512(a, b); }
PENSTOCK_INLINE bool is_zero(Vector v) { return _mm512_test_epi32_mask(v, v) == 0; }
PENSTOCK_INLINE Vector dot(Vector sum, Vector pairs, Vector weights) {
  return _mm512_dpwssd_epi32(sum, pairs, weights);
}
#else
using Vector = __m256i;
#define PENSTOCK_V(name) _mm256_##name
PENSTOCK_INLINE Vector load(const int16_t* from) {
  return _mm256_load_si256(reinterpret_cast<const Vector*>(from));
}
PENSTOCK_INLINE void clear(int16_t* to) {
  _mm256_store_si256(reinterpret_cast<Vector*>(to), _mm256_setzero_si256());
}
PENSTOCK_INLINE Vector either(Vector a, Vector b) { return _mm256_or_si256(a, b); }
PENSTOCK_INLINE bool is_zero(Vector v) { return _mm256_testz_si256(v, v) != 0; }
PENSTOCK_INLINE Vector dot(Vector sum, Vector pairs, Vector weights) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, weights));
}
#endif

constexpr size_t kVectorBlocks = sizeof(Vector) / 16;

PENSTOCK_INLINE Vector pair(int a, int b) {
  return PENSTOCK_V(set1_epi32)(
      static_cast<int>(static_cast<uint32_t>(b) << 16 | (static_cast<uint32_t>(a) & 0xFFFF)));
}

PENSTOCK_INLINE Vector beyond(Vector values, Vector limits) {
  return PENSTOCK_V(subs_epu16)(PENSTOCK_V(abs_epi16)(values), limits);
}

// One half of the columns of each block, widened to 32 bits.
template <bool kIsHigh>
PENSTOCK_INLINE Vector interleave(Vector a, Vector b) {
  return kIsHigh ? PENSTOCK_V(unpackhi_epi16)(a, b) : PENSTOCK_V(unpacklo_epi16)(a, b);
}

template <int kShift, bool kIsHigh>
PENSTOCK_INLINE void transform_half(const Vector* v, Vector* out) {
  const Vector rounding = PENSTOCK_V(set1_epi32)(1 << (kShift - 1));
  const Vector p04 = interleave<kIsHigh>(v[0], v[4]);
  const Vector p26 = interleave<kIsHigh>(v[2], v[6]);
  const Vector p13 = interleave<kIsHigh>(v[1], v[3]);
  const Vector p57 = interleave<kIsHigh>(v[5], v[7]);
  const Vector t0 = dot(rounding, p04, pair(8192, 8192));
  const Vector t1 = dot(rounding, p04, pair(8192, -8192));
  const Vector t2 = PENSTOCK_V(madd_epi16)(p26, pair(4433, -10704));
  const Vector t3 = PENSTOCK_V(madd_epi16)(p26, pair(10703, 4433));
  const Vector even[4] = {PENSTOCK_V(add_epi32)(t0, t3), PENSTOCK_V(add_epi32)(t1, t2),
                          PENSTOCK_V(sub_epi32)(t1, t2), PENSTOCK_V(sub_epi32)(t0, t3)};
  const Vector odd[4] = {
      dot(PENSTOCK_V(madd_epi16)(p13, pair(11363, 9633)), p57, pair(6437, 2260)),
      dot(PENSTOCK_V(madd_epi16)(p13, pair(9633, -2259)), p57, pair(-11362, -6436)),
      dot(PENSTOCK_V(madd_epi16)(p13, pair(6437, -11362)), p57, pair(2261, 9633)),
      dot(PENSTOCK_V(madd_epi16)(p13, pair(2260, -6436)), p57, pair(9633, -11363))};
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    out[i] = PENSTOCK_V(srai_epi32)(PENSTOCK_V(add_epi32)(even[i], odd[i]), kShift);
    out[7 - i] = PENSTOCK_V(srai_epi32)(PENSTOCK_V(sub_epi32)(even[i], odd[i]), kShift);
  }
}

template <int kShift>
PENSTOCK_INLINE void transform(Vector* v) {
  Vector low[8];
  Vector high[8];
  transform_half<kShift, false>(v, low);
  transform_half<kShift, true>(v, high);
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) v[i] = PENSTOCK_V(packs_epi32)(low[i], high[i]);
}

// Of each block by itself.
PENSTOCK_INLINE void transpose(Vector* v) {
  Vector a[8];
  Vector b[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    a[2 * i] = PENSTOCK_V(unpacklo_epi16)(v[2 * i], v[2 * i + 1]);
    a[2 * i + 1] = PENSTOCK_V(unpackhi_epi16)(v[2 * i], v[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    b[i] = PENSTOCK_V(unpacklo_epi32)(a[i], a[i + 2]);
    b[i + 1] = PENSTOCK_V(unpackhi_epi32)(a[i], a[i + 2]);
    b[i + 2] = PENSTOCK_V(unpacklo_epi32)(a[i + 1], a[i + 3]);
    b[i + 3] = PENSTOCK_V(unpackhi_epi32)(a[i + 1], a[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[2 * i] = PENSTOCK_V(unpacklo_epi64)(b[i], b[i + 4]);
    v[2 * i + 1] = PENSTOCK_V(unpackhi_epi64)(b[i], b[i + 4]);
  }
}

PENSTOCK_INLINE Vector to_levels(Vector a, Vector b) {
  return PENSTOCK_V(add_epi8)(PENSTOCK_V(packs_epi16)(a, b),
                              PENSTOCK_V(set1_epi8)(static_cast<char>(0x80)));
}

#if defined(__AVX512VNNI__)

// Columns of four blocks to rows: first four columns of four rows a vector, then eight.
struct Permutations {
  uint8_t columns[2][64];
  uint32_t rows[2][16];
};

constexpr Permutations make_permutations() {
  Permutations p{};
  for (int half = 0; half < 2; ++half) {
    for (int i = 0; i < 64; ++i) {
      const int block = i / 16;
      const int y = i / 4 % 4 + 4 * half;
      const int x = i % 4;
      p.columns[half][i] = static_cast<uint8_t>(x / 2 * 64 + block * 16 + x % 2 * 8 + y);
    }
    for (int i = 0; i < 16; ++i) {
      p.rows[half][i] = static_cast<uint32_t>(i % 2 * 16 + i / 2 % 4 * 4 + i / 8 + 2 * half);
    }
  }
  return p;
}

alignas(64) constexpr Permutations kPermutations = make_permutations();

PENSTOCK_INLINE void store_two(uint8_t* out, size_t stride, __m512i rows) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(rows));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + stride), _mm512_extracti64x4_epi64(rows, 1));
}

// v[x] has column x of each block.
PENSTOCK_INLINE void store_levels(const Vector* v, uint8_t* out, size_t stride) {
  const __m512i p01 = to_levels(v[0], v[1]);
  const __m512i p23 = to_levels(v[2], v[3]);
  const __m512i p45 = to_levels(v[4], v[5]);
  const __m512i p67 = to_levels(v[6], v[7]);
#pragma GCC unroll 2
  for (size_t half = 0; half < 2; ++half) {
    const __m512i columns = _mm512_loadu_si512(kPermutations.columns[half]);
    const __m512i left = _mm512_permutex2var_epi8(p01, columns, p23);
    const __m512i right = _mm512_permutex2var_epi8(p45, columns, p67);
    const __m512i first = _mm512_loadu_si512(kPermutations.rows[0]);
    const __m512i second = _mm512_loadu_si512(kPermutations.rows[1]);
    uint8_t* const at = out + 4 * half * stride;
    store_two(at, stride, _mm512_permutex2var_epi32(left, first, right));
    store_two(at + 2 * stride, stride, _mm512_permutex2var_epi32(left, second, right));
  }
}

#else

PENSTOCK_INLINE void store_levels(Vector* v, uint8_t* out, size_t stride) {
  transpose(v);
#pragma GCC unroll 4
  for (size_t y = 0; y < 8; y += 2) {
    const __m256i rows = _mm256_permute4x64_epi64(to_levels(v[y], v[y + 1]), 0xD8);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + y * stride), _mm256_castsi256_si128(rows));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + (y + 1) * stride),
                     _mm256_extracti128_si256(rows, 1));
  }
}

#endif

// Of as many blocks as a vector has room for. Clears the coefficients.
PENSTOCK_INLINE bool transform_blocks(int16_t* coefficients, const int16_t* quantiser,
                                      const int16_t* limits, uint8_t* out, size_t stride) {
  Vector v[8];
  Vector wild = PENSTOCK_V(set1_epi32)(0);
#pragma GCC unroll 8
  for (size_t y = 0; y < 8; ++y) {
    const Vector row = load(coefficients + y * kGroupWidth);
    wild = either(wild, beyond(row, load(limits + y * kGroupWidth)));
    v[y] = PENSTOCK_V(mullo_epi16)(row, load(quantiser + y * kGroupWidth));
    clear(coefficients + y * kGroupWidth);
  }
  transform<kFirstShift>(v);
  const Vector most = PENSTOCK_V(set1_epi16)(kMaxDequantised);
#pragma GCC unroll 8
  for (size_t y = 0; y < 8; ++y) wild = either(wild, beyond(v[y], most));
  transpose(v);
  transform<kSecondShift>(v);
  store_levels(v, out, stride);
  return is_zero(wild);
}

__attribute__((noinline)) bool transform_group(int16_t* coefficients, const int16_t* quantiser,
                                               const int16_t* limits, uint8_t* out, size_t stride) {
  bool is_tame = true;
  for (size_t block = 0; block < kGroupBlocks; block += kVectorBlocks) {
    const size_t at = 8 * block;
    is_tame &= transform_blocks(coefficients + at, quantiser + at, limits + at, out + at, stride);
  }
  return is_tame;
}

#else

// Values `step` apart, in place.
void transform(int32_t* values, size_t step, int shift) {
  int32_t v[8];
  for (size_t i = 0; i < 8; ++i) v[i] = values[i * step];
  const int32_t rounding = 1 << (shift - 1);
  const int32_t t0 = rounding + 8192 * (v[0] + v[4]);
  const int32_t t1 = rounding + 8192 * (v[0] - v[4]);
  const int32_t t2 = 4433 * v[2] - 10704 * v[6];
  const int32_t t3 = 10703 * v[2] + 4433 * v[6];
  const int32_t even[4] = {t0 + t3, t1 + t2, t1 - t2, t0 - t3};
  const int32_t odd[4] = {11363 * v[1] + 9633 * v[3] + 6437 * v[5] + 2260 * v[7],
                          9633 * v[1] - 2259 * v[3] - 11362 * v[5] - 6436 * v[7],
                          6437 * v[1] - 11362 * v[3] + 2261 * v[5] + 9633 * v[7],
                          2260 * v[1] - 6436 * v[3] + 9633 * v[5] - 11363 * v[7]};
  for (size_t i = 0; i < 4; ++i) {
    values[i * step] = (even[i] + odd[i]) >> shift;
    values[(7 - i) * step] = (even[i] - odd[i]) >> shift;
  }
}

bool is_beyond(int32_t value, int32_t limit) { return value < -limit || value > limit; }

bool transform_block(int16_t* coefficients, const int16_t* quantiser, const int16_t* limits,
                     uint8_t* out, size_t stride) {
  int32_t values[64];
  for (size_t i = 0; i < 64; ++i) {
    const size_t at = i / 8 * kGroupWidth + i % 8;
    if (is_beyond(coefficients[at], limits[at])) return false;
    values[i] = coefficients[at] * quantiser[at];
    coefficients[at] = 0;
  }
  for (size_t x = 0; x < 8; ++x) transform(values + x, 8, kFirstShift);
  for (const int32_t value : values) {
    if (is_beyond(value, kMaxDequantised)) return false;
  }
  for (size_t y = 0; y < 8; ++y) {
    transform(values + 8 * y, 1, kSecondShift);
    for (size_t x = 0; x < 8; ++x) {
      const int32_t level = values[8 * y + x] + 128;
      out[y * stride + x] = static_cast<uint8_t>(level < 0 ? 0 : level > 255 ? 255 : level);
    }
  }
  return true;
}

bool transform_group(int16_t* coefficients, const int16_t* quantiser, const int16_t* limits,
                     uint8_t* out, size_t stride) {
  bool is_tame = true;
  for (size_t at = 0; at < kGroupWidth; at += 8) {
    is_tame &= transform_block(coefficients + at, quantiser + at, limits + at, out + at, stride);
  }
  return is_tame;
}

#endif

// Four MCUs of each lane to samples.
bool transform_mcus(const JpegRows* rows, size_t first) {
  bool is_tame = true;
  for (size_t lane = 0; lane < rows->lane_count; ++lane) {
    int16_t* group = rows->coefficients + lane * kLaneSize;
    for (size_t c = 0; c < rows->components; ++c) {
      const size_t h = c == 0 ? rows->h : 1;
      const size_t v = c == 0 ? rows->v : 1;
      const size_t stride = rows->strides[c];
      for (size_t y = 0; y < v; ++y) {
        uint8_t* out = rows->planes[c] + (lane * v + y) * 8 * stride + first * 8 * h;
        for (size_t x = 0; x < h; ++x, group += kGroupSize, out += kGroupWidth) {
          is_tame &= transform_group(group, rows->quantisers[c], rows->limits[c], out, stride);
        }
      }
    }
  }
  return is_tame;
}

void forget_skipped(const JpegRows* rows) {
  for (size_t lane = 0; lane < rows->lane_count; ++lane) {
    __builtin_memset(rows->coefficients + lane * kLaneSize, 0, kLaneSize * sizeof(int16_t));
  }
}

template <int kLanes>
bool decode_rows(JpegRows* rows) {
  State state;
  state.is_wrong = false;
  for (size_t i = 0; i < static_cast<size_t>(kLanes); ++i) {
    const JpegLane& lane = rows->lanes[i];
    start(&state.readers[i], lane.bytes, lane.first_bit);
    for (size_t c = 0; c < 3; ++c) state.predictors[i][c] = lane.predictors[c];
    state.until_restart[i] = lane.until_restart;
  }
  for (size_t x = 0; x < rows->skipped; ++x) {
    if (!read_mcu<kLanes>(&state, rows, 0)) return false;
  }
  if (rows->skipped > 0) forget_skipped(rows);
  for (size_t x = 0; x < rows->mcus; x += kGroupBlocks) {
    for (size_t i = 0; i < kGroupBlocks && x + i < rows->mcus; ++i) {
      if (!read_mcu<kLanes>(&state, rows, i)) return false;
    }
    if (!transform_mcus(rows, x)) return false;
  }
  for (size_t i = 0; i < static_cast<size_t>(kLanes); ++i) {
    rows->lanes[i].position = position_of(&state.readers[i], rows->lanes[i].bytes);
  }
  return true;
}

}  // namespace

bool decode_jpeg_rows(JpegRows* rows) noexcept {
  switch (rows->lane_count) {
    case 1:
      return decode_rows<1>(rows);
    case 2:
      return decode_rows<2>(rows);
    case 3:
      return decode_rows<3>(rows);
    case 4:
      return decode_rows<4>(rows);
    default:
      return false;
  }
}

}  // namespace penstock::kernels::PENSTOCK_KERNEL_LEVEL
