// Steps that make each pixel of its neighbours.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "headrace/images/pixel_steps.hpp"

namespace headrace {

inline constexpr std::size_t kMaxBlurHalf = kMaxBlurTaps / 2;
using BlurWeights = std::array<float, kMaxBlurHalf + 1>;
// Of a Gaussian: the middle one first, then the `half` at one side.
[[nodiscard]] BlurWeights blur_weights(double sigma, std::size_t half) noexcept;

// Floats that blur needs for a row.
[[nodiscard]] std::size_t blur_row_size(ImageShape shape) noexcept;

void sharpen(float factor, ImageShape shape, std::uint8_t* pixels, StepScratch& scratch) noexcept;
// `taps` is odd and at most kMaxBlurTaps.
void blur(float sigma, std::size_t taps, ImageShape shape, std::uint8_t* pixels,
          StepScratch& scratch) noexcept;

}  // namespace headrace
