// Steps that move pixels or fill them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/images/pixel_steps.hpp"
#include "headrace/jpeg/window.hpp"

namespace headrace {

// What of the part that the first four values name lies in the picture.
[[nodiscard]] Window part_of(std::span<const float> values, ImageShape shape) noexcept;
[[nodiscard]] std::uint64_t noise_seed(std::span<const float> values) noexcept;

// Not further than the picture is large.
struct PixelShift {
  std::ptrdiff_t dy, dx;
};
[[nodiscard]] PixelShift shift_of(std::span<const float> values, ImageShape shape) noexcept;

// In 2^-16 of a pixel, as Pillow counts.
inline constexpr int kFixedBits = 16;

// Where the first pixel of a row comes from, how far from there the next one does, and how far the
// first one of the next row.
struct PixelPath {
  std::int64_t x, y;
  std::int64_t right, down;
  std::int64_t next_x, next_y;
};
[[nodiscard]] PixelPath path_of(std::span<const float> values) noexcept;

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
