// Checksums (CRC-32C) of the JPEGs that the device has fetched: a thread block for each.
//
// A checksum is what is left of a polynomial, so those of parts add up once each has moved to its
// place: to move by n bytes is to multiply by x^(8n). Threads take sixteen bytes at a time, in
// turn; their sums are added warp by warp, and those of the warps by the first thread. Beyond the
// end are zeros, which move the sum too far: it goes back by as many bytes, for x^(2^31 - 1) is 1.
// Zeros in front change nothing.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kSumThreads = 256;
inline constexpr uint32_t kSumRow = kSumThreads * 16;  // bytes that a thread block takes at a time
inline constexpr uint32_t kSumOrder = 0x7FFFFFFF;
inline constexpr uint32_t kSumPolynomial = 0x82F63B78;  // bit 31 stands for 1, bit 0 for x^31

// Of each byte of a word; the CPU makes them (sum_tables.hpp).
struct SumTables {
  uint32_t by_word[4][256];  // moved by 4 bytes
  uint32_t by_row[4][256];   // moved by kSumRow
  uint32_t powers[4][256];   // x^(8n), n a byte of a number
};

struct SumMemory {
  uint32_t by_word[4][256], by_row[4][256];
  uint32_t sums[kSumThreads / kWarp];
};

HEADRACE_GPU_INLINE uint32_t multiply_sums(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < 32; ++i) {
    product ^= (a << i >> 31) * b;
    b = b >> 1 ^ (b & 1) * kSumPolynomial;
  }
  return product;
}

HEADRACE_GPU_INLINE uint32_t moved_sum(const uint32_t (&table)[4][256], uint32_t sum) {
  return table[0][sum & 255] ^ table[1][sum >> 8 & 255] ^ table[2][sum >> 16 & 255] ^
         table[3][sum >> 24];
}

// `sum` moved by `bytes`, which may be negative.
HEADRACE_GPU_INLINE uint32_t moved_far(const SumTables& tables, uint32_t sum, int32_t bytes) {
  const uint32_t n = static_cast<uint32_t>(bytes) + (bytes < 0 ? kSumOrder : 0);
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t part = n >> 8 * i & 255;
    if (part != 0) sum = multiply_sums(tables.powers[i][part], sum);
  }
  return sum;
}

// Sixteen bytes, those before `begin` and from `end` on as zeros.
HEADRACE_GPU_INLINE Four bytes_between(const uint8_t* bytes, uint32_t at, uint32_t begin,
                                       uint32_t end) {
  if (at >= begin && at + 16 <= end) return *reinterpret_cast<const Four*>(bytes + at);
  Four words{};
  for (uint32_t i = greater(at, begin); i < lesser(at + 16, end); ++i) {
    words.v[i / 4 % 4] |= uint32_t{bytes[i]} << 8 * (i % 4);
  }
  return words;
}

// Of the bytes that this warp takes, as if the others were zeros. The first lane gets it.
HEADRACE_GPU_INLINE uint32_t sum_of_warp(const uint8_t* bytes, uint32_t begin, uint32_t end,
                                         const SumMemory& s, const SumTables& tables) {
  const uint32_t lane = thread_number() % kWarp, first = thread_number() / kWarp * kWarp * 16;
  uint32_t sum = 0, row = first;
  for (; row < end; row += kSumRow) {
    const Four words = bytes_between(bytes, row + lane * 16, begin, end);
    uint32_t next = 0;
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 4; ++i) next = moved_sum(s.by_word, next ^ words.v[i]);
    sum = moved_sum(s.by_row, sum) ^ next;
  }
  for (uint32_t lanes = 1; lanes < kWarp; lanes *= 2) {
    const uint32_t other = shuffle_down(sum, lanes);
    sum = moved_far(tables, sum, static_cast<int32_t>(16 * lanes)) ^ other;
  }
  if (lane != 0 || row == first) return 0;
  const uint32_t last = row - kSumRow + kWarp * 16;  // where the last sixteen of the warp end
  return moved_far(tables, sum, static_cast<int32_t>(end) - static_cast<int32_t>(last));
}

HEADRACE_KERNEL(sum_pictures, kSumThreads)(const uint8_t* blob, const SumTables* tables,
                                           uint32_t* status) {
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[block_number()];
  if (picture.fetched_size == 0) return;
  SumMemory& s = *shared_memory<SumMemory>();
  const uint32_t t = thread_number(), warp = t / kWarp, warps = thread_count() / kWarp;
  for (uint32_t i = t; i < 4 * 256; i += thread_count()) {
    s.by_word[i / 256][i % 256] = tables->by_word[i / 256][i % 256];
    s.by_row[i / 256][i % 256] = tables->by_row[i / 256][i % 256];
  }
  sync_threads();
  const uint32_t begin = picture.fetched_lead, size = picture.fetched_size, end = begin + size;
  // What a checksum begins with, moved as far as all bytes are.
  uint32_t sum = t == 0 ? moved_far(*tables, ~0U, static_cast<int32_t>(size)) : 0;
  sum ^= sum_of_warp(origin_of(picture, blob), begin, end, s, *tables);
  if (t % kWarp == 0) s.sums[warp] = sum;
  sync_threads();
  if (t != 0) return;
  for (uint32_t i = 1; i < warps; ++i) sum ^= s.sums[i];
  if (~sum != picture.crc32c) status[block_number()] = kDamaged;
}

}  // namespace headrace::gpu
