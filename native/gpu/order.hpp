// Tiles of each picture by their length, nearly: the longest first. So the threads of a block have
// about the same to do, and none waits long for the others. A thread block for each picture.
#pragma once

#include "gpu/destuff.hpp"
#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kOrderThreads = 128;
inline constexpr uint32_t kOrderBuckets = 256;

struct OrderMemory {
  uint32_t begins[kOrderBuckets];
};

// `words` gets the numbers of the tiles from Picture::order on.
HEADRACE_KERNEL(order_tiles, kOrderThreads)(const uint8_t* blob, uint32_t* words) {
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[block_number()];
  if (picture.kind != kJpeg) return;
  OrderMemory& s = *shared_memory<OrderMemory>();
  const uint32_t t = thread_number(), count = picture.tile_columns * picture.tile_rows;
  const Tile* const tiles = reinterpret_cast<const Tile*>(blob) + picture.tiles;
  uint32_t* const order = words + picture.order;
  uint32_t shift = 0;
  while (picture.longest >> shift >= kOrderBuckets) ++shift;
  const auto bucket_of = [&](uint32_t i) {
    return kOrderBuckets - 1 - lesser((tiles[i].end - tiles[i].begin) >> shift, kOrderBuckets - 1);
  };
  for (uint32_t i = t; i < kOrderBuckets; i += thread_count()) s.begins[i] = 0;
  sync_threads();
  for (uint32_t i = t; i < count; i += thread_count()) add_to(&s.begins[bucket_of(i)], 1);
  sync_threads();
  if (t < kWarp) {
    constexpr uint32_t kShare = kOrderBuckets / kWarp;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < kShare; ++i) sum += s.begins[t * kShare + i];
    uint32_t begin = running_sum(sum, t) - sum;
    for (uint32_t i = 0; i < kShare; ++i) {
      const uint32_t size = s.begins[t * kShare + i];
      s.begins[t * kShare + i] = begin;
      begin += size;
    }
  }
  sync_threads();
  for (uint32_t i = t; i < count; i += thread_count()) order[count_up(&s.begins[bucket_of(i)])] = i;
}

}  // namespace headrace::gpu
