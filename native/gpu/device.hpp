// What kernels use of a GPU: threads, their exchange of values, shared memory. Compiled by nvcc
// these are CUDA's own; compiled as plain C++ they run on grid.hpp, so that the same source is
// tested on machines without a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define HEADRACE_GPU __device__
#define HEADRACE_GPU_INLINE __device__ __forceinline__
#define HEADRACE_KERNEL(name, most_threads) \
  extern "C" __global__ void __launch_bounds__(most_threads) name
#define HEADRACE_UNROLL _Pragma("unroll")
#define HEADRACE_UNROLL_BY_TWO _Pragma("unroll 2")
#define HEADRACE_NO_UNROLL _Pragma("unroll 1")
#else
#include "gpu/grid.hpp"
#define HEADRACE_GPU inline
#define HEADRACE_GPU_INLINE inline
#define HEADRACE_KERNEL(name, most_threads) inline void name
#define HEADRACE_UNROLL
#define HEADRACE_UNROLL_BY_TWO
#define HEADRACE_NO_UNROLL
#endif

namespace headrace::gpu {

inline constexpr uint32_t kWarp = 32;

#ifdef __CUDACC__

HEADRACE_GPU_INLINE uint32_t thread_number() { return threadIdx.x; }
HEADRACE_GPU_INLINE uint32_t thread_count() { return blockDim.x; }
HEADRACE_GPU_INLINE uint32_t block_number() { return blockIdx.x; }
HEADRACE_GPU_INLINE uint32_t block_layer() { return blockIdx.y; }
HEADRACE_GPU_INLINE uint32_t layer_count() { return gridDim.y; }
HEADRACE_GPU_INLINE void sync_threads() { __syncthreads(); }

HEADRACE_GPU_INLINE uint32_t shuffle(uint32_t value, uint32_t lane) {
  return __shfl_sync(~0U, value, lane);
}
HEADRACE_GPU_INLINE uint32_t shuffle_up(uint32_t value, uint32_t by) {
  return __shfl_up_sync(~0U, value, by);
}
HEADRACE_GPU_INLINE uint32_t shuffle_down(uint32_t value, uint32_t by) {
  return __shfl_down_sync(~0U, value, by);
}

HEADRACE_GPU_INLINE bool is_any_of_warp(bool value) { return __any_sync(~0U, value) != 0; }

HEADRACE_GPU_INLINE float float_of(uint32_t bits) { return __uint_as_float(bits); }
HEADRACE_GPU_INLINE uint32_t bits_of(float value) { return __float_as_uint(value); }
// To the nearest, of two the even one.
HEADRACE_GPU_INLINE int32_t round_off(float value) { return __float2int_rn(value); }
HEADRACE_GPU_INLINE uint32_t count_ones(uint32_t value) { return __popc(value); }
HEADRACE_GPU_INLINE uint32_t swap_bytes(uint32_t value) { return __byte_perm(value, 0, 0x0123); }
HEADRACE_GPU_INLINE uint32_t multiply_high(uint32_t a, uint32_t b) { return __umulhi(a, b); }
// Bytes 0 of both, then bytes 1; and so with 2 and 3.
HEADRACE_GPU_INLINE uint32_t zip_low(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x5140); }
HEADRACE_GPU_INLINE uint32_t zip_high(uint32_t a, uint32_t b) { return __byte_perm(a, b, 0x7362); }
// The sum and two products: halves of `weights`, which have signs, with bytes 0 and 1, or 2 and 3.
HEADRACE_GPU_INLINE int32_t add_low(int32_t sum, uint32_t weights, uint32_t bytes) {
  int32_t result;
  asm("dp2a.lo.s32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(weights), "r"(bytes), "r"(sum));
  return result;
}
HEADRACE_GPU_INLINE int32_t add_high(int32_t sum, uint32_t weights, uint32_t bytes) {
  int32_t result;
  asm("dp2a.hi.s32.u32 %0, %1, %2, %3;" : "=r"(result) : "r"(weights), "r"(bytes), "r"(sum));
  return result;
}
// The low halves of both, that of the second one above.
HEADRACE_GPU_INLINE uint32_t pack_halves(int32_t a, int32_t b) {
  return __byte_perm(static_cast<uint32_t>(a), static_cast<uint32_t>(b), 0x5410);
}
HEADRACE_GPU_INLINE int32_t least_of(int32_t a, int32_t b, int32_t c) {
  return __vimin3_s32(a, b, c);
}
HEADRACE_GPU_INLINE int32_t most_of(int32_t a, int32_t b, int32_t c) {
  return __vimax3_s32(a, b, c);
}
// Four levels, cut to 0 to 255.
HEADRACE_GPU_INLINE uint32_t pack_levels(int32_t a, int32_t b, int32_t c, int32_t d) {
#if __CUDA_ARCH__ >= 720
  uint32_t result;
  asm("{.reg .u32 high; cvt.pack.sat.u8.s32.b32 high, %4, %3, 0;"
      "cvt.pack.sat.u8.s32.b32 %0, %2, %1, high;}"
      : "=r"(result)
      : "r"(a), "r"(b), "r"(c), "r"(d));
  return result;
#else
  const auto cut = [](int32_t value) { return static_cast<uint32_t>(min(max(value, 0), 255)); };
  return cut(a) | cut(b) << 8 | cut(c) << 16 | cut(d) << 24;
#endif
}
// The upper word of high:low << by; `by` is taken modulo 32 by the first, at most 32 by the second.
HEADRACE_GPU_INLINE uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t by) {
  return __funnelshift_l(low, high, by);
}
HEADRACE_GPU_INLINE uint32_t funnel_left_clamped(uint32_t low, uint32_t high, uint32_t by) {
  return __funnelshift_lc(low, high, by);
}
template <typename T>
HEADRACE_GPU_INLINE T load_constant(const T* from) {
  return __ldg(from);
}
HEADRACE_GPU_INLINE void add_to(uint32_t* sum, uint32_t value) { atomicAdd(sum, value); }
// What it was before.
HEADRACE_GPU_INLINE uint32_t count_up(uint32_t* number) { return atomicAdd(number, 1U); }

// Sixteen bytes to shared memory, which are there after wait_for_copies.
HEADRACE_GPU_INLINE void copy_16(uint32_t* shared, const uint32_t* from) {
#if __CUDA_ARCH__ >= 800
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from));
#else
  *reinterpret_cast<uint4*>(shared) = *reinterpret_cast<const uint4*>(from);
#endif
}
HEADRACE_GPU_INLINE void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// What the launch has asked for.
template <typename T>
HEADRACE_GPU_INLINE T* shared_memory() {
  extern __shared__ uint4 memory_of_the_block[];
  return reinterpret_cast<T*>(memory_of_the_block);
}

#else

inline uint32_t thread_number() { return grid::here().thread; }
inline uint32_t thread_count() { return grid::here().threads; }
inline uint32_t block_number() { return grid::here().block; }
inline uint32_t block_layer() { return grid::here().layer; }
inline uint32_t layer_count() { return grid::here().layers; }
inline void sync_threads() { grid::sync_block(); }

inline uint32_t shuffle(uint32_t value, uint32_t lane) {
  return grid::exchange(value, lane % kWarp);
}
inline uint32_t shuffle_up(uint32_t value, uint32_t by) {
  const uint32_t lane = thread_number() % kWarp;
  return grid::exchange(value, lane < by ? lane : lane - by);
}
inline uint32_t shuffle_down(uint32_t value, uint32_t by) {
  const uint32_t lane = thread_number() % kWarp;
  return grid::exchange(value, lane + by < kWarp ? lane + by : lane);
}

inline bool is_any_of_warp(bool value) {
  uint32_t any = value ? 1 : 0;
  for (uint32_t step = 1; step < kWarp; step *= 2) {
    any |= grid::exchange(any, thread_number() % kWarp ^ step);
  }
  return any != 0;
}

inline float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline int32_t round_off(float value) { return static_cast<int32_t>(__builtin_lrintf(value)); }
inline uint32_t count_ones(uint32_t value) {
  return static_cast<uint32_t>(__builtin_popcount(value));
}
inline uint32_t swap_bytes(uint32_t value) { return __builtin_bswap32(value); }
inline uint32_t multiply_high(uint32_t a, uint32_t b) {
  return static_cast<uint32_t>(uint64_t{a} * b >> 32);
}
inline uint32_t zip_low(uint32_t a, uint32_t b) {
  return (a & 255) | (b & 255) << 8 | (a >> 8 & 255) << 16 | (b >> 8 & 255) << 24;
}
inline uint32_t zip_high(uint32_t a, uint32_t b) { return zip_low(a >> 16, b >> 16); }
inline int32_t add_low(int32_t sum, uint32_t weights, uint32_t bytes) {
  return sum + static_cast<int16_t>(weights) * static_cast<int32_t>(bytes & 255) +
         static_cast<int16_t>(weights >> 16) * static_cast<int32_t>(bytes >> 8 & 255);
}
inline int32_t add_high(int32_t sum, uint32_t weights, uint32_t bytes) {
  return add_low(sum, weights, bytes >> 16);
}
inline uint32_t pack_halves(int32_t a, int32_t b) {
  return static_cast<uint16_t>(a) | static_cast<uint32_t>(b) << 16;
}
inline int32_t least_of(int32_t a, int32_t b, int32_t c) {
  const int32_t least = a < b ? a : b;
  return c < least ? c : least;
}
inline int32_t most_of(int32_t a, int32_t b, int32_t c) {
  const int32_t most = a > b ? a : b;
  return c > most ? c : most;
}
inline uint32_t pack_levels(int32_t a, int32_t b, int32_t c, int32_t d) {
  const auto cut = [](int32_t value) {
    return static_cast<uint32_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  };
  return cut(a) | cut(b) << 8 | cut(c) << 16 | cut(d) << 24;
}
inline uint32_t funnel_left(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) << (by % 32) >> 32);
}
inline uint32_t funnel_left_clamped(uint32_t low, uint32_t high, uint32_t by) {
  return by >= 32 ? low : funnel_left(low, high, by);
}
template <typename T>
inline T load_constant(const T* from) {
  return *from;
}
inline void add_to(uint32_t* sum, uint32_t value) { *sum += value; }
inline uint32_t count_up(uint32_t* number) { return (*number)++; }
inline void copy_16(uint32_t* shared, const uint32_t* from) { std::memcpy(shared, from, 16); }
inline void wait_for_copies() {}

template <typename T>
inline T* shared_memory() {
  return static_cast<T*>(grid::shared_memory());
}

#endif

template <typename T>
HEADRACE_GPU_INLINE T lesser(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
HEADRACE_GPU_INLINE T greater(T a, T b) {
  return a < b ? b : a;
}

HEADRACE_GPU_INLINE int32_t byte_of(uint32_t word, uint32_t i) {
  return static_cast<int32_t>(word >> 8 * i & 255);
}

// Divides numbers below 2^16 by one below 2^16 that many of them share, without a division.
struct Divider {
  uint32_t divisor, factor;

  HEADRACE_GPU_INLINE explicit Divider(uint32_t by) : divisor(by), factor(~0U / by + 1) {}
  HEADRACE_GPU_INLINE uint32_t quotient(uint32_t number) const {
    return divisor == 1 ? number : multiply_high(number, factor);
  }
};

// Loaded and stored at once.
struct alignas(8) Two {
  uint32_t v[2];
};
struct alignas(16) Four {
  uint32_t v[4];
};

}  // namespace headrace::gpu
