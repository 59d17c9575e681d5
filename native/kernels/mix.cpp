// Two samples blended to one. Multiplication and addition are separate everywhere (the build
// forbids fusing them), so that all levels give the same bits.
#include "kernels/floats.hpp"
#include "kernels/kernels.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

inline float value_of(float value) { return value; }
inline float value_of(uint8_t value) { return value; }
inline float value_of(Half value) { return float_of(value.bits); }

inline void put(float value, float* out) { *out = value; }
inline void put(float value, uint8_t* out) { *out = static_cast<uint8_t>(value); }
inline void put(float value, Half* out) { out->bits = half_of(value); }

#if defined(__AVX2__)

inline void put(Floats values, float* out) { store(out, values); }
inline void put(Floats values, uint8_t* out) { store(out, cut(values)); }
inline void put(Floats values, Half* out) { store(out, values); }

// Whole vectors only; returns how far it came.
template <typename T>
inline size_t mix_vectors(const T* a, const T* b, size_t size, float weight, float rest, T* out) {
  const Floats weights = broadcast(weight);
  const Floats rests = broadcast(rest);
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    put(add(multiply(load(a + i), weights), multiply(load(b + i), rests)), out + i);
  }
  return i;
}

#else

template <typename T>
inline size_t mix_vectors(const T*, const T*, size_t, float, float, T*) {
  return 0;
}

#endif

template <typename T>
inline void mix(const T* a, const T* b, size_t size, float weight, T* out) {
  const float rest = 1 - weight;
  for (size_t i = mix_vectors(a, b, size, weight, rest, out); i < size; ++i) {
    put(value_of(a[i]) * weight + value_of(b[i]) * rest, out + i);
  }
}

}  // namespace

void mix_bytes(const uint8_t* a, const uint8_t* b, size_t size, float weight,
               uint8_t* out) noexcept {
  mix(a, b, size, weight, out);
}

void mix_halves(const uint16_t* a, const uint16_t* b, size_t size, float weight,
                uint16_t* out) noexcept {
  mix(reinterpret_cast<const Half*>(a), reinterpret_cast<const Half*>(b), size, weight,
      reinterpret_cast<Half*>(out));
}

void mix_floats(const float* a, const float* b, size_t size, float weight, float* out) noexcept {
  mix(a, b, size, weight, out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
