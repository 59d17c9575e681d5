#include "headrace/images/mix.hpp"

#include <cstddef>
#include <cstdint>

#include "headrace/cpu.hpp"
#include "kernels/kernels.hpp"

namespace headrace {
namespace {

struct MixKernels {
  decltype(&kernels::scalar::mix_bytes) mix_bytes = kernels::scalar::mix_bytes;
  decltype(&kernels::scalar::mix_halves) mix_halves = kernels::scalar::mix_halves;
  decltype(&kernels::scalar::mix_floats) mix_floats = kernels::scalar::mix_floats;
};

MixKernels mix_kernels() noexcept {
#ifdef HEADRACE_X86_KERNELS
  switch (simd_level()) {
    case SimdLevel::avx512:
      return {kernels::avx512::mix_bytes, kernels::avx512::mix_halves, kernels::avx512::mix_floats};
    case SimdLevel::avx2:
      return {kernels::avx2::mix_bytes, kernels::avx2::mix_halves, kernels::avx2::mix_floats};
    case SimdLevel::sse42:
    case SimdLevel::scalar:
      break;
  }
#endif
  return {};
}

bool is_aligned(const std::byte* data, std::size_t alignment) noexcept {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

Status check(OutputType type, ByteSpan values, std::span<const float> weights,
             MutableByteSpan out) noexcept {
  const std::size_t samples = weights.size();
  const std::size_t value_size = size_bytes_of(type);
  if (values.size() != out.size()) {
    return Status(Code::invalid_argument, "values and out differ in size");
  }
  if (samples == 0 ? !values.empty() : values.size() % (samples * value_size) != 0) {
    return Status(Code::invalid_argument, "weights must have one entry for each sample");
  }
  if (!is_aligned(values.data(), value_size) || !is_aligned(out.data(), value_size)) {
    return Status(Code::invalid_argument, "an array is not aligned to its values");
  }
  if (is_overlapping(values, out)) return Status(Code::invalid_argument, "out overlaps values");
  for (std::size_t i = 0; i < samples; ++i) {
    if (weights[i] >= 0 && weights[i] <= 1) continue;  // written so that NaN fails too
    return Status(Code::invalid_argument, Detail("weight ") << i << " is not between 0 and 1",
                  static_cast<std::int64_t>(i));
  }
  return {};
}

template <typename T>
const T* as(const std::byte* data) noexcept {
  return reinterpret_cast<const T*>(data);
}

template <typename T>
T* as(std::byte* data) noexcept {
  return reinterpret_cast<T*>(data);
}

void mix_sample(OutputType type, const std::byte* a, const std::byte* b, std::size_t size_bytes,
                float weight, std::byte* out) noexcept {
  const MixKernels kernels = mix_kernels();
  const std::size_t size = size_bytes / size_bytes_of(type);
  switch (type) {
    case OutputType::uint8:
      return kernels.mix_bytes(as<std::uint8_t>(a), as<std::uint8_t>(b), size, weight,
                               as<std::uint8_t>(out));
    case OutputType::float16:
      return kernels.mix_halves(as<std::uint16_t>(a), as<std::uint16_t>(b), size, weight,
                                as<std::uint16_t>(out));
    case OutputType::float32:
      return kernels.mix_floats(as<float>(a), as<float>(b), size, weight, as<float>(out));
  }
}

}  // namespace

Status mix(OutputType type, ByteSpan values, std::span<const float> weights,
           MutableByteSpan out) noexcept {
  if (Status status = check(type, values, weights, out); !status.is_ok()) return status;
  const std::size_t samples = weights.size();
  const std::size_t size = samples == 0 ? 0 : values.size() / samples;
  for (std::size_t i = 0; i < samples; ++i) {
    const std::size_t before = i == 0 ? samples - 1 : i - 1;
    mix_sample(type, values.data() + i * size, values.data() + before * size, size, weights[i],
               out.data() + i * size);
  }
  return {};
}

}  // namespace headrace
