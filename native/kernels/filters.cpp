// Pixels made of their neighbours. The loops are plain, so that the compiler finds the vectors of
// each level in them; multiplication and addition are separate everywhere (the build forbids fusing
// them) and come in the same order, so that all levels give the same bits.
#include "kernels/kernels.hpp"
#include "kernels/pixel_arithmetic.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

constexpr size_t kFilterChannels = 3;
constexpr size_t kSums = 256;  // sums that stay close while the taps are added

}  // namespace

void sharpen_row(const uint8_t* values, size_t stride, size_t size, float factor,
                 uint8_t* out) noexcept {
  const uint8_t* above = values - stride;
  const uint8_t* below = values + stride;
  const float rest = 1 - factor;
  for (size_t i = 0; i < size; ++i) {
    const uint8_t* a = above + i;
    const uint8_t* v = values + i;
    const uint8_t* b = below + i;
    const int around = *(a - kFilterChannels) + a[0] + a[kFilterChannels] + *(v - kFilterChannels) +
                       v[kFilterChannels] + *(b - kFilterChannels) + b[0] + b[kFilterChannels];
    out[i] = sharpened(v[0], around, factor, rest);
  }
}

void blur_down(const uint8_t* const* rows, const float* weights, size_t half, size_t size,
               float* out) noexcept {
  for (size_t begin = 0; begin < size; begin += kSums) {
    const size_t count = size - begin < kSums ? size - begin : kSums;
    float* sums = out + begin;
    const uint8_t* middle = rows[0] + begin;
    for (size_t i = 0; i < count; ++i) sums[i] = weights[0] * static_cast<float>(middle[i]);
    for (size_t k = 1; k <= half; ++k) {
      const float weight = weights[k];
      const uint8_t* above = rows[2 * k - 1] + begin;
      const uint8_t* below = rows[2 * k] + begin;
      for (size_t i = 0; i < count; ++i)
        sums[i] += weight * static_cast<float>(above[i] + below[i]);
    }
  }
}

void blur_across(const float* values, const float* weights, size_t half, size_t size,
                 uint8_t* out) noexcept {
  float sums[kSums];
  for (size_t begin = 0; begin < size; begin += kSums) {
    const size_t count = size - begin < kSums ? size - begin : kSums;
    const float* middle = values + begin;
    for (size_t i = 0; i < count; ++i) sums[i] = weights[0] * middle[i];
    for (size_t k = 1; k <= half; ++k) {
      const float weight = weights[k];
      const float* left = middle - k * kFilterChannels;
      const float* right = middle + k * kFilterChannels;
      for (size_t i = 0; i < count; ++i) sums[i] += weight * (left[i] + right[i]);
    }
    for (size_t i = 0; i < count; ++i) out[begin + i] = blurred(sums[i]);
  }
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
