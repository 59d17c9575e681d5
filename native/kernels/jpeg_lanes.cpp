// Entropy-coded rows of MCUs to coefficients: Huffman codes of up to four rows in lockstep.
//
// Lanes go from block to block together. One that is done with its block takes an entry of the
// table that changes nothing until the others are done too: one hard to predict branch for four
// blocks. The number of bits that a lane has used up is that of the zeros below its lowest one.
//
// Only compiled with and without BMI2: with vector instructions to choose from, the compiler keeps
// values in registers that are far from the integer units.
#include "kernels/kernels.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

#define HEADRACE_INLINE inline __attribute__((always_inline))

constexpr int kStepsPerRefill = 5;  // of at most 11 bits each, of 56
constexpr size_t kLastCoefficient = 63;

using Reader = JpegReader;

HEADRACE_INLINE uint64_t load_bits(const uint8_t* from) {
  uint64_t value;
  __builtin_memcpy(&value, from, sizeof value);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value | 1;
}

HEADRACE_INLINE void start(Reader* reader, const uint8_t* bytes, uint64_t bit) {
  reader->next = bytes + bit / 8;
  reader->bits = load_bits(reader->next) << bit % 8;
}

// At least 56 bits are there afterwards.
HEADRACE_INLINE void refill(Reader* reader) {
  const unsigned used = static_cast<unsigned>(__builtin_ctzll(reader->bits));
  reader->next += used / 8;
  reader->bits = load_bits(reader->next) << used % 8;
}

HEADRACE_INLINE uint64_t position_of(const Reader* reader, const uint8_t* bytes) {
  return static_cast<uint64_t>(reader->next - bytes) * 8 +
         static_cast<unsigned>(__builtin_ctzll(reader->bits));
}

// The value of `size` bits at the top: the lower half of the numbers stands for negative ones.
HEADRACE_INLINE int32_t value_of(uint64_t bits, uint32_t size) {
  const int32_t number = static_cast<int32_t>(bits >> 1 >> (63 - size));
  const int32_t is_negative = static_cast<int32_t>(~bits >> 63);
  return number + (-is_negative & (1 - (1 << size)));
}

HEADRACE_INLINE int32_t read_dc(Reader* reader, const JpegCodes* codes, bool* is_wrong) {
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

// Keeps the compiler from holding sums of this value and others in registers of their own, of which
// there are too few: they are cheap to form in each address.
template <typename T>
HEADRACE_INLINE void forget_sums_of(T& value) {
  asm("" : "+r"(value));
}

// The fields of an entry. Loads are cheaper than shifts of what was loaded.
HEADRACE_INLINE uint32_t length_at(const JpegCodes* codes, size_t at) {
  return codes->entries[at] & 255;
}
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
HEADRACE_INLINE uint32_t advance_at(const JpegCodes* codes, size_t at) {
  return reinterpret_cast<const uint8_t*>(codes->entries)[4 * at + 1];
}
HEADRACE_INLINE int16_t value_at(const JpegCodes* codes, size_t at) {
  int16_t value;
  __builtin_memcpy(&value, reinterpret_cast<const uint8_t*>(codes->entries) + 4 * at + 2,
                   sizeof value);
  return value;
}
#else
HEADRACE_INLINE uint32_t advance_at(const JpegCodes* codes, size_t at) {
  return codes->entries[at] >> 8 & 255;
}
HEADRACE_INLINE int16_t value_at(const JpegCodes* codes, size_t at) {
  return static_cast<int16_t>(codes->entries[at] >> 16);
}
#endif

template <int kLanes>
HEADRACE_INLINE bool all_are_done(const size_t* last) {
  size_t least = last[0];
#pragma GCC unroll 4
  for (int i = 1; i < kLanes; ++i) least = last[i] < least ? last[i] : least;
  return least >= kLastCoefficient;
}

// One symbol whose value does not fit the table. Returns the lane's bits, refilled.
HEADRACE_INLINE uint64_t take_value(Reader* reader, uint64_t bits, size_t* last,
                                    const JpegCodes* codes, uint32_t entry, int16_t* block) {
  reader->bits = bits;
  refill(reader);
  const uint64_t value_bits = reader->bits << (entry >> 16 & 255);
  const uint32_t size = entry >> 24;
  reader->bits = value_bits << size;
  refill(reader);
  *last += entry >> 8 & 255;
  block[codes->places[*last]] = static_cast<int16_t>(value_of(value_bits, size));
  return reader->bits;
}

// One symbol of a lane whose code is not in the table. Lanes that wait start to count anew.
__attribute__((noinline)) void take_long(Reader* readers, size_t* last, size_t lanes, size_t lane,
                                         const JpegCodes* codes, int16_t* blocks, bool* is_wrong) {
  Reader* const reader = &readers[lane];
  refill(reader);
  const uint32_t known = codes->entries[reader->bits >> (64 - kAcBits)];
  const uint32_t entry = long_entry(codes, reader->bits, known, is_wrong);
  reader->bits <<= entry & 63;
  last[lane] += entry >> 8 & 255;
  blocks[static_cast<ptrdiff_t>(lane * kLaneSize) + codes->places[last[lane]]] =
      static_cast<int16_t>(entry >> 16);
  for (size_t i = 0; i < lanes; ++i) {
    last[i] = last[i] > kLastCoefficient ? kLastCoefficient + 1 : last[i];
  }
}

// All coefficients but the first of a block in each lane. The last index grows by one with each
// step that a lane waits, by less than 70 until all are done or one meets a long symbol: never near
// the 512 for which a place is known. A long symbol goes through memory, so that nothing has to be
// kept in registers across the call.
template <int kLanes>
HEADRACE_INLINE void read_ac(Reader* readers, const JpegCodes* codes, int16_t* blocks,
                             bool* is_wrong) {
  uint64_t bits[kLanes];
  size_t last[kLanes];
  size_t saved[kLanes];
  size_t lane = 0;
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; ++i) {
    bits[i] = readers[i].bits;
    last[i] = 0;
  }
  while (true) {
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
        const uint32_t length = length_at(codes, at);
        if (__builtin_expect(length == 0, 0)) {
          if (__builtin_expect(codes->entries[at] == 0, 0)) {
            lane = static_cast<size_t>(i);
            goto long_symbol;
          }
          bits[i] = take_value(&readers[i], bits[i], &last[i], codes, codes->entries[at],
                               blocks + static_cast<size_t>(i) * kLaneSize);
          continue;
        }
        bits[i] <<= length & 63;
        forget_sums_of(at);
        last[i] += advance_at(codes, at);
        forget_sums_of(at);
        forget_sums_of(blocks);
        const ptrdiff_t place = codes->places[last[i]];
        blocks[place + static_cast<ptrdiff_t>(i * kLaneSize)] = value_at(codes, at);
      }
    }
    if (all_are_done<kLanes>(last)) break;
    continue;
  long_symbol:
#pragma GCC unroll 4
    for (int i = 0; i < kLanes; ++i) {
      readers[i].bits = bits[i];
      saved[i] = last[i];
    }
    take_long(readers, saved, kLanes, lane, codes, blocks, is_wrong);
#pragma GCC unroll 4
    for (int i = 0; i < kLanes; ++i) {
      bits[i] = readers[i].bits;
      last[i] = saved[i];
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; ++i) readers[i].bits = bits[i];
}

template <int kLanes>
__attribute__((noinline)) void read_block(JpegRowsState* state, const JpegRows* rows,
                                          size_t component, int16_t* blocks) {
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

void restart_lanes(JpegRowsState* state, const JpegRows* rows) {
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
bool read_mcu(JpegRowsState* state, const JpegRows* rows, size_t column) {
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

template <int kLanes>
bool read_mcus(const JpegRows* rows, size_t count, JpegRowsState* state) {
  for (size_t i = 0; i < count; ++i) {
    if (!read_mcu<kLanes>(state, rows, i % kGroupBlocks)) return false;
  }
  return true;
}

}  // namespace

void start_jpeg_rows(const JpegRows* rows, JpegRowsState* state) noexcept {
  state->is_wrong = false;
  for (size_t i = 0; i < rows->lane_count; ++i) {
    const JpegLane& lane = rows->lanes[i];
    start(&state->readers[i], lane.bytes, lane.first_bit);
    for (size_t c = 0; c < 3; ++c) state->predictors[i][c] = lane.predictors[c];
    state->until_restart[i] = lane.until_restart;
  }
}

bool read_jpeg_mcus(const JpegRows* rows, size_t count, JpegRowsState* state) noexcept {
  switch (rows->lane_count) {
    case 1:
      return read_mcus<1>(rows, count, state);
    case 2:
      return read_mcus<2>(rows, count, state);
    case 3:
      return read_mcus<3>(rows, count, state);
    case 4:
      return read_mcus<4>(rows, count, state);
    default:
      return false;
  }
}

uint64_t jpeg_position(const JpegRows* rows, size_t lane, const JpegRowsState* state) noexcept {
  return position_of(&state->readers[lane], rows->lanes[lane].bytes);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
