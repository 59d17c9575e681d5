#include "headrace/resample/resize.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::available_levels;
using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::LevelGuard;
using testing::random_bytes;

Bytes resize(const Bytes& pixels, ImageShape from, ImageShape to) {
  Bytes out(to.width * to.height * 3, std::byte{0xEE});
  expect_ok(resize_area(pixels, from, out, to));
  return out;
}

// Share of source cell [source, source + 1) under output cell `index`.
double coverage(std::size_t source, std::size_t index, double scale) {
  const double begin = std::max(static_cast<double>(source), static_cast<double>(index) * scale);
  const double end =
      std::min(static_cast<double>(source + 1), static_cast<double>(index + 1) * scale);
  return std::max(0.0, end - begin) / scale;
}

double reference_value(const Bytes& pixels, ImageShape from, ImageShape to, std::size_t x,
                       std::size_t y, std::size_t channel) {
  const double scale_x = static_cast<double>(from.width) / static_cast<double>(to.width);
  const double scale_y = static_cast<double>(from.height) / static_cast<double>(to.height);
  const auto first = [](std::size_t i, double scale) {
    return static_cast<std::size_t>(static_cast<double>(i) * scale);
  };
  double sum = 0;
  for (std::size_t row = first(y, scale_y); row < std::min(from.height, first(y + 1, scale_y) + 2);
       ++row) {
    for (std::size_t column = first(x, scale_x);
         column < std::min(from.width, first(x + 1, scale_x) + 2); ++column) {
      sum += coverage(row, y, scale_y) * coverage(column, x, scale_x) *
             testing::level_of(pixels[(row * from.width + column) * 3 + channel]);
    }
  }
  return sum;
}

// Largest difference from the exact value; half a grey level is rounding.
double largest_error(const Bytes& pixels, ImageShape from, const Bytes& out, ImageShape to) {
  double largest = 0;
  for (std::size_t y = 0; y < to.height; ++y) {
    for (std::size_t x = 0; x < to.width; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const double value = testing::level_of(out[(y * to.width + x) * 3 + c]);
        largest = std::max(largest, std::abs(value - reference_value(pixels, from, to, x, y, c)));
      }
    }
  }
  return largest;
}

const std::vector<std::pair<ImageShape, ImageShape>> kCases = {
    {{1, 1}, {1, 1}},     {{2, 1}, {1, 1}},     {{1, 2}, {1, 1}},        {{7, 5}, {1, 1}},
    {{3, 3}, {2, 2}},     {{4, 4}, {3, 3}},     {{4, 6}, {2, 3}},        {{9, 9}, {3, 3}},
    {{17, 13}, {16, 12}}, {{64, 48}, {63, 1}},  {{48, 64}, {1, 63}},     {{100, 80}, {37, 29}},
    {{333, 5}, {10, 5}},  {{5, 333}, {5, 10}},  {{129, 65}, {64, 32}},   {{500, 37}, {224, 17}},
    {{21, 22}, {20, 22}}, {{1000, 3}, {3, 1}},  {{3, 1000}, {1, 7}},     {{31, 31}, {5, 31}},
    {{86, 86}, {43, 43}}, {{85, 96}, {34, 24}}, {{257, 255}, {256, 254}}};

TEST(Resize, EqualsTheExactAverage) {
  std::uint32_t seed = 0;
  for (const auto& [from, to] : kCases) {
    const Bytes pixels = random_bytes(from.width * from.height * 3, seed++);
    // OpenCV leaves out sources covered by less than a thousandth; that adds to the rounding.
    EXPECT_LE(largest_error(pixels, from, resize(pixels, from, to), to), 0.501 + 0.26)
        << from.width << "x" << from.height << " to " << to.width << "x" << to.height;
  }
}

TEST(Resize, ManySizes) {
  std::mt19937 engine(42);
  for (int i = 0; i < 300; ++i) {
    const ImageShape from{1 + engine() % 90, 1 + engine() % 60};
    const ImageShape to{1 + engine() % from.width, 1 + engine() % from.height};
    const Bytes pixels = random_bytes(from.width * from.height * 3, engine());
    ASSERT_LE(largest_error(pixels, from, resize(pixels, from, to), to), 0.501 + 0.26)
        << from.width << "x" << from.height << " to " << to.width << "x" << to.height;
  }
}

TEST(Resize, AllLevelsAgree) {
  std::mt19937 engine(7);
  for (int i = 0; i < 400; ++i) {
    const ImageShape from = i % 20 == 0 ? ImageShape{700 + engine() % 300, 100 + engine() % 99}
                                        : ImageShape{1 + engine() % 200, 1 + engine() % 60};
    const ImageShape to{1 + engine() % from.width, 1 + engine() % from.height};
    const Bytes pixels = random_bytes(from.width * from.height * 3, engine());
    Bytes expected;
    for (const SimdLevel level : available_levels()) {
      const LevelGuard guard(level);
      Bytes out = resize(pixels, from, to);
      if (level == SimdLevel::scalar) expected = out;
      ASSERT_EQ(out, expected) << simd_level_name(level) << " " << from.width << "x" << from.height
                               << " to " << to.width << "x" << to.height;
    }
  }
}

TEST(Resize, ConstantStaysConstant) {
  for (const int grey : {0, 1, 127, 254, 255}) {
    for (const auto& [from, to] : kCases) {
      const Bytes pixels(from.width * from.height * 3, static_cast<std::byte>(grey));
      EXPECT_EQ(resize(pixels, from, to),
                Bytes(to.width * to.height * 3, static_cast<std::byte>(grey)));
    }
  }
}

TEST(Resize, HalvingRoundsUpAtTheMiddle) {
  // Sums 2 and 6 of four pixels: 0.5 and 1.5.
  Bytes pixels(2 * 2 * 3, std::byte{0});
  pixels[0] = std::byte{2};
  pixels[1] = std::byte{6};
  EXPECT_EQ(resize(pixels, {2, 2}, {1, 1}), (Bytes{std::byte{1}, std::byte{2}, std::byte{0}}));
}

TEST(Resize, OtherWholeFactorsRoundToEven) {
  // Sums 4 and 12 of eight pixels: 0.5 and 1.5.
  Bytes pixels(4 * 2 * 3, std::byte{0});
  pixels[0] = std::byte{4};
  pixels[1] = std::byte{12};
  EXPECT_EQ(resize(pixels, {4, 2}, {1, 1}), (Bytes{std::byte{0}, std::byte{2}, std::byte{0}}));
}

TEST(Resize, EqualSizeCopies) {
  const Bytes pixels = random_bytes(31 * 7 * 3, 9);
  EXPECT_EQ(resize(pixels, {31, 7}, {31, 7}), pixels);
}

TEST(Resize, WrongArgumentsAreErrors) {
  Bytes pixels(10 * 10 * 3);
  Bytes out(5 * 5 * 3);
  Bytes large(20 * 10 * 3);
  expect_code(resize_area(pixels, {10, 10}, large, {20, 10}), Code::invalid_argument);
  expect_code(resize_area(pixels, {10, 10}, large, {10, 20}), Code::invalid_argument);
  expect_code(resize_area(pixels, {10, 10}, {}, {0, 5}), Code::invalid_argument);
  expect_code(resize_area({}, {0, 0}, {}, {0, 0}), Code::invalid_argument);
  expect_code(resize_area(pixels, {10, 11}, out, {5, 5}), Code::invalid_argument);
  expect_code(resize_area(pixels, {10, 10}, out, {5, 6}), Code::invalid_argument);
  expect_code(resize_area(pixels, {1ULL << 62, 8}, out, {5, 5}), Code::too_large);
  expect_code(resize_area(pixels, {1ULL << 32, 1}, out, {5, 1}), Code::too_large);
  expect_code(resize_area(pixels, {10, 10}, std::span(pixels).first(75), {5, 5}),
              Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
