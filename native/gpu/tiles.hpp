// Codes to samples: a thread for each tile. Huffman codes and the accurate inverse DCT of libjpeg
// in one kernel; a block's coefficients stay in shared memory.
//
// No loop waits for a value in the data: each step of a block advances by one coefficient at least,
// so a block ends after 64 of them and a tile after its MCUs. Reads stop at the picture's last
// word.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"
#include "kernels/plain_idct.hpp"

namespace headrace::gpu {

// Of the tables; longer codes are searched for. They decide how many thread blocks fit at a time.
inline constexpr uint32_t kDcBits = 8;
inline constexpr uint32_t kAcBits = 10;
inline constexpr uint32_t kRingWords = 16;  // of codes, for each lane
// From lane to lane; multiples of 16 bytes whose rows lie in different banks.
inline constexpr uint32_t kSlotValues = 72;
inline constexpr uint32_t kRingStride = kRingWords + 4;
// Beyond these, decoders do not agree on the pixels.
inline constexpr int32_t kMaxValue = 16383;

struct TileComponent {
  uint32_t plane, across;  // Picture's
  uint32_t dc, ac;         // tables of each kind
};

// An entry: bits of code and value in bits 0 to 4, of the value in 5 to 8, coefficients to advance
// from 9 on; 0 for codes that are longer than the table.
struct alignas(16) TileMemory {
  int16_t slots[kUnitTiles * kSlotValues];
  uint32_t rings[kUnitTiles * kRingStride];
  uint16_t quantiser[3][64];
  uint16_t dc_entries[2][1 << kDcBits];
  uint16_t ac_entries[2][1 << kAcBits];
  uint32_t limits[4][17];  // of each length: the first 16 bits that are no code so short
  int32_t offsets[4][17];  // from a code to its place among the symbols
  uint8_t dc_symbols[2][16];
  uint8_t ac_symbols[2][256];
  uint8_t places[64];
  TileComponent components[3];
};

// Where coefficient k goes in a block that is stored column by column.
#ifdef __CUDACC__
__constant__ const
#else
inline constexpr
#endif
    uint8_t kPlaces[64] = {0,  8,  1,  2,  9,  16, 24, 17, 10, 3,  4,  11, 18, 25, 32, 40,
                           33, 26, 19, 12, 5,  6,  13, 20, 27, 34, 41, 48, 56, 49, 42, 35,
                           28, 21, 14, 7,  15, 22, 29, 36, 43, 50, 57, 58, 51, 44, 37, 30,
                           23, 31, 38, 45, 52, 59, 60, 53, 46, 39, 47, 54, 61, 62, 55, 63};

HEADRACE_GPU_INLINE uint32_t entry_of(bool is_ac, uint32_t length, uint32_t symbol) {
  const uint32_t run = symbol >> 4, size = symbol & 15;
  const uint32_t advance = !is_ac ? 0 : size != 0 ? run + 1 : run == 15 ? 16 : 64;
  return (length + size) | size << 5 | advance << 9;
}

HEADRACE_GPU_INLINE void fill_limits(const Picture& picture, uint32_t table, TileMemory& s) {
  uint32_t code = 0;
  int32_t place = 0;
  for (uint32_t length = 1; length <= 16; ++length) {
    const uint32_t count = picture.counts[table][length - 1];
    s.offsets[table][length] = place - static_cast<int32_t>(code);
    code += count;
    place += static_cast<int32_t>(count);
    s.limits[table][length] = code << (16 - length);
    code <<= 1;
  }
}

// Tables are those of the limits: two for DC, two for AC.
HEADRACE_GPU_INLINE uint32_t symbol_at(const TileMemory& s, uint32_t table, uint32_t length,
                                       uint32_t top) {
  const int32_t at = s.offsets[table][length] + static_cast<int32_t>(top >> (16 - length));
  return table < 2 ? s.dc_symbols[table][at & 15] : s.ac_symbols[table - 2][at & 255];
}

// The entries of codes of at most kBits. All lengths are compared at once: a search would wait for
// each.
template <uint32_t kBits>
HEADRACE_GPU_INLINE void fill_entries(const TileMemory& s, uint32_t table, uint16_t* entries) {
  uint32_t limits[kBits];
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < kBits; ++i) limits[i] = s.limits[table][i + 1];
  for (uint32_t at = thread_number(); at < 1U << kBits; at += thread_count()) {
    const uint32_t top = at << (16 - kBits);
    uint32_t length = 1;
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < kBits; ++i) length += top >= limits[i];
    entries[at] = static_cast<uint16_t>(
        length > kBits ? 0 : entry_of(table >= 2, length, symbol_at(s, table, length, top)));
  }
}

HEADRACE_GPU_INLINE void fill_tables(const Picture& picture, TileMemory& s) {
  const uint32_t t = thread_number(), threads = thread_count();
  if (t < 4) fill_limits(picture, t, s);
  if (t < 3) {
    s.components[t] = {picture.planes[t], picture.across[t], picture.dc_table[t],
                       picture.ac_table[t]};
  }
  for (uint32_t i = t; i < 64; i += threads) s.places[i] = kPlaces[i];
  for (uint32_t i = t; i < 512; i += threads)
    s.ac_symbols[i / 256][i % 256] = picture.ac_symbols[i / 256][i % 256];
  for (uint32_t i = t; i < 32; i += threads)
    s.dc_symbols[i / 16][i % 16] = picture.dc_symbols[i / 16][i % 16];
  for (uint32_t i = t; i < 192; i += threads)
    s.quantiser[i / 64][i % 64] = picture.quantiser[i / 64][i % 64];
  for (uint32_t i = t; i < kUnitTiles * kSlotValues / 2; i += threads)
    reinterpret_cast<uint32_t*>(s.slots)[i] = 0;
  sync_threads();
  HEADRACE_NO_UNROLL
  for (uint32_t table = 0; table < 2; ++table) {
    fill_entries<kDcBits>(s, table, s.dc_entries[table]);
    fill_entries<kAcBits>(s, 2 + table, s.ac_entries[table]);
  }
  sync_threads();
}

// Bits of one tile. Words come through a ring in shared memory, so that no step waits for device
// memory: it is filled after each block, and the wait is over when the block is transformed. What a
// block needs beyond the ring is read directly.
struct Reader {
  const uint32_t* words;
  uint32_t* ring;
  uint32_t word, filled, last;  // the current one, behind the ring, the last that may be read
  uint32_t high, low;           // the current one and the next
  uint32_t used;                // bits of `high`

  HEADRACE_GPU_INLINE uint32_t ahead() const {
    const uint32_t at = word + 2;
    return at < filled ? ring[at % kRingWords] : load_constant(words + lesser(at, last));
  }
  HEADRACE_GPU_INLINE uint32_t peek() const { return funnel_left(low, high, used); }
  HEADRACE_GPU_INLINE void skip(uint32_t bits, uint32_t next) {  // at most 31
    used += bits;
    const bool is_over = used >= 32;
    high = is_over ? low : high;
    low = is_over ? swap_bytes(next) : low;
    word += used / 32;
    used %= 32;
  }
  HEADRACE_GPU_INLINE void fill() {
    const uint32_t first = (word + 2) & ~3U, end = first + kRingWords;
    for (filled = greater(filled, first); filled < end; filled += 4) {
      copy_16(ring + filled % kRingWords, words + lesser(filled, last & ~3U));
    }
  }
  HEADRACE_GPU_INLINE void start(uint32_t bit) {
    word = bit / 32;
    used = bit % 32;
    filled = 0;
    fill();
    high = swap_bytes(load_constant(words + lesser(word, last)));
    low = swap_bytes(load_constant(words + lesser(word + 1, last)));
    wait_for_copies();
  }
  HEADRACE_GPU_INLINE uint32_t position() const { return word * 32 + used; }
};

// 0: no such code.
#ifdef __CUDACC__
__device__ __noinline__
#else
inline
#endif
    uint32_t long_entry(const TileMemory& s, uint32_t table, uint32_t bits) {
  const uint32_t top = bits >> 16;
  uint32_t length = kDcBits + 1;
  HEADRACE_UNROLL
  for (uint32_t i = kDcBits + 1; i <= 16; ++i) length += top >= s.limits[table][i];
  return length > 16 ? 0 : entry_of(table >= 2, length, symbol_at(s, table, length, top));
}

// The value of `size` bits at the top: the lower half of the numbers stands for negative ones.
HEADRACE_GPU_INLINE int32_t value_of(uint32_t bits, uint32_t size) {
  const auto number = static_cast<int32_t>(funnel_left_clamped(bits, 0, size));
  return static_cast<int32_t>(bits) < 0 ? number : number + 1 - (1 << size);
}

// One block to `slot`, which is zero. False: a code that does not exist, or too many coefficients.
HEADRACE_GPU_INLINE bool read_block(Reader& reader, const TileMemory& s, uint32_t dc, uint32_t ac,
                                    int32_t& predictor, int16_t* slot) {
  bool is_right = true;
  {
    const uint32_t next = reader.ahead(), bits = reader.peek();
    uint32_t entry = s.dc_entries[dc][bits >> (32 - kDcBits)];
    if (entry == 0) entry = long_entry(s, dc, bits);
    is_right = entry != 0;
    const uint32_t total = entry & 31, size = entry >> 5 & 15;
    predictor += value_of(bits << (total - size), size);
    slot[0] = static_cast<int16_t>(predictor);
    reader.skip(total, next);
  }
  uint32_t k = 0, last_size = 0;
  while (k < 63) {
    const uint32_t next = reader.ahead(), bits = reader.peek();
    uint32_t entry = s.ac_entries[ac][bits >> (32 - kAcBits)];
    if (entry == 0) {
      entry = long_entry(s, 2 + ac, bits);
      if (entry == 0) {
        is_right = false;
        entry = 64 << 9;
      }
    }
    const uint32_t total = entry & 31, size = entry >> 5 & 15;
    k += entry >> 9;
    const int32_t value = value_of(bits << (total - size), size);
    if (k <= 63) slot[s.places[k]] = static_cast<int16_t>(value);
    last_size = size;
    reader.skip(total, next);
  }
  return is_right && (k <= 63 || last_size == 0);
}

// Of values that must not be beyond kMaxValue.
struct Limits {
  int32_t low = 0, high = 0;

  HEADRACE_GPU_INLINE void take(int32_t a, int32_t b) {
    low = least_of(low, a, b);
    high = most_of(high, a, b);
  }
  HEADRACE_GPU_INLINE bool is_tame() const { return low >= -kMaxValue && high <= kMaxValue; }
};

HEADRACE_GPU_INLINE int32_t low_half(uint32_t word) { return static_cast<int16_t>(word); }
HEADRACE_GPU_INLINE int32_t high_half(uint32_t word) { return static_cast<int32_t>(word) >> 16; }

// A column of a slot, times the quantiser; the slot is zero afterwards.
HEADRACE_GPU_INLINE void take_column(int16_t* slot, const uint16_t* quantiser, Limits& limits,
                                     int32_t* v) {
  const Four values = *reinterpret_cast<const Four*>(slot);
  const Four factors = *reinterpret_cast<const Four*>(quantiser);
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    v[2 * i] = low_half(values.v[i]) * static_cast<int32_t>(factors.v[i] & 0xFFFF);
    v[2 * i + 1] = high_half(values.v[i]) * static_cast<int32_t>(factors.v[i] >> 16);
    limits.take(v[2 * i], v[2 * i + 1]);
  }
  *reinterpret_cast<Four*>(slot) = Four{};
}

// A slot's coefficients to 64 samples; the slot is zero afterwards. False: out of range, and the
// samples mean nothing. Between the passes values are kept in pairs of 16 bits, which is what they
// have unless they are out of range.
HEADRACE_GPU_INLINE bool transform_block(int16_t* slot, const uint16_t* quantiser, uint8_t* out) {
  Limits limits;
  uint32_t pairs[8][4];  // of a row
  HEADRACE_UNROLL
  for (uint32_t x = 0; x < 8; x += 2) {
    int32_t v[8], a[8], b[8];
    take_column(slot + 8 * x, quantiser + 8 * x, limits, v);
    kernels::inverse_dct<11>(v, 1 << 10, a);
    take_column(slot + 8 * x + 8, quantiser + 8 * x + 8, limits, v);
    kernels::inverse_dct<11>(v, 1 << 10, b);
    HEADRACE_UNROLL
    for (uint32_t y = 0; y < 8; ++y) {
      limits.take(a[y], b[y]);
      pairs[y][x / 2] = pack_halves(a[y], b[y]);
    }
  }
  HEADRACE_UNROLL
  for (uint32_t y = 0; y < 8; y += 2) {
    Four words;
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 2; ++i) {
      int32_t v[8], row[8];
      HEADRACE_UNROLL
      for (uint32_t x = 0; x < 4; ++x) {
        v[2 * x] = low_half(pairs[y + i][x]);
        v[2 * x + 1] = high_half(pairs[y + i][x]);
      }
      kernels::inverse_dct<18>(v, (128 << 18) + (1 << 17), row);
      words.v[2 * i] = pack_levels(row[0], row[1], row[2], row[3]);
      words.v[2 * i + 1] = pack_levels(row[4], row[5], row[6], row[7]);
    }
    reinterpret_cast<Four*>(out)[y / 2] = words;
  }
  return limits.is_tame();
}

struct TileState {
  Reader reader;
  int32_t predictors[3];
  uint32_t until_restart;
  uint32_t status;
};

// What is the same for all tiles of a thread block, so that it need not be read again and again.
struct McuShape {
  uint32_t h, v, luma_blocks, blocks, skipped;

  HEADRACE_GPU_INLINE explicit McuShape(const Picture& picture)
      : h(picture.h),
        v(picture.v),
        luma_blocks(h * v),
        blocks(h * v + picture.components - 1),
        skipped(picture.skipped) {}
};

// MCU `m` of the window's row `row`, counted from the first tile. One loop for all components: the
// code for a block is large, and is there once.
HEADRACE_GPU_INLINE void decode_mcu(const McuShape& mcu, TileMemory& s, uint32_t m, uint32_t row,
                                    uint8_t* samples, TileState& state) {
  int16_t* const slot = s.slots + thread_number() * kSlotValues;
  HEADRACE_NO_UNROLL
  for (uint32_t b = 0; b < mcu.blocks; ++b) {
    const bool is_luma = b < mcu.luma_blocks;
    const uint32_t c = is_luma ? 0 : b - mcu.luma_blocks + 1;
    const TileComponent component = s.components[c];
    // Chosen one by one: an array with an index would not stay in registers.
    int32_t predictor = c == 0   ? state.predictors[0]
                        : c == 1 ? state.predictors[1]
                                 : state.predictors[2];
    if (!read_block(state.reader, s, component.dc, component.ac, predictor, slot)) {
      state.status = kDamaged;
    }
    if (c == 0) state.predictors[0] = predictor;
    if (c == 1) state.predictors[1] = predictor;
    if (c == 2) state.predictors[2] = predictor;
    state.reader.fill();
    if (m < mcu.skipped) {
      for (uint32_t i = 0; i < 8; ++i) reinterpret_cast<Four*>(slot)[i] = Four{};
    } else {
      const uint32_t in_column = is_luma ? b & (mcu.h - 1) : 0;  // h is 1 or 2
      const uint32_t in_row = is_luma ? b >> (mcu.h - 1) : 0;
      const uint32_t x = (m - mcu.skipped) * (is_luma ? mcu.h : 1) + in_column;
      const uint32_t y = row * (is_luma ? mcu.v : 1) + in_row;
      const size_t block = component.plane + size_t{y} * component.across + x;
      const bool is_tame = transform_block(slot, s.quantiser[c], samples + block * 64);
      if ((!is_tame || predictor != static_cast<int16_t>(predictor)) && state.status == kFine) {
        state.status = kOutOfRange;
      }
    }
    wait_for_copies();
  }
}

// A tile ends where the next one begins, with the predictors that the next one has. Before a
// restart marker, which is gone, bits that fill a byte are in between.
HEADRACE_GPU_INLINE bool is_end_right(const Picture& picture, const Tile* tiles, uint32_t number,
                                      const TileState& state) {
  const Tile& tile = tiles[number];
  const uint32_t position = state.reader.position();
  const bool is_before_restart = picture.restart_interval != 0 && state.until_restart == 0;
  const bool is_last = number / picture.tile_rows + 1 == picture.tile_columns;
  if (is_last && picture.ends_at_entry == 0) return position <= tile.end;
  const uint32_t filled = is_before_restart ? (position + 7) / 8 * 8 : position;
  // Nothing fills a byte behind the picture's last code.
  if (filled != tile.end && !(is_last && position == tile.end)) return false;
  if (is_last || is_before_restart) return true;
  const Tile& next = tiles[number + picture.tile_rows];
  bool is_same = true;
  HEADRACE_UNROLL
  for (uint32_t c = 0; c < 3; ++c) {
    is_same &= c >= picture.components || next.predictors[c] == state.predictors[c];
  }
  return is_same;
}

// `status` gets the worst of each picture; threads that write at the same time write what is wrong.
HEADRACE_KERNEL(decode_tiles, kUnitTiles)
(const uint8_t* blob, const Unit* units, const uint32_t* words, const uint8_t* codes,
 uint8_t* samples, uint32_t* status) {
  TileMemory& s = *shared_memory<TileMemory>();
  const Unit unit = units[block_number()];
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[unit.picture];
  fill_tables(picture, s);
  const uint32_t place = unit.first + thread_number(), rows = picture.tile_rows;
  if (place >= picture.tile_columns * rows) return;
  const uint32_t number = words[picture.order + place];
  const Tile* tiles = reinterpret_cast<const Tile*>(codes) + picture.tiles;
  const Tile tile = tiles[number];
  const uint32_t first = number / rows * picture.tile;
  const uint32_t count = lesser(picture.tile, picture.mcus - first);
  const McuShape mcu(picture);
  const uint32_t interval = picture.restart_interval;
  TileState state;
  state.reader.words = reinterpret_cast<const uint32_t*>(origin_of(picture, codes));
  state.reader.ring = s.rings + thread_number() * kRingStride;
  state.reader.last = picture.last_word;
  state.reader.start(tile.begin);
  HEADRACE_UNROLL
  for (uint32_t c = 0; c < 3; ++c) state.predictors[c] = tile.predictors[c];
  state.until_restart = tile.until_restart;
  state.status = kFine;
  for (uint32_t m = 0; m < count && state.status == kFine; ++m) {
    if (interval != 0) {
      if (state.until_restart == 0) {
        state.reader.start((state.reader.position() + 7) / 8 * 8);
        state.predictors[0] = state.predictors[1] = state.predictors[2] = 0;
        state.until_restart = interval;
      }
      --state.until_restart;
    }
    decode_mcu(mcu, s, first + m, number % rows, samples, state);
  }
  if (state.status == kFine && !is_end_right(picture, tiles, number, state))
    state.status = kDamaged;
  if (state.status != kFine) status[unit.picture] = state.status;
}

}  // namespace headrace::gpu
