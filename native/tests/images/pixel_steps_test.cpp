#include "headrace/images/pixel_steps.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

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
  StepScratch scratch;
  expect_ok(check_steps(std::span(&step, 1), 1, shape));
  prepare_steps(std::span(&step, 1), shape, scratch);
  apply_steps(std::span(&step, 1), 0, shape, pixels.data(), scratch);
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

// All kinds of steps, with values that do much.
std::vector<std::pair<StepKind, std::vector<float>>> some_steps() {
  return {{StepKind::hue, {0.07F}},
          {StepKind::hue, {-0.5F}},
          {StepKind::hue, {0.9999999F}},
          {StepKind::hue, {-1e30F}},
          {StepKind::posterize, {3}},
          {StepKind::solarize, {100.5F}},
          {StepKind::autocontrast, {1}},
          {StepKind::equalize, {1}},
          {StepKind::sharpness, {0}},
          {StepKind::sharpness, {0.37F}},
          {StepKind::sharpness, {-3e38F}},
          {StepKind::sharpness, {3e38F}},
          {StepKind::blur, {0.1F, 3}},
          {StepKind::blur, {1.7F, 9}},
          {StepKind::blur, {1e-30F, 9}},
          {StepKind::blur, {3e38F, 255}},
          {StepKind::affine, {0.8F, -0.6F, 9.5F, 0.6F, 0.8F, -3.25F, 1, 2, 3}},
          {StepKind::affine, {-1, 0.001F, 20, 0, -1, 5, 1, 2, 3}},
          {StepKind::affine, {1e6F, -1e6F, 1e6F, -1e6F, 1e6F, -1e6F, 1, 2, 3}},
          {StepKind::affine, {1, 0, 1e6F, 0, 1, 0, 1, 2, 3}},
          {StepKind::noise, {1, 1, 200, 200, 16777215, 7}},
          {StepKind::noise, {-3e38F, 2, 3e38F, 1, 0, 0}},
          {StepKind::vertical_flip, {1}},
          {StepKind::turn, {2}},
          {StepKind::choice, {static_cast<float>(StepKind::blur), 2, 5, 0, 0, 0, 0, 0, 0, 0}},
          {StepKind::choice, {static_cast<float>(StepKind::affine), 0, 1, 0, 1, 0, 0, 9, 9, 9}}};
}

TEST(PixelSteps, EveryStepIsTheSameAtEveryLevel) {
  for (const ImageShape shape :
       {ImageShape{1, 1}, {2, 2}, {1, 9}, {9, 1}, {3, 3}, {17, 5}, {64, 1}, {65, 3}, {131, 40}}) {
    const Pixels pixels = random_pixels(shape, 7);
    for (const auto& [kind, values] : some_steps()) {
      Pixels expected;
      {
        const LevelGuard guard(SimdLevel::scalar);
        expected = apply(pixels, shape, kind, values);
      }
      for (const SimdLevel level : available_levels()) {
        const LevelGuard guard(level);
        ASSERT_EQ(apply(pixels, shape, kind, values), expected)
            << step_kind_name(kind) << " " << values[0] << " " << simd_level_name(level) << " "
            << shape.width << "x" << shape.height;
      }
    }
  }
}

// Every colour there is.
TEST(PixelSteps, HueOfEveryColour) {
  Pixels pixels(std::size_t{256} * 256 * 3);
  for (unsigned red = 0; red < 256; red += 3) {
    for (unsigned i = 0; i < 65536; ++i) {
      pixels[3 * i] = static_cast<std::uint8_t>(red);
      pixels[3 * i + 1] = static_cast<std::uint8_t>(i >> 8);
      pixels[3 * i + 2] = static_cast<std::uint8_t>(i);
    }
    Pixels expected = pixels;
    kernels::scalar::shift_hue(expected.data(), 65536, 1.7F);
    for (const SimdLevel level : available_levels()) {
      const LevelGuard guard(level);
      ASSERT_EQ(apply(pixels, {256, 256}, StepKind::hue, {0}), pixels) << red;
    }
    Pixels back = expected;
    kernels::scalar::shift_hue(back.data(), 65536, 6 - 1.7F);
    for (std::size_t i = 0; i < back.size(); ++i) {  // what is largest and smallest stays
      const auto [low, high] =
          std::minmax({pixels[i - i % 3], pixels[i - i % 3 + 1], pixels[i - i % 3 + 2]});
      ASSERT_GE(expected[i], low);
      ASSERT_LE(expected[i], high);
      ASSERT_LE(std::abs(back[i] - pixels[i]), 1);
    }
  }
}

TEST(PixelSteps, NotANumberDoesNothing) {
  const Pixels pixels = random_pixels({7, 5}, 1);
  for (const StepKind kind :
       {StepKind::brightness, StepKind::contrast, StepKind::saturation, StepKind::hue,
        StepKind::posterize, StepKind::solarize, StepKind::sharpness, StepKind::blur,
        StepKind::affine, StepKind::choice}) {
    std::vector<float> values(values_per_picture(kind), 1);
    values[0] = kNan;
    EXPECT_EQ(apply(pixels, {7, 5}, kind, values), pixels);
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

TEST_P(PixelStepsMoving, VerticalFlipAndTurn) {
  EXPECT_EQ(apply(pixels_, shape_, StepKind::vertical_flip, {0}), pixels_);
  EXPECT_EQ(apply(pixels_, shape_, StepKind::vertical_flip, {1}),
            painted(shape_, [&](auto y, auto x) { return at(height() - 1 - y, x); }));
  EXPECT_EQ(apply(pixels_, shape_, StepKind::turn, {0}), pixels_);
  EXPECT_EQ(apply(pixels_, shape_, StepKind::turn, {2}),
            painted(shape_, [&](auto y, auto x) { return at(height() - 1 - y, width() - 1 - x); }));
  if (shape_.width != shape_.height) return;
  EXPECT_EQ(apply(pixels_, shape_, StepKind::turn, {1}),
            painted(shape_, [&](auto y, auto x) { return at(x, width() - 1 - y); }));
  EXPECT_EQ(apply(pixels_, shape_, StepKind::turn, {3}),
            painted(shape_, [&](auto y, auto x) { return at(width() - 1 - x, y); }));
}

TEST_P(PixelStepsMoving, Affine) {
  std::mt19937 engine(3);
  std::uniform_real_distribution<float> number(-2, 2);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> m = {number(engine),
                            number(engine),
                            9 * number(engine),
                            number(engine),
                            number(engine),
                            9 * number(engine),
                            5,
                            6,
                            7};
    if (i % 4 == 1) m[0] = m[4] = 1;
    if (i % 4 == 1) m[3] = 0;
    if (i % 4 == 2) m[0] = m[1] = 0;
    const auto fixed = [](double value) { return std::floor(value * 65536 + 0.5); };
    const auto part = [&](std::size_t k, std::ptrdiff_t y, std::ptrdiff_t x) {
      const double a = m[k];
      const double b = m[k + 1];
      const double first = fixed(m[k + 2] + a * 0.5 + b * 0.5);
      const double place =
          first + fixed(a) * static_cast<double>(x) + fixed(b) * static_cast<double>(y);
      return static_cast<std::ptrdiff_t>(std::floor(place / 65536));
    };
    ASSERT_EQ(apply(pixels_, shape_, StepKind::affine, m), painted(shape_, [&](auto y, auto x) {
                const std::ptrdiff_t from_x = part(0, y, x);
                const std::ptrdiff_t from_y = part(3, y, x);
                const bool is_inside =
                    from_x >= 0 && from_y >= 0 && from_x < width() && from_y < height();
                return is_inside ? at(from_y, from_x) : std::array<std::uint8_t, 3>{5, 6, 7};
              }));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PixelStepsMoving,
                         ::testing::Values(ImageShape{1, 1}, ImageShape{7, 7}, ImageShape{70, 70},
                                           ImageShape{2, 7}, ImageShape{9, 6}, ImageShape{8, 1},
                                           ImageShape{31, 2}, ImageShape{32, 3},
                                           ImageShape{77, 2}));

TEST(PixelSteps, InTheirOrderAndForTheirPicture) {
  const ImageShape shape{6, 4};
  const Pixels pixels = random_pixels(shape, 2);
  const std::vector<float> factors = {9, 0.5F};
  const std::vector<float> cuts = {0, 0, 4, 6, 1, 1, 1, 1, 2, 2, 2, 100, 0, 40};
  const PixelStep cut_first[] = {{StepKind::cutout, cuts}, {StepKind::brightness, factors}};
  StepScratch scratch;
  expect_ok(check_steps(cut_first, 2, shape));
  prepare_steps(cut_first, shape, scratch);
  EXPECT_TRUE(scratch.picture.empty());  // neither needs it
  Pixels out = pixels;
  apply_steps(cut_first, 1, shape, out.data(), scratch);
  EXPECT_EQ(out[3 * (6 + 2)], 50);
  EXPECT_EQ(out[0], pixels[0] / 2);
  const PixelStep cut_last[] = {{StepKind::brightness, factors}, {StepKind::cutout, cuts}};
  out = pixels;
  apply_steps(cut_last, 1, shape, out.data(), scratch);
  EXPECT_EQ(out[3 * (6 + 2)], 100);
}

TEST(PixelSteps, WrongValuesAreErrors) {
  const auto check = [](StepKind kind, const std::vector<float>& values) {
    const PixelStep step{kind, values};
    return check_steps(std::span(&step, 1), 1, {6, 4});
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
  for (const StepKind kind :
       {StepKind::turn, StepKind::vertical_flip, StepKind::autocontrast, StepKind::equalize}) {
    expect_code(check(kind, {kNan}), Code::invalid_argument);
    expect_ok(check(kind, {0}));
  }
  expect_code(check(StepKind::turn, {1}), Code::invalid_argument);  // not a square
  expect_ok(check(StepKind::turn, {2}));
  expect_code(check(StepKind::turn, {-2}), Code::invalid_argument);
  expect_code(check(StepKind::turn, {1.5F}), Code::invalid_argument);
  expect_code(check(StepKind::posterize, {8.5F}), Code::invalid_argument);
  expect_code(check(StepKind::posterize, {-1}), Code::invalid_argument);
  for (const StepKind kind : {StepKind::hue, StepKind::solarize, StepKind::sharpness}) {
    expect_code(check(kind, {kInfinity}), Code::invalid_argument);
    expect_ok(check(kind, {kNan}));
  }
  expect_code(check(StepKind::blur, {0, 3}), Code::invalid_argument);
  expect_code(check(StepKind::blur, {1, 4}), Code::invalid_argument);
  expect_code(check(StepKind::blur, {1, 257}), Code::invalid_argument);
  expect_code(check(StepKind::blur, {1, kNan}), Code::invalid_argument);
  expect_code(check(StepKind::noise, {0, 0, -1, 1, 0, 0}), Code::invalid_argument);
  expect_code(check(StepKind::noise, {0, 0, 1, 1, -1, 0}), Code::invalid_argument);
  expect_code(check(StepKind::noise, {0, 0, 1, 1, 0, 16777216}), Code::invalid_argument);
  expect_code(check(StepKind::affine, {1, 0, 2e6F, 0, 1, 0, 0, 0, 0}), Code::invalid_argument);
  expect_code(check(StepKind::affine, {1, 0, 0, 0, 1, 0, 0, 0, 256}), Code::invalid_argument);
  const auto choice = [&check](float kind, float first) {
    return check(StepKind::choice, {kind, first, 2, 0, 0, 0, 0, 0, 0, 0});
  };
  expect_ok(choice(kNan, 0));
  expect_ok(choice(static_cast<float>(StepKind::hue), 0.5F));
  expect_code(choice(-1, 0), Code::invalid_argument);
  expect_code(choice(static_cast<float>(StepKind::choice), 0), Code::invalid_argument);
  expect_code(choice(static_cast<float>(StepKind::turn), 1), Code::invalid_argument);
  expect_code(choice(static_cast<float>(StepKind::blur), 1), Code::invalid_argument);
  for (const std::string_view name : step_kind_names()) {
    EXPECT_EQ(step_kind_name(*parse_step_kind(name)), name);
  }
  EXPECT_EQ(parse_step_kind("poison"), std::nullopt);
}

}  // namespace
}  // namespace headrace
