#include "headrace/images/pixel_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/kernels.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::available_levels;
using testing::expect_code;
using testing::expect_ok;
using testing::LevelGuard;
using Pixels = std::vector<std::uint8_t>;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Pixels random_pixels(ImageShape shape, std::uint32_t seed) {
  std::mt19937 engine(seed);
  Pixels pixels(shape.width * shape.height * 3);
  for (std::uint8_t& value : pixels) value = static_cast<std::uint8_t>(engine());
  return pixels;
}

Pixels apply(Pixels pixels, ImageShape shape, StepKind kind, const std::vector<float>& values) {
  const PixelStep step{kind, values};
  expect_ok(check_steps(std::span(&step, 1), 1));
  apply_steps(std::span(&step, 1), 0, shape, pixels.data());
  return pixels;
}

double grey(const std::uint8_t* p) {
  return std::floor(0.2989 * p[0] + 0.587 * p[1] + 0.114 * p[2]);
}

Pixels expected_colours(const Pixels& pixels, StepKind kind, double factor) {
  double mean = 0;
  for (std::size_t i = 0; i < pixels.size(); i += 3) mean += grey(&pixels[i]);
  mean /= static_cast<double>(pixels.size() / 3);
  Pixels out;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double other = kind == StepKind::brightness ? 0
                         : kind == StepKind::contrast ? mean
                                                      : grey(&pixels[i - i % 3]);
    const double own = factor * pixels[i];
    const double rest = (1 - factor) * other;
    out.push_back(static_cast<std::uint8_t>(std::clamp(own + rest, 0.0, 255.0)));
  }
  return out;
}

TEST(PixelSteps, ColoursAtEveryLevel) {
  for (const SimdLevel level : available_levels()) {
    const LevelGuard guard(level);
    for (const ImageShape shape : {ImageShape{1, 1}, {5, 3}, {16, 1}, {37, 29}, {224, 5}}) {
      const Pixels pixels = random_pixels(shape, 3);
      for (const float factor : {0.0F, 0.3F, 0.7F, 1.0F, 1.37F, 1.9F, -2.5F, 3e38F}) {
        for (const StepKind kind :
             {StepKind::brightness, StepKind::contrast, StepKind::saturation}) {
          ASSERT_EQ(apply(pixels, shape, kind, {factor}), expected_colours(pixels, kind, factor))
              << step_kind_name(kind) << " " << factor << " " << simd_level_name(level);
        }
      }
    }
  }
}

// Every colour there is, with every level of the kernels.
TEST(PixelSteps, GreyOfEveryColour) {
  Pixels pixels(std::size_t{256} * 256 * 3);
  for (unsigned red = 0; red < 256; ++red) {
    for (unsigned i = 0; i < 65536; ++i) {
      pixels[3 * i] = static_cast<std::uint8_t>(red);
      pixels[3 * i + 1] = static_cast<std::uint8_t>(i >> 8);
      pixels[3 * i + 2] = static_cast<std::uint8_t>(i);
    }
    Pixels expected = pixels;
    kernels::scalar::blend_with_grey(expected.data(), 65536, 0);
    for (const SimdLevel level : available_levels()) {
      const LevelGuard guard(level);
      ASSERT_EQ(apply(pixels, {256, 256}, StepKind::saturation, {0}), expected) << red;
    }
  }
}

TEST(PixelSteps, NotANumberDoesNothing) {
  const Pixels pixels = random_pixels({7, 5}, 1);
  for (const StepKind kind : {StepKind::brightness, StepKind::contrast, StepKind::saturation}) {
    EXPECT_EQ(apply(pixels, {7, 5}, kind, {kNan}), pixels);
  }
}

// Pixel (y, x) of the result is colour(y, x) of the definition.
template <typename Definition>
Pixels painted(ImageShape shape, Definition&& definition) {
  Pixels out;
  for (std::ptrdiff_t y = 0; y < static_cast<std::ptrdiff_t>(shape.height); ++y) {
    for (std::ptrdiff_t x = 0; x < static_cast<std::ptrdiff_t>(shape.width); ++x) {
      const std::array<std::uint8_t, 3> pixel = definition(y, x);
      out.insert(out.end(), pixel.begin(), pixel.end());
    }
  }
  return out;
}

class PixelStepsMoving : public ::testing::TestWithParam<ImageShape> {
 protected:
  [[nodiscard]] std::array<std::uint8_t, 3> at(std::ptrdiff_t y, std::ptrdiff_t x) const {
    const auto* p =
        &pixels_[static_cast<std::size_t>(y * static_cast<std::ptrdiff_t>(shape_.width) + x) * 3];
    return {p[0], p[1], p[2]};
  }
  [[nodiscard]] std::ptrdiff_t height() const { return static_cast<std::ptrdiff_t>(shape_.height); }
  [[nodiscard]] std::ptrdiff_t width() const { return static_cast<std::ptrdiff_t>(shape_.width); }

  ImageShape shape_ = GetParam();
  Pixels pixels_ = random_pixels(shape_, 5);
};

TEST_P(PixelStepsMoving, Flip) {
  EXPECT_EQ(apply(pixels_, shape_, StepKind::flip, {0}), pixels_);
  for (const SimdLevel level : available_levels()) {
    const LevelGuard guard(level);
    EXPECT_EQ(apply(pixels_, shape_, StepKind::flip, {1}),
              painted(shape_, [&](auto y, auto x) { return at(y, width() - 1 - x); }));
  }
}

TEST_P(PixelStepsMoving, Cutout) {
  for (const float top : {-3.0F, 0.0F, 2.0F, 50.0F, 3e38F, -3e38F}) {
    for (const float left : {-2.0F, 0.0F, 3.7F, 3e38F}) {
      for (const float height : {0.0F, 1.0F, 4.9F, 3e38F}) {
        for (const float width : {0.0F, 3.0F, 100.0F}) {
          const auto is_cut = [&](std::ptrdiff_t y, std::ptrdiff_t x) {
            const double dy = static_cast<double>(y) - std::trunc(static_cast<double>(top));
            const double dx = static_cast<double>(x) - std::trunc(static_cast<double>(left));
            return dy >= 0 && dx >= 0 && dy < std::trunc(height) && dx < std::trunc(width);
          };
          ASSERT_EQ(apply(pixels_, shape_, StepKind::cutout, {top, left, height, width, 1, 255, 7}),
                    painted(shape_,
                            [&](auto y, auto x) {
                              return is_cut(y, x) ? std::array<std::uint8_t, 3>{1, 255, 7}
                                                  : at(y, x);
                            }))
              << top << " " << left << " " << height << " " << width;
        }
      }
    }
  }
}

TEST_P(PixelStepsMoving, Translate) {
  for (const float dy : {-40.0F, -2.0F, 0.0F, 1.0F, 3.9F, 40.0F, 3e38F, -3e38F}) {
    for (const float dx : {-3e38F, -40.0F, -3.0F, -0.9F, 0.0F, 2.0F, 40.0F}) {
      ASSERT_EQ(apply(pixels_, shape_, StepKind::translate, {dy, dx, 9, 8, 250.9F}),
                painted(shape_,
                        [&](auto y, auto x) {
                          const double from_y = static_cast<double>(y) + std::trunc(dy);
                          const double from_x = static_cast<double>(x) + std::trunc(dx);
                          const bool is_inside = from_y >= 0 && from_x >= 0 &&
                                                 from_y < static_cast<double>(height()) &&
                                                 from_x < static_cast<double>(width());
                          return is_inside ? at(static_cast<std::ptrdiff_t>(from_y),
                                                static_cast<std::ptrdiff_t>(from_x))
                                           : std::array<std::uint8_t, 3>{9, 8, 250};
                        }))
          << dy << " " << dx;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PixelStepsMoving,
                         ::testing::Values(ImageShape{1, 1}, ImageShape{2, 7}, ImageShape{9, 6},
                                           ImageShape{8, 1}, ImageShape{31, 2}, ImageShape{32, 3},
                                           ImageShape{77, 2}));

TEST(PixelSteps, InTheirOrderAndForTheirPicture) {
  const ImageShape shape{6, 4};
  const Pixels pixels = random_pixels(shape, 2);
  const std::vector<float> factors = {9, 0.5F};
  const std::vector<float> cuts = {0, 0, 4, 6, 1, 1, 1, 1, 2, 2, 2, 100, 0, 40};
  const PixelStep cut_first[] = {{StepKind::cutout, cuts}, {StepKind::brightness, factors}};
  expect_ok(check_steps(cut_first, 2));
  Pixels out = pixels;
  apply_steps(cut_first, 1, shape, out.data());
  EXPECT_EQ(out[3 * (6 + 2)], 50);
  EXPECT_EQ(out[0], pixels[0] / 2);
  const PixelStep cut_last[] = {{StepKind::brightness, factors}, {StepKind::cutout, cuts}};
  out = pixels;
  apply_steps(cut_last, 1, shape, out.data());
  EXPECT_EQ(out[3 * (6 + 2)], 100);
}

TEST(PixelSteps, WrongValuesAreErrors) {
  const auto check = [](StepKind kind, const std::vector<float>& values) {
    const PixelStep step{kind, values};
    return check_steps(std::span(&step, 1), 1);
  };
  for (const StepKind kind : {StepKind::brightness, StepKind::contrast, StepKind::saturation}) {
    expect_code(check(kind, {kInfinity}), Code::invalid_argument);
    expect_code(check(kind, {}), Code::invalid_argument);
    expect_code(check(kind, {1, 1}), Code::invalid_argument);
  }
  expect_code(check(StepKind::flip, {kNan}), Code::invalid_argument);
  for (std::size_t i = 0; i < 7; ++i) {
    std::vector<float> cut = {0, 0, 1, 1, 0, 0, 0};
    expect_ok(check(StepKind::cutout, cut));
    cut[i] = kNan;
    expect_code(check(StepKind::cutout, cut), Code::invalid_argument);
    cut[i] = i < 2 ? -kInfinity : -1;
    expect_code(check(StepKind::cutout, cut), Code::invalid_argument);
  }
  expect_code(check(StepKind::cutout, {0, 0, 1, 1, 0, 256, 0}), Code::invalid_argument);
  expect_code(check(StepKind::translate, {0, kInfinity, 0, 0, 0}), Code::invalid_argument);
  expect_code(check(StepKind::translate, {0, 0, 0, 0, 300}), Code::invalid_argument);
  for (const std::string_view name :
       {"brightness", "contrast", "saturation", "flip", "cutout", "translate"}) {
    EXPECT_EQ(step_kind_name(*parse_step_kind(name)), name);
  }
  EXPECT_EQ(parse_step_kind("poison"), std::nullopt);
}

}  // namespace
}  // namespace headrace
