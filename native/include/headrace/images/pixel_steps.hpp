// Changes to finished pictures, one after another, each with numbers of its own for every picture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/image.hpp"
#include "headrace/status.hpp"

namespace headrace {

using Colour = std::array<std::uint8_t, kRgbChannels>;

// Interleaved RGB.
void fill_pixels(std::uint8_t* pixels, std::size_t count, const Colour& colour) noexcept;

// With what a step needs for each picture. Colours are as FFCV and torchvision have them: the
// picture times a factor plus another one times (1 - factor), cut to 0..255 and then to a whole
// number. A first value that is not a number leaves the picture alone, where the kind allows it
// (marked *). Grey is .2989 red + .587 green + .114 blue. Positions and sizes lose what is behind
// the point.
enum class StepKind : std::uint8_t {
  brightness,  // * factor; the other one is black
  contrast,    // * factor; the other one is the mean of the grey picture, everywhere
  saturation,  // * factor; the other one is the grey picture
  flip,        // not 0: left and right change places
  cutout,      // top, left, height, width of the part to fill, and the colour: red, green, blue
  translate,   // dy, dx, and a colour: pixel (y, x) is what was at (y + dy, x + dx), or the colour
  vertical_flip,  // not 0: top and bottom change places
  turn,           // quarter turns against the clock, of a square picture unless the number is even
  affine,  // * six numbers and a colour: pixel (y, x) is the one that has the point (ax + by + c,
           // dx + ey + f), or the colour; pixels have their points in the middle (Pillow's AFFINE)
  noise,   // top, left, height, width of the part to fill, and two halves of a seed below 2^24
  hue,     // * by how much of the circle the colours turn
  posterize,     // * how many bits are kept, 0 to 8
  solarize,      // * values from this one on are inverted
  autocontrast,  // not 0: the values of each channel are stretched to 0..255
  equalize,      // not 0: the values of each channel get as equal a histogram as they can
  sharpness,  // * factor; the other one is smoothed (3 x 3: ones, and 5 in the middle), but for its
              // rim
  blur,       // * sigma and the number of taps, odd: Gaussian; beyond the rim, the picture's mirror
              // image
  choice,  // * the number of one of the kinds above, and its values: another kind for each picture
};

inline constexpr std::size_t kMaxBlurTaps = 255;

// What steps need beside the picture; used from picture to picture.
struct StepScratch {
  std::vector<std::uint8_t> picture;
  std::vector<float> row;
};

[[nodiscard]] std::optional<StepKind> parse_step_kind(std::string_view name) noexcept;
[[nodiscard]] std::string_view step_kind_name(StepKind kind) noexcept;
[[nodiscard]] std::size_t values_per_picture(StepKind kind) noexcept;

struct PixelStep {
  StepKind kind;
  std::span<const float> values;  // those of the first picture, of the second, ...
};

// In the order of their numbers.
[[nodiscard]] std::span<const std::string_view> step_kind_names() noexcept;

// Fails with `invalid_argument` unless every step has its values for every picture of this shape
// and they make sense. An error's offset is the number of the picture.
Status check_steps(std::span<const PixelStep> steps, std::size_t pictures,
                   ImageShape shape) noexcept;

// Makes room for the steps. Throws std::bad_alloc.
void prepare_steps(std::span<const PixelStep> steps, ImageShape shape, StepScratch& scratch);

// Changes interleaved RGB, without gaps between its rows. Only steps that check_steps accepts, with
// a scratch that is prepared for them.
void apply_steps(std::span<const PixelStep> steps, std::size_t picture, ImageShape shape,
                 std::uint8_t* pixels, StepScratch& scratch) noexcept;

}  // namespace headrace
