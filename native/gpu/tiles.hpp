// Codes to samples: a thread for each tile. Huffman codes and the accurate inverse DCT of libjpeg
// in one kernel; a block's coefficients stay in shared memory.
//
// No loop waits for a value in the data: each step of a block advances by one coefficient at least,
// so a block ends after 64 of them and a tile after its MCUs. Reads stop at the picture's last
// word.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kTableBits = 10;
inline constexpr uint32_t kRingWords = 16;  // of codes, for each lane
// From lane to lane; multiples of 16 bytes whose rows lie in different banks.
inline constexpr uint32_t kSlotValues = 72;
inline constexpr uint32_t kRingStride = kRingWords + 4;
// Beyond these, decoders do not agree on the pixels.
inline constexpr int32_t kMaxValue = 16383;

// An entry: bits of code and value in bits 0 to 4, of the value in 5 to 8, coefficients to advance
// from 9 on; 0 for codes that are longer than the table.
struct alignas(16) TileMemory {
  int16_t slots[kUnitTiles * kSlotValues];
  uint32_t rings[kUnitTiles * kRingStride];
  uint16_t quantiser[3][64];
  uint16_t entries[4][1 << kTableBits];
  uint32_t limits[4][17];  // of each length: the first 16 bits that are no code so short
  int32_t offsets[4][17];  // from a code to its place among the symbols
  uint8_t symbols[4][256];
  uint8_t places[64];
};

// Where coefficient k goes in a block that is stored column by column.
HEADRACE_GPU_INLINE uint8_t place_of(uint32_t k) {
#ifdef __CUDACC__
  static __constant__ const
#else
  static constexpr
#endif
      uint8_t kPlaces[64] = {0,  8,  1,  2,  9,  16, 24, 17, 10, 3,  4,  11, 18, 25, 32, 40,
                             33, 26, 19, 12, 5,  6,  13, 20, 27, 34, 41, 48, 56, 49, 42, 35,
                             28, 21, 14, 7,  15, 22, 29, 36, 43, 50, 57, 58, 51, 44, 37, 30,
                             23, 31, 38, 45, 52, 59, 60, 53, 46, 39, 47, 54, 61, 62, 55, 63};
  return kPlaces[k];
}

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

HEADRACE_GPU_INLINE uint32_t symbol_at(const TileMemory& s, uint32_t table, uint32_t length,
                                       uint32_t top) {
  return s.symbols[table]
                  [(s.offsets[table][length] + static_cast<int32_t>(top >> (16 - length))) & 255];
}

HEADRACE_GPU_INLINE void fill_tables(const Picture& picture, TileMemory& s) {
  const uint32_t t = thread_number(), threads = thread_count();
  if (t < 4) fill_limits(picture, t, s);
  for (uint32_t i = t; i < 64; i += threads) s.places[i] = place_of(i);
  for (uint32_t i = t; i < 512; i += threads)
    s.symbols[2 + i / 256][i % 256] = picture.ac_symbols[i / 256][i % 256];
  for (uint32_t i = t; i < 512; i += threads) {
    s.symbols[i / 256][i % 256] = i % 256 < 16 ? picture.dc_symbols[i / 256][i % 256] : 0;
  }
  for (uint32_t i = t; i < 192; i += threads)
    s.quantiser[i / 64][i % 64] = picture.quantiser[i / 64][i % 64];
  for (uint32_t i = t; i < kUnitTiles * kSlotValues / 2; i += threads)
    reinterpret_cast<uint32_t*>(s.slots)[i] = 0;
  sync_threads();
  for (uint32_t i = t; i < 4U << kTableBits; i += threads) {
    const uint32_t table = i >> kTableBits, at = i & ((1U << kTableBits) - 1);
    const uint32_t top = at << (16 - kTableBits);
    uint32_t length = 1;
    while (length <= kTableBits && top >= s.limits[table][length]) ++length;
    s.entries[table][at] = static_cast<uint16_t>(
        length > kTableBits ? 0 : entry_of(table >= 2, length, symbol_at(s, table, length, top)));
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

// All lengths are compared at once: a search would wait for each. 0: no such code.
#ifdef __CUDACC__
__device__ __noinline__
#else
inline
#endif
    uint32_t long_entry(const TileMemory& s, uint32_t table, uint32_t bits) {
  const uint32_t top = bits >> 16;
  uint32_t length = kTableBits + 1;
  HEADRACE_UNROLL
  for (uint32_t i = kTableBits + 1; i <= 16; ++i) length += top >= s.limits[table][i];
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
    uint32_t entry = s.entries[dc][bits >> (32 - kTableBits)];
    if (entry == 0) entry = long_entry(s, dc, bits);
    is_right = entry != 0;
    const uint32_t total = entry & 31, size = entry >> 5 & 15;
    predictor += value_of(bits << (total - size), size);
    slot[0] = static_cast<int16_t>(predictor);
    reader.skip(total, next);
  }
  uint32_t k = 0;
  while (k < 63) {
    const uint32_t next = reader.ahead(), bits = reader.peek();
    uint32_t entry = s.entries[ac][bits >> (32 - kTableBits)];
    if (entry == 0) {
      entry = long_entry(s, ac, bits);
      if (entry == 0) {
        is_right = false;
        entry = 64 << 9;
      }
    }
    const uint32_t total = entry & 31, size = entry >> 5 & 15;
    k += entry >> 9;
    const int32_t value = value_of(bits << (total - size), size);
    if (k <= 63) slot[s.places[k]] = static_cast<int16_t>(value);
    is_right &= k <= 63 || size == 0;
    reader.skip(total, next);
  }
  return is_right;
}

HEADRACE_GPU_INLINE bool is_beyond(int32_t value) {
  return value < -kMaxValue || value > kMaxValue;
}

// One dimension of the accurate inverse DCT of libjpeg, in 1/8192; in exact arithmetic the order of
// additions does not matter.
template <int kShift>
HEADRACE_GPU_INLINE void transform(const int32_t* v, int32_t* out) {
  constexpr int32_t kHalf = 1 << (kShift - 1);
  const int32_t t0 = (v[0] + v[4]) * 8192 + kHalf;
  const int32_t t1 = (v[0] - v[4]) * 8192 + kHalf;
  const int32_t t2 = 4433 * v[2] - 10704 * v[6];
  const int32_t t3 = 10703 * v[2] + 4433 * v[6];
  const int32_t even[4] = {t0 + t3, t1 + t2, t1 - t2, t0 - t3};
  const int32_t odd[4] = {11363 * v[1] + 9633 * v[3] + 6437 * v[5] + 2260 * v[7],
                          9633 * v[1] - 2259 * v[3] - 11362 * v[5] - 6436 * v[7],
                          6437 * v[1] - 11362 * v[3] + 2261 * v[5] + 9633 * v[7],
                          2260 * v[1] - 6436 * v[3] + 9633 * v[5] - 11363 * v[7]};
  HEADRACE_UNROLL
  for (int i = 0; i < 4; ++i) {
    out[i] = (even[i] + odd[i]) >> kShift;
    out[7 - i] = (even[i] - odd[i]) >> kShift;
  }
}

// A slot's coefficients to 64 samples; the slot is zero afterwards. False: out of range.
HEADRACE_GPU_INLINE bool transform_block(int16_t* slot, const uint16_t* quantiser, uint8_t* out) {
  bool is_tame = true;
  // Columns in place: what comes of the first pass fits 16 bits, or the block is out of range.
  HEADRACE_UNROLL
  for (uint32_t x = 0; x < 8; ++x) {
    int32_t v[8], column[8];
    HEADRACE_UNROLL
    for (uint32_t y = 0; y < 8; ++y) {
      v[y] = slot[8 * x + y] * static_cast<int32_t>(quantiser[8 * x + y]);
      is_tame &= !is_beyond(v[y]);
    }
    if (!is_tame) break;
    transform<11>(v, column);
    HEADRACE_UNROLL
    for (uint32_t y = 0; y < 8; ++y) {
      is_tame &= !is_beyond(column[y]);
      slot[8 * x + y] = static_cast<int16_t>(column[y]);
    }
  }
  HEADRACE_UNROLL
  for (uint32_t y = 0; y < 8; ++y) {
    int32_t v[8], row[8];
    HEADRACE_UNROLL
    for (uint32_t x = 0; x < 8; ++x) {
      v[x] = is_tame ? slot[8 * x + y] : 0;
      slot[8 * x + y] = 0;
    }
    transform<18>(v, row);
    auto* words = reinterpret_cast<uint32_t*>(out + 8 * y);
    words[0] = pack_levels(row[0] + 128, row[1] + 128, row[2] + 128, row[3] + 128);
    words[1] = pack_levels(row[4] + 128, row[5] + 128, row[6] + 128, row[7] + 128);
  }
  return is_tame;
}

struct TileState {
  Reader reader;
  int32_t predictors[3];
  uint32_t until_restart;
  uint32_t status;
};

// MCU `m` of the window's row `row`, counted from the first tile.
HEADRACE_GPU_INLINE void decode_mcu(const Picture& picture, TileMemory& s, uint32_t m, uint32_t row,
                                    uint8_t* samples, TileState& state) {
  int16_t* slot = s.slots + thread_number() * kSlotValues;
  HEADRACE_UNROLL
  for (uint32_t c = 0; c < 3; ++c) {
    if (c >= picture.components) break;
    const uint32_t across = c == 0 ? picture.h : 1, down = c == 0 ? picture.v : 1;
    for (uint32_t b = 0; b < across * down; ++b) {
      const bool is_right = read_block(state.reader, s, picture.dc_table[c],
                                       2 + picture.ac_table[c], state.predictors[c], slot);
      if (!is_right) state.status = kDamaged;
      state.reader.fill();
      if (m < picture.skipped) {
        for (uint32_t i = 0; i < 32; ++i) reinterpret_cast<uint32_t*>(slot)[i] = 0;
      } else {
        const uint32_t x = (m - picture.skipped) * across + b % across, y = row * down + b / across;
        const size_t block = picture.planes[c] + size_t{y} * picture.across[c] + x;
        const bool is_tame = transform_block(slot, s.quantiser[c], samples + block * 64);
        if ((!is_tame || state.predictors[c] != static_cast<int16_t>(state.predictors[c])) &&
            state.status == kFine) {
          state.status = kOutOfRange;
        }
      }
      wait_for_copies();
    }
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
  for (uint32_t c = 0; c < picture.components; ++c) {
    if (next.predictors[c] != state.predictors[c]) return false;
  }
  return true;
}

// `status` gets the worst of each picture; threads that write at the same time write what is wrong.
HEADRACE_KERNEL(decode_tiles, kUnitTiles)
(const uint8_t* blob, const Unit* units, const uint8_t* codes, uint8_t* samples, uint32_t* status) {
  TileMemory& s = *shared_memory<TileMemory>();
  const Unit unit = units[block_number()];
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[unit.picture];
  fill_tables(picture, s);
  const uint32_t number = unit.first + thread_number(), rows = picture.tile_rows;
  if (number >= picture.tile_columns * rows) return;
  const Tile* tiles = reinterpret_cast<const Tile*>(codes) + picture.tiles;
  const Tile tile = tiles[number];
  const uint32_t first = number / rows * picture.tile;
  const uint32_t count = lesser(picture.tile, picture.mcus - first);
  TileState state;
  state.reader.words = reinterpret_cast<const uint32_t*>(codes);
  state.reader.ring = s.rings + thread_number() * kRingStride;
  state.reader.last = picture.last_word;
  state.reader.start(tile.begin);
  for (uint32_t c = 0; c < 3; ++c) state.predictors[c] = tile.predictors[c];
  state.until_restart = tile.until_restart;
  state.status = kFine;
  for (uint32_t m = 0; m < count && state.status == kFine; ++m) {
    if (picture.restart_interval != 0) {
      if (state.until_restart == 0) {
        state.reader.start((state.reader.position() + 7) / 8 * 8);
        state.predictors[0] = state.predictors[1] = state.predictors[2] = 0;
        state.until_restart = picture.restart_interval;
      }
      --state.until_restart;
    }
    decode_mcu(picture, s, first + m, number % rows, samples, state);
  }
  if (state.status == kFine && !is_end_right(picture, tiles, number, state))
    state.status = kDamaged;
  if (state.status != kFine) status[unit.picture] = state.status;
}

}  // namespace headrace::gpu
