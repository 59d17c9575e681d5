// Codes without stuffing: FF 00 becomes FF, restart markers go, and entry points move accordingly.
//
// A warp takes a row of a window's tiles, or 32 tiles of it if it has more. Each lane looks at four
// bytes at a time and keeps one tile. Codes and tiles go to the same places in `codes` as they have
// in the blob and behind it: they never become longer.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kDestuffThreads = 256;

struct StuffedWord {
  uint32_t word, before, behind;  // with the byte before it and the one behind it
  uint32_t at;
};

// Bit i: byte i of the word stays. `is_odd`: a marker that has no place among codes.
HEADRACE_GPU_INLINE uint32_t kept_bytes(const StuffedWord& w, uint32_t begin, uint32_t end,
                                        bool& is_odd) {
  uint32_t keep = 0;
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t at = w.at + i, byte = w.word >> 8 * i & 255;
    const uint32_t previous = i == 0 ? w.before : w.word >> 8 * (i - 1) & 255;
    const uint32_t following = i == 3 ? w.behind : w.word >> 8 * (i + 1) & 255;
    const bool is_inside = at >= begin && at < end;
    const bool is_second = previous == 0xFF && at > begin && (byte == 0 || byte >> 3 == 0xD0 >> 3);
    const bool has_following = byte == 0xFF && at + 1 < end;
    const bool is_marker = has_following && following >> 3 == 0xD0 >> 3;
    is_odd |= is_inside && has_following && !is_marker && following != 0;
    keep |= static_cast<uint32_t>(is_inside && !is_second && !is_marker) << i;
  }
  return keep;
}

HEADRACE_GPU_INLINE bool has_ff(uint32_t word) {
  return ((~word - 0x01010101U) & word & 0x80808080U) != 0;
}

// The sum of the values of this lane and those before it.
HEADRACE_GPU_INLINE uint32_t running_sum(uint32_t value, uint32_t lane) {
  HEADRACE_UNROLL
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    const uint32_t other = shuffle_up(value, step);
    if (lane >= step) value += other;
  }
  return value;
}

// Tiles `first`, `first + rows`, ... of a picture, `count` of them, at most 32.
HEADRACE_GPU_INLINE void destuff_tiles(const uint8_t* blob, const Picture& picture, uint32_t first,
                                       uint32_t count, uint8_t* codes, uint32_t* status) {
  const uint32_t lane = thread_number() % kWarp, rows = picture.tile_rows;
  Tile tile{};
  if (lane < count) tile = reinterpret_cast<const Tile*>(blob)[picture.tiles + first + lane * rows];
  const uint8_t* const stuffed = origin_of(picture, blob);
  uint8_t* const plain = origin_of(picture, codes);
  const uint32_t end_bit = shuffle(tile.end, count - 1);
  const uint32_t begin = shuffle(tile.begin, 0) / 8, end = (end_bit + 7) / 8;
  const auto load = [&](uint32_t at) {
    return at < end ? *reinterpret_cast<const uint32_t*>(stuffed + at) : 0U;
  };
  const uint32_t start = begin & ~3U;
  uint32_t kept = begin, column = 0, place = 0, next_tile = begin, before = 0;
  uint32_t next_word = load(start + 4 * lane), third_word = load(start + 4 * kWarp + 4 * lane);
  bool is_odd = false;
  for (uint32_t at = start; at < end; at += 4 * kWarp) {
    StuffedWord w{next_word, 0, 0, at + 4 * lane};
    next_word = third_word;
    third_word = load(w.at + 8 * kWarp);
    uint32_t keep = 15, sum = 4 * lane + 4;
    // Every other time there is nothing to take out.
    if (at < begin || at + 4 * kWarp > end || before == 0xFF || is_any_of_warp(has_ff(w.word))) {
      w.before = shuffle_up(w.word >> 24, 1);
      w.behind = shuffle_down(w.word & 255, 1);
      const uint32_t first_of_next = shuffle(next_word & 255, 0);
      if (lane == 0) w.before = before;
      if (lane == kWarp - 1) w.behind = first_of_next;
      keep = kept_bytes(w, begin, end, is_odd);
      sum = running_sum(count_ones(keep), lane);
    }
    before = shuffle(w.word >> 24, kWarp - 1);
    const uint32_t to = kept + sum - count_ones(keep);
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 4; ++i) {
      if (keep >> i & 1)
        plain[to + count_ones(keep & ((1U << i) - 1))] = static_cast<uint8_t>(w.word >> 8 * i);
    }
    while (column < count && next_tile < at + 4 * kWarp) {  // tiles that begin in these bytes
      const uint32_t byte = to + count_ones(keep & ((1U << next_tile % 4) - 1));
      const uint32_t found = shuffle(byte, (next_tile - at) / 4);
      if (lane == column) place = found;
      next_tile = shuffle(tile.begin, ++column % kWarp) / 8;
    }
    kept += shuffle(sum, kWarp - 1);
  }
  const uint32_t new_begin = place * 8 + tile.begin % 8;
  const uint32_t new_end = shuffle_down(new_begin, 1);
  tile.begin = new_begin;
  tile.end = lane + 1 < count ? new_end : kept * 8 - ((0U - end_bit) & 7);
  if (lane < count) reinterpret_cast<Tile*>(codes)[picture.tiles + first + lane * rows] = tile;
  if (is_odd) status[0] = kDamaged;
}

// A layer of thread blocks is a share of each picture's rows.
HEADRACE_KERNEL(destuff_pictures, kDestuffThreads)(const uint8_t* blob, uint8_t* codes,
                                                   uint32_t* status) {
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[block_number()];
  if (picture.kind != kJpeg) return;
  const uint32_t rows = picture.tile_rows, columns = picture.tile_columns;
  const uint32_t warps = thread_count() / kWarp, groups = (columns + kWarp - 1) / kWarp;
  for (uint32_t i = block_layer() * warps + thread_number() / kWarp; i < rows * groups;
       i += warps * layer_count()) {
    const uint32_t group = i / rows;
    destuff_tiles(blob, picture, group * kWarp * rows + i % rows,
                  lesser(columns - group * kWarp, kWarp), codes, status + block_number());
  }
}

}  // namespace headrace::gpu
