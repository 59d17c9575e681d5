// The last steps of a row: planes instead of interleaved channels, scaled to float or half.
// Multiplication and addition are separate everywhere (the build forbids fusing them), so that all
// levels give the same bits.
#include "kernels/floats.hpp"
#include "kernels/kernels.hpp"
#include "kernels/planes.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

constexpr size_t kPeriod = 48;

inline float scaled(const uint8_t* row, size_t i, const float* scale, const float* bias) {
  return static_cast<float>(row[i]) * scale[i % kPeriod] + bias[i % kPeriod];
}

#if defined(__SSE4_1__)
inline void put_bytes(uint8_t* to, __m128i bytes) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
}
#endif

#if defined(__AVX2__)

inline void store(uint16_t* to, Floats values) { store(reinterpret_cast<Half*>(to), values); }

inline Floats multiply_add(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  // Rounded twice. Multiplied by one, the sum runs on the units that the conversions leave idle.
  return _mm512_fmadd_ps(multiply(a, b), broadcast(1), c);
#else
  return add(multiply(a, b), c);
#endif
}

constexpr size_t kVectors = kPeriod / kLanes;

// Whole vectors only; returns how far it came.
template <typename T>
inline size_t scale_vectors(const uint8_t* row, size_t size, const float* scale, const float* bias,
                            T* out) {
  Floats scales[kVectors];
  Floats biases[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    scales[v] = load(scale + v * kLanes);
    biases[v] = load(bias + v * kLanes);
  }
  size_t i = 0;
  for (; i + kPeriod <= size; i += kPeriod) {
    for (size_t v = 0; v < kVectors; ++v) {
      const size_t at = i + v * kLanes;
      store(out + at, multiply_add(load(row + at), scales[v], biases[v]));
    }
  }
  for (size_t v = 0; i + kLanes <= size; ++v, i += kLanes) {
    store(out + i, multiply_add(load(row + i), scales[v], biases[v]));
  }
  return i;
}

inline size_t half_vectors(const float* values, size_t size, uint16_t* out) {
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) store(out + i, load(values + i));
  return i;
}

inline void put(uint8_t* to, __m128i bytes, float, float) { put_bytes(to, bytes); }

template <typename T>
inline void put(T* to, __m128i bytes, float scale, float bias) {
  const Floats scales = broadcast(scale);
  const Floats biases = broadcast(bias);
  store(to, multiply_add(widen(bytes), scales, biases));
  if (kLanes == 16) return;
  store(to + 8, multiply_add(widen(_mm_srli_si128(bytes, 8)), scales, biases));
}

template <typename T>
inline size_t split_vectors(const uint8_t* row, size_t pixels, const ValueRow& out) {
  size_t j = 0;
  for (; j + 16 <= pixels; j += 16) {
    const ThreeVectors planes = to_planes(load_three(row + 3 * j));
    put(static_cast<T*>(out.planes[0]) + j, planes.a, out.scale[0], out.bias[0]);
    put(static_cast<T*>(out.planes[1]) + j, planes.b, out.scale[1], out.bias[1]);
    put(static_cast<T*>(out.planes[2]) + j, planes.c, out.scale[2], out.bias[2]);
  }
  return j;
}

#else

template <typename T>
inline size_t scale_vectors(const uint8_t*, size_t, const float*, const float*, T*) {
  return 0;
}

inline size_t half_vectors(const float*, size_t, uint16_t*) { return 0; }

// Only bytes have shuffles of 128 bits.
template <typename T>
inline size_t split_vectors([[maybe_unused]] const uint8_t* row, [[maybe_unused]] size_t pixels,
                            [[maybe_unused]] const ValueRow& out) {
  size_t j = 0;
#if defined(__SSE4_1__)
  if constexpr (sizeof(T) == 1) {
    for (; j + 16 <= pixels; j += 16) {
      const ThreeVectors planes = to_planes(load_three(row + 3 * j));
      put_bytes(static_cast<uint8_t*>(out.planes[0]) + j, planes.a);
      put_bytes(static_cast<uint8_t*>(out.planes[1]) + j, planes.b);
      put_bytes(static_cast<uint8_t*>(out.planes[2]) + j, planes.c);
    }
  }
#endif
  return j;
}

#endif

inline void put_one(uint8_t* out, uint8_t level, float, float) { *out = level; }
inline void put_one(float* out, uint8_t level, float scale, float bias) {
  *out = static_cast<float>(level) * scale + bias;
}
inline void put_one(uint16_t* out, uint8_t level, float scale, float bias) {
  *out = half_of(static_cast<float>(level) * scale + bias);
}

template <typename T>
inline void split(const uint8_t* row, size_t pixels, const ValueRow& out) {
  for (size_t j = split_vectors<T>(row, pixels, out); j < pixels; ++j) {
    for (size_t c = 0; c < 3; ++c) {
      put_one(static_cast<T*>(out.planes[c]) + j, row[3 * j + c], out.scale[c], out.bias[c]);
    }
  }
}

}  // namespace

void split_row(const uint8_t* row, size_t pixels, const ValueRow* out) noexcept {
  switch (out->value_size) {
    case 1:
      return split<uint8_t>(row, pixels, *out);
    case 2:
      return split<uint16_t>(row, pixels, *out);
    default:
      return split<float>(row, pixels, *out);
  }
}

void scale_row(const uint8_t* row, size_t size, const float* scale, const float* bias,
               float* out) noexcept {
  for (size_t i = scale_vectors(row, size, scale, bias, out); i < size; ++i) {
    out[i] = scaled(row, i, scale, bias);
  }
}

void scale_row_half(const uint8_t* row, size_t size, const float* scale, const float* bias,
                    uint16_t* out) noexcept {
  for (size_t i = scale_vectors(row, size, scale, bias, out); i < size; ++i) {
    out[i] = half_of(scaled(row, i, scale, bias));
  }
}

void to_half(const float* values, size_t size, uint16_t* out) noexcept {
  for (size_t i = half_vectors(values, size, out); i < size; ++i) out[i] = half_of(values[i]);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
