// Steps that change the value of each pixel by itself, or by what values there are.
#pragma once

#include <cstdint>

#include "headrace/images/pixel_steps.hpp"

namespace headrace {

// `kind` is brightness, contrast or saturation.
void change_colours(StepKind kind, float factor, ImageShape shape, std::uint8_t* pixels) noexcept;
// Sixths of the circle, 0 to 6.
[[nodiscard]] float hue_sixths(float circles) noexcept;
// The bits of a level that stay.
[[nodiscard]] unsigned posterize_mask(float bits) noexcept;

void turn_hue(float circles, ImageShape shape, std::uint8_t* pixels) noexcept;
void posterize(float bits, ImageShape shape, std::uint8_t* pixels) noexcept;
void solarize(float threshold, ImageShape shape, std::uint8_t* pixels) noexcept;
void stretch_contrast(ImageShape shape, std::uint8_t* pixels) noexcept;
void equalize(ImageShape shape, std::uint8_t* pixels) noexcept;

}  // namespace headrace
