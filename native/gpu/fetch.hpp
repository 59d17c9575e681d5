// JPEGs from pinned memory of the CPU to their places behind the blob. A few thread blocks are
// enough for the bus, and leave the others to whoever trains.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kFetchThreads = 512;
inline constexpr uint32_t kFetchBlocks = 32;
inline constexpr uint32_t kFetchAtOnce = 4;  // by each thread, of sixteen bytes

// Sixteen bytes are read as a whole where some of them belong to the picture: that is never beyond
// its pages.
HEADRACE_KERNEL(fetch_pictures, kFetchThreads)(uint8_t* blob, uint32_t count, uint32_t blocks) {
  const uint32_t share = thread_count() * kFetchAtOnce;
  for (uint32_t number = block_number(); number < count; number += blocks) {
    const Picture& picture = reinterpret_cast<const Picture*>(blob)[number];
    if (picture.fetched_size == 0) continue;
    const uint64_t address = uint64_t{picture.source[1]} << 32 | picture.source[0];
    const Four* const from = reinterpret_cast<const Four*>(address - picture.fetched_lead);
    Four* const to = reinterpret_cast<Four*>(origin_of(picture, blob));
    const uint32_t first = picture.fetched_lead / 16;
    const uint32_t end = (picture.fetched_lead + picture.fetched_size + 15) / 16;
    for (uint32_t begin = first; begin < end; begin += share) {
      Four words[kFetchAtOnce];
      HEADRACE_UNROLL
      for (uint32_t i = 0; i < kFetchAtOnce; ++i) {
        const uint32_t at = begin + i * thread_count() + thread_number();
        if (at < end) words[i] = from[at];
      }
      HEADRACE_UNROLL
      for (uint32_t i = 0; i < kFetchAtOnce; ++i) {
        const uint32_t at = begin + i * thread_count() + thread_number();
        if (at < end) to[at] = words[i];
      }
    }
  }
}

}  // namespace headrace::gpu
