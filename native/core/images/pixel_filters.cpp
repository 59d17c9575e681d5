#include "core/images/pixel_filters.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "core/dispatch.hpp"
#include "kernels/pixel_arithmetic.hpp"

namespace headrace {
namespace {

struct FilterKernels {
  decltype(&kernels::scalar::sharpen_row) sharpen_row;
  decltype(&kernels::scalar::blur_down) blur_down;
  decltype(&kernels::scalar::blur_across) blur_across;
};

#define HEADRACE_TABLE(level)                                                           \
  FilterKernels {                                                                       \
    kernels::level::sharpen_row, kernels::level::blur_down, kernels::level::blur_across \
  }
constexpr KernelTables<FilterKernels> kFilterKernels = HEADRACE_KERNEL_TABLES(HEADRACE_TABLE);
#undef HEADRACE_TABLE

std::size_t mirrored_position(std::ptrdiff_t position, std::size_t size) noexcept {
  return static_cast<std::size_t>(
      kernels::mirrored_position(position, static_cast<std::int64_t>(size)));
}

void mirror_ends(float* row, std::size_t width, std::size_t half) noexcept {
  for (std::size_t k = 1; k <= half; ++k) {
    const auto by = static_cast<std::ptrdiff_t>(k);
    const auto last = static_cast<std::ptrdiff_t>(width) - 1;
    const float* left = row + mirrored_position(-by, width) * kRgbChannels;
    const float* right = row + mirrored_position(last + by, width) * kRgbChannels;
    std::copy_n(left, kRgbChannels, row - by * static_cast<std::ptrdiff_t>(kRgbChannels));
    std::copy_n(right, kRgbChannels, row + (width - 1 + k) * kRgbChannels);
  }
}

}  // namespace

BlurWeights blur_weights(double sigma, std::size_t half) noexcept {
  std::array<double, kMaxBlurHalf + 1> exact{};
  double sum = 0;
  for (std::size_t k = 0; k <= half; ++k) {
    const double distance = static_cast<double>(k) / sigma;
    exact[k] = std::exp(-0.5 * distance * distance);
    sum += k == 0 ? exact[k] : 2 * exact[k];
  }
  BlurWeights weights{};
  for (std::size_t k = 0; k <= half; ++k) weights[k] = static_cast<float>(exact[k] / sum);
  return weights;
}

std::size_t blur_row_size(ImageShape shape) noexcept {
  return (shape.width + 2 * kMaxBlurHalf) * kRgbChannels;
}

void sharpen(float factor, ImageShape shape, std::uint8_t* pixels, StepScratch& scratch) noexcept {
  if (shape.width < 3 || shape.height < 3) return;  // nothing but rim
  const FilterKernels& kernels = in_use(kFilterKernels);
  const std::size_t stride = shape.width * kRgbChannels;
  const std::uint8_t* source = scratch.picture.data();
  std::memcpy(scratch.picture.data(), pixels, stride * shape.height);
  for (std::size_t y = 1; y + 1 < shape.height; ++y) {
    const std::size_t inner = y * stride + kRgbChannels;
    kernels.sharpen_row(source + inner, stride, stride - 2 * kRgbChannels, factor, pixels + inner);
  }
}

void blur(float sigma, std::size_t taps, ImageShape shape, std::uint8_t* pixels,
          StepScratch& scratch) noexcept {
  const FilterKernels& kernels = in_use(kFilterKernels);
  const std::size_t half = taps / 2;
  const BlurWeights weights = blur_weights(sigma, half);
  const std::size_t stride = shape.width * kRgbChannels;
  const std::uint8_t* source = scratch.picture.data();
  std::memcpy(scratch.picture.data(), pixels, stride * shape.height);
  float* row = scratch.row.data() + kMaxBlurHalf * kRgbChannels;
  std::array<const std::uint8_t*, 2 * kMaxBlurHalf + 1> rows{};
  for (std::size_t y = 0; y < shape.height; ++y) {
    rows[0] = source + y * stride;
    for (std::size_t k = 1; k <= half; ++k) {
      const auto at = static_cast<std::ptrdiff_t>(y);
      const auto by = static_cast<std::ptrdiff_t>(k);
      rows[2 * k - 1] = source + mirrored_position(at - by, shape.height) * stride;
      rows[2 * k] = source + mirrored_position(at + by, shape.height) * stride;
    }
    kernels.blur_down(rows.data(), weights.data(), half, stride, row);
    mirror_ends(row, shape.width, half);
    kernels.blur_across(row, weights.data(), half, stride, pixels + y * stride);
  }
}

}  // namespace headrace
