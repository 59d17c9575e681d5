// Steps that move pixels or fill them.
#pragma once

#include <cstdint>
#include <span>

#include "headrace/images/pixel_steps.hpp"

namespace headrace {

[[nodiscard]] Colour colour_of(std::span<const float> values) noexcept;

void flip(ImageShape shape, std::uint8_t* pixels) noexcept;
void flip_vertically(ImageShape shape, std::uint8_t* pixels, StepScratch& scratch) noexcept;
// By 0 to 3 quarters.
void turn(unsigned quarters, ImageShape shape, std::uint8_t* pixels, StepScratch& scratch) noexcept;
void cut_out(std::span<const float> values, ImageShape shape, std::uint8_t* pixels) noexcept;
void fill_with_noise(std::span<const float> values, ImageShape shape,
                     std::uint8_t* pixels) noexcept;
void translate(std::span<const float> values, ImageShape shape, std::uint8_t* pixels) noexcept;
void transform(std::span<const float> values, ImageShape shape, std::uint8_t* pixels,
               StepScratch& scratch) noexcept;

}  // namespace headrace
