#include "gpu/step_words.hpp"

#include <bit>
#include <cmath>

#include "core/images/pixel_colours.hpp"
#include "core/images/pixel_filters.hpp"
#include "core/images/pixel_moves.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {
namespace {

class Words {
 public:
  explicit Words(std::uint32_t* out) noexcept : out_(out) {}

  [[nodiscard]] std::size_t count() const noexcept { return count_; }
  [[nodiscard]] bool is_counting() const noexcept { return out_ == nullptr; }
  void skip(std::size_t words) noexcept { count_ += words; }
  void put(std::uint32_t word) noexcept {
    if (out_ != nullptr) out_[count_] = word;
    ++count_;
  }
  void put(float value) noexcept { put(std::bit_cast<std::uint32_t>(value)); }
  void put(std::uint64_t value) noexcept {
    put(static_cast<std::uint32_t>(value));
    put(static_cast<std::uint32_t>(value >> 32));
  }
  void put(std::int64_t value) noexcept { put(static_cast<std::uint64_t>(value)); }
  void put(std::size_t a, std::size_t b, std::size_t c, std::size_t d) noexcept {
    for (const std::size_t value : {a, b, c, d}) put(static_cast<std::uint32_t>(value));
  }
  void put(const Colour& colour) noexcept {
    put(colour[0] | std::uint32_t{colour[1]} << 8 | std::uint32_t{colour[2]} << 16);
  }

 private:
  std::uint32_t* out_;
  std::size_t count_ = 0;
};

constexpr std::int64_t kOne = std::int64_t{1} << kFixedBits;

void put_move(Words& words, const PixelPath& path, const Colour& colour) noexcept {
  words.put(std::uint32_t{kMove});
  for (const std::int64_t value :
       {path.x, path.y, path.right, path.down, path.next_x, path.next_y}) {
    words.put(value);
  }
  words.put(colour);
}

// Where the pixels of a picture come from that turns by `quarters` against the clock.
PixelPath path_of_turn(unsigned quarters, ImageShape shape) noexcept {
  const std::int64_t right = (static_cast<std::int64_t>(shape.width) - 1) * kOne;
  const std::int64_t bottom = (static_cast<std::int64_t>(shape.height) - 1) * kOne;
  if (quarters == 1) return {right, 0, 0, kOne, -kOne, 0};
  if (quarters == 2) return {right, bottom, -kOne, 0, 0, -kOne};
  return {0, bottom, 0, -kOne, kOne, 0};
}

void put_part(Words& words, Step step, std::span<const float> values, ImageShape shape) noexcept {
  const Window part = part_of(values, shape);
  words.put(std::uint32_t{step});
  words.put(part.left, part.top, part.width, part.height);
}

void put_blur(Words& words, float sigma, std::size_t half) noexcept {
  words.put(std::uint32_t{kBlur});
  words.put(static_cast<std::uint32_t>(half));
  if (words.is_counting()) return words.skip(half + 1);
  const BlurWeights weights = blur_weights(sigma, half);
  for (std::size_t k = 0; k <= half; ++k) words.put(weights[k]);
}

template <typename Number>
void put_step(Words& words, Step step, Number number) noexcept {
  words.put(std::uint32_t{step});
  words.put(number);
}

void put_translation(Words& words, std::span<const float> values, ImageShape shape) noexcept {
  const PixelShift shift = shift_of(values, shape);
  put_move(words, {shift.dx * kOne, shift.dy * kOne, kOne, 0, 0, kOne},
           colour_of(values.last(kRgbChannels)));
}

void put_words(Words& words, StepKind kind, std::span<const float> values,
               ImageShape shape) noexcept {
  const float first = values[0];
  if (std::isnan(first)) return;
  const bool is_wanted = first != 0;
  const std::int64_t right = (static_cast<std::int64_t>(shape.width) - 1) * kOne;
  const std::int64_t bottom = (static_cast<std::int64_t>(shape.height) - 1) * kOne;
  switch (kind) {
    case StepKind::brightness:
      return put_step(words, kBrightness, first);
    case StepKind::contrast:
      return put_step(words, kContrast, first);
    case StepKind::saturation:
      return put_step(words, kSaturation, first);
    case StepKind::flip:
      return is_wanted ? put_move(words, {right, 0, -kOne, 0, 0, kOne}, {}) : void();
    case StepKind::vertical_flip:
      return is_wanted ? put_move(words, {0, bottom, kOne, 0, 0, -kOne}, {}) : void();
    case StepKind::turn:
      return is_wanted ? put_move(words, path_of_turn(static_cast<unsigned>(first), shape), {})
                       : void();
    case StepKind::cutout:
      put_part(words, kFill, values, shape);
      return words.put(colour_of(values.last(kRgbChannels)));
    case StepKind::noise:
      put_part(words, kNoise, values, shape);
      return words.put(noise_seed(values));
    case StepKind::translate:
      return put_translation(words, values, shape);
    case StepKind::affine:
      return put_move(words, path_of(values), colour_of(values.last(kRgbChannels)));
    case StepKind::hue:
      return put_step(words, kHue, hue_sixths(first));
    case StepKind::posterize:
      return put_step(words, kPosterize, std::uint32_t{posterize_mask(first)});
    case StepKind::solarize:
      return put_step(words, kSolarize, first);
    case StepKind::autocontrast:
      return is_wanted ? words.put(std::uint32_t{kAutocontrast}) : void();
    case StepKind::equalize:
      return is_wanted ? words.put(std::uint32_t{kEqualize}) : void();
    case StepKind::sharpness:
      // A picture of two rows or columns is nothing but rim.
      return shape.width > 2 && shape.height > 2 ? put_step(words, kSharpness, first) : void();
    case StepKind::blur:
      return put_blur(words, first, static_cast<std::size_t>(values[1]) / 2);
    case StepKind::choice: {
      const auto chosen = static_cast<StepKind>(first);
      return put_words(words, chosen, values.subspan(1, values_per_picture(chosen)), shape);
    }
  }
}

}  // namespace

std::size_t write_step_words(std::span<const PixelStep> steps, std::size_t picture,
                             ImageShape shape, std::uint32_t* out) noexcept {
  Words words(out);
  for (const PixelStep& step : steps) {
    const std::size_t size = values_per_picture(step.kind);
    put_words(words, step.kind, step.values.subspan(picture * size, size), shape);
  }
  if (words.count() == 0) return 0;
  words.put(std::uint32_t{kNoMoreSteps});
  return words.count();
}

}  // namespace headrace::gpu
