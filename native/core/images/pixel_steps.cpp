#include "headrace/images/pixel_steps.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/images/pixel_colours.hpp"
#include "core/images/pixel_filters.hpp"
#include "core/images/pixel_moves.hpp"
#include "core/memory.hpp"

namespace headrace {
namespace {

constexpr std::array<std::string_view, 18> kStepNames = {
    "brightness",    "contrast",     "saturation", "flip",      "cutout", "translate",
    "vertical_flip", "turn",         "affine",     "noise",     "hue",    "posterize",
    "solarize",      "autocontrast", "equalize",   "sharpness", "blur",   "choice"};

constexpr std::array<std::size_t, kStepNames.size()> kStepValues = {1, 1, 1, 1, 7, 5, 1, 1, 9,
                                                                    6, 1, 1, 1, 1, 1, 1, 2, 10};

constexpr float kMostAffine = 1 << 20;
constexpr float kSeedHalf = 1 << 24;

Status wrong_values(StepKind kind, std::size_t picture, std::string_view rule) noexcept {
  return Status(Code::invalid_argument,
                Detail("step ") << step_kind_name(kind) << ", image " << picture << ": " << rule,
                static_cast<std::int64_t>(picture));
}

bool are_finite(std::span<const float> values) noexcept {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

bool is_colour(std::span<const float> values) noexcept {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return value >= 0 && value <= 255; });
}

bool has_colour(StepKind kind) noexcept {
  return kind == StepKind::cutout || kind == StepKind::translate || kind == StepKind::affine;
}

bool is_below(std::span<const float> values, float limit) noexcept {
  return std::all_of(values.begin(), values.end(),
                     [limit](float value) { return value >= 0 && value < limit; });
}

// A first value that is not a number says: nothing.
bool may_be_nothing(StepKind kind) noexcept {
  switch (kind) {
    case StepKind::brightness:
    case StepKind::contrast:
    case StepKind::saturation:
    case StepKind::affine:
    case StepKind::hue:
    case StepKind::posterize:
    case StepKind::solarize:
    case StepKind::sharpness:
    case StepKind::blur:
    case StepKind::choice:
      return true;
    case StepKind::flip:
    case StepKind::cutout:
    case StepKind::translate:
    case StepKind::vertical_flip:
    case StepKind::turn:
    case StepKind::noise:
    case StepKind::autocontrast:
    case StepKind::equalize:
      break;
  }
  return false;
}

// What is wrong with finite values; nothing when they are right.
std::string_view fault_of(StepKind kind, std::span<const float> values, ImageShape shape) noexcept {
  if (has_colour(kind) && !is_colour(values.last(kRgbChannels))) {
    return "a colour has red, green and blue of 0 to 255";
  }
  switch (kind) {
    case StepKind::cutout:
    case StepKind::noise:
      if (values[2] < 0 || values[3] < 0) return "height and width must not be negative";
      if (kind == StepKind::noise && !is_below(values.last(2), kSeedHalf)) {
        return "halves of a seed are 0 to 2^24 - 1";
      }
      break;
    case StepKind::turn:
      if (values[0] != 0 && values[0] != 1 && values[0] != 2 && values[0] != 3) {
        return "a picture turns by 0 to 3 quarters";
      }
      if (std::fmod(values[0], 2) != 0 && shape.width != shape.height) {
        return "only a square picture turns by a quarter";
      }
      break;
    case StepKind::affine:
      for (const float value : values.first(6)) {
        if (std::fabs(value) > kMostAffine) return "a number is above 2^20";
      }
      break;
    case StepKind::posterize:
      if (!(values[0] >= 0 && values[0] <= 8)) return "0 to 8 bits are kept";
      break;
    case StepKind::blur:
      if (values[0] <= 0) return "sigma must be above 0";
      if (values[1] < 1 || values[1] > static_cast<float>(kMaxBlurTaps) ||
          std::fmod(values[1], 2) != 1) {
        return "the number of taps is odd, 1 to 255";
      }
      break;
    default:
      break;
  }
  return {};
}

Status check_values(StepKind kind, std::span<const float> values, std::size_t picture,
                    ImageShape shape) noexcept {
  if (may_be_nothing(kind) && std::isnan(values[0])) return {};
  if (kind != StepKind::choice) {
    if (!are_finite(values))
      return wrong_values(kind, picture, "a value is not finite (infinite, or not a number)");
    const std::string_view fault = fault_of(kind, values, shape);
    return fault.empty() ? Status() : wrong_values(kind, picture, fault);
  }
  if (!(values[0] >= 0 && values[0] < static_cast<float>(StepKind::choice))) {
    return wrong_values(kind, picture, "there is no kind of that number");
  }
  const auto chosen = static_cast<StepKind>(values[0]);
  return check_values(chosen, values.subspan(1, values_per_picture(chosen)), picture, shape);
}

void apply_step(StepKind kind, std::span<const float> values, ImageShape shape,
                std::uint8_t* pixels, StepScratch& scratch) noexcept {
  const float first = values[0];
  if (std::isnan(first)) return;
  switch (kind) {
    case StepKind::brightness:
    case StepKind::contrast:
    case StepKind::saturation:
      return change_colours(kind, first, shape, pixels);
    case StepKind::flip:
      return first != 0 ? flip(shape, pixels) : void();
    case StepKind::cutout:
      return cut_out(values, shape, pixels);
    case StepKind::translate:
      return translate(values, shape, pixels);
    case StepKind::vertical_flip:
      return first != 0 ? flip_vertically(shape, pixels, scratch) : void();
    case StepKind::turn:
      return turn(static_cast<unsigned>(first), shape, pixels, scratch);
    case StepKind::affine:
      return transform(values, shape, pixels, scratch);
    case StepKind::noise:
      return fill_with_noise(values, shape, pixels);
    case StepKind::hue:
      return turn_hue(first, shape, pixels);
    case StepKind::posterize:
      return posterize(first, shape, pixels);
    case StepKind::solarize:
      return solarize(first, shape, pixels);
    case StepKind::autocontrast:
      return first != 0 ? stretch_contrast(shape, pixels) : void();
    case StepKind::equalize:
      return first != 0 ? equalize(shape, pixels) : void();
    case StepKind::sharpness:
      return sharpen(first, shape, pixels, scratch);
    case StepKind::blur:
      return blur(first, static_cast<std::size_t>(values[1]), shape, pixels, scratch);
    case StepKind::choice: {
      const auto chosen = static_cast<StepKind>(first);
      return apply_step(chosen, values.subspan(1, values_per_picture(chosen)), shape, pixels,
                        scratch);
    }
  }
}

bool needs_copy(StepKind kind) noexcept {
  return kind == StepKind::vertical_flip || kind == StepKind::turn || kind == StepKind::affine ||
         kind == StepKind::sharpness || kind == StepKind::blur || kind == StepKind::choice;
}

}  // namespace

void fill_pixels(std::uint8_t* pixels, std::size_t count, const Colour& colour) noexcept {
  if (count == 0) return;
  const std::size_t size = count * kRgbChannels;
  std::memcpy(pixels, colour.data(), kRgbChannels);
  // What is there already is copied behind itself: twice as much each time.
  for (std::size_t done = kRgbChannels; done < size; done *= 2) {
    std::memcpy(pixels + done, pixels, std::min(done, size - done));
  }
}

std::optional<StepKind> parse_step_kind(std::string_view name) noexcept {
  const auto found = std::find(kStepNames.begin(), kStepNames.end(), name);
  if (found == kStepNames.end()) return std::nullopt;
  return static_cast<StepKind>(found - kStepNames.begin());
}

std::string_view step_kind_name(StepKind kind) noexcept {
  return kStepNames[static_cast<std::size_t>(kind)];
}

std::size_t values_per_picture(StepKind kind) noexcept {
  return kStepValues[static_cast<std::size_t>(kind)];
}

std::span<const std::string_view> step_kind_names() noexcept { return kStepNames; }

Status check_steps(std::span<const PixelStep> steps, std::size_t pictures,
                   ImageShape shape) noexcept {
  for (const PixelStep& step : steps) {
    const std::size_t size = values_per_picture(step.kind);
    if (step.values.size() / size != pictures || step.values.size() % size != 0) {
      return Status(Code::invalid_argument, Detail("step ")
                                                << step_kind_name(step.kind) << " needs " << size
                                                << " values for each image");
    }
    for (std::size_t i = 0; i < pictures; ++i) {
      const Status status = check_values(step.kind, step.values.subspan(i * size, size), i, shape);
      if (!status.is_ok()) return status;
    }
  }
  return {};
}

void prepare_steps(std::span<const PixelStep> steps, ImageShape shape, StepScratch& scratch) {
  const bool is_copied = std::any_of(steps.begin(), steps.end(),
                                     [](const auto& step) { return needs_copy(step.kind); });
  if (!is_copied) return;
  grow(scratch.picture, shape.width * shape.height * kRgbChannels + 1);  // moves read one byte more
  grow(scratch.row, blur_row_size(shape));
}

void apply_steps(std::span<const PixelStep> steps, std::size_t picture, ImageShape shape,
                 std::uint8_t* pixels, StepScratch& scratch) noexcept {
  for (const PixelStep& step : steps) {
    const std::size_t size = values_per_picture(step.kind);
    apply_step(step.kind, step.values.subspan(picture * size, size), shape, pixels, scratch);
  }
}

}  // namespace headrace
