// Changes to finished pictures, one after another, each with numbers of its own for every picture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "headrace/image.hpp"
#include "headrace/status.hpp"

namespace headrace {

using Colour = std::array<std::uint8_t, kRgbChannels>;

// Interleaved RGB.
void fill_pixels(std::uint8_t* pixels, std::size_t count, const Colour& colour) noexcept;

// With what a step needs for each picture. Colours are as FFCV has them: the picture times a factor
// plus another one times (1 - factor), cut to 0..255 and then to a whole number; a factor that is
// not a number leaves the picture alone. Grey is .2989 red + .587 green + .114 blue. Positions and
// sizes lose what is behind the point.
enum class StepKind : std::uint8_t {
  brightness,  // factor; the other one is black
  contrast,    // factor; the other one is the mean of the grey picture, everywhere
  saturation,  // factor; the other one is the grey picture
  flip,        // not 0: left and right change places
  cutout,      // top, left, height, width of the part to fill, and the colour: red, green, blue
  translate,   // dy, dx, and a colour: pixel (y, x) is what was at (y + dy, x + dx), or the colour
};

[[nodiscard]] std::optional<StepKind> parse_step_kind(std::string_view name) noexcept;
[[nodiscard]] std::string_view step_kind_name(StepKind kind) noexcept;
[[nodiscard]] std::size_t values_per_picture(StepKind kind) noexcept;

struct PixelStep {
  StepKind kind;
  std::span<const float> values;  // those of the first picture, of the second, ...
};

// Fails with `invalid_argument` unless every step has its values for every picture and they make
// sense. An error's offset is the number of the picture.
Status check_steps(std::span<const PixelStep> steps, std::size_t pictures) noexcept;

// Changes interleaved RGB, without gaps between its rows. Only steps that check_steps accepts.
void apply_steps(std::span<const PixelStep> steps, std::size_t picture, ImageShape shape,
                 std::uint8_t* pixels) noexcept;

}  // namespace headrace
