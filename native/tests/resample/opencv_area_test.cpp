#include "headrace/resample/opencv_area.hpp"

#include <algorithm>
#include <cmath>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::available_levels;
using testing::Bytes;
using testing::expect_ok;
using testing::LevelGuard;
using testing::random_bytes;

std::uint8_t* values_of(Bytes& bytes) { return reinterpret_cast<std::uint8_t*>(bytes.data()); }
const std::uint8_t* values_of(const Bytes& bytes) {
  return reinterpret_cast<const std::uint8_t*>(bytes.data());
}

Bytes resize(const Bytes& pixels, ImageShape from, ImageShape to, bool is_flipped = false) {
  OpenCvArea area;
  expect_ok(area.plan(from, to, is_flipped));
  const std::size_t row = to.width * 3;
  Bytes out(row * to.height + 1, std::byte{0xEE});
  for (std::size_t y = 0; y < to.height; ++y) {
    area.write_row(values_of(pixels), from.width * 3, y, values_of(out) + y * row);
  }
  EXPECT_EQ(out.back(), std::byte{0xEE});  // nothing written behind the image
  out.pop_back();
  return out;
}

// A side grows: weights of 11 bits, and what OpenCV cuts off where.
struct Neighbours {
  std::size_t first, second;
  int first_weight, second_weight;
};

Neighbours neighbours_of(std::size_t from, std::size_t to, std::size_t i) {
  const double inverse = static_cast<double>(to) / static_cast<double>(from);
  const auto source = static_cast<std::size_t>(std::floor(static_cast<double>(i) * (1 / inverse)));
  auto share =
      static_cast<float>(static_cast<double>(i + 1) - static_cast<double>(source + 1) * inverse);
  share = share <= 0 ? 0 : share - std::floor(share);
  return {source, std::min(source + 1, from - 1), static_cast<int>(std::lrint((1 - share) * 2048)),
          static_cast<int>(std::lrint(share * 2048))};
}

int between(int a, int b, const Neighbours& x) { return a * x.first_weight + b * x.second_weight; }

int grown_value(const Bytes& pixels, ImageShape from, ImageShape to, std::size_t x, std::size_t y,
                std::size_t channel) {
  Neighbours across = neighbours_of(from.width, to.width, x);
  const Neighbours down = neighbours_of(from.height, to.height, y);
  if (across.first == across.second) across = {across.first, across.second, 2048, 0};
  const auto row = [&](std::size_t at) {
    const std::uint8_t* source = values_of(pixels) + at * from.width * 3 + channel;
    return between(source[3 * across.first], source[3 * across.second], across) >> 4;
  };
  const int top = (row(down.first) * down.first_weight) >> 16;
  const int bottom = (row(down.second) * down.second_weight) >> 16;
  return (top + bottom + 2) >> 2;
}

TEST(OpenCvArea, GrowingIsFixedPoint) {
  std::mt19937 engine(1);
  for (int i = 0; i < 200; ++i) {
    const ImageShape from{1 + engine() % 60, 1 + engine() % 40};
    ImageShape to{1 + engine() % 120, 1 + engine() % 80};
    if (i % 2 == 0) to.width = from.width + 1 + engine() % 60;
    if (to.width <= from.width && to.height <= from.height) continue;
    const Bytes pixels = random_bytes(from.width * from.height * 3, engine());
    const Bytes out = resize(pixels, from, to);
    for (std::size_t at = 0; at < out.size(); ++at) {
      const std::size_t x = at / 3 % to.width;
      const std::size_t y = at / 3 / to.width;
      ASSERT_EQ(values_of(out)[at], grown_value(pixels, from, to, x, y, at % 3))
          << from.width << "x" << from.height << " to " << to.width << "x" << to.height;
    }
  }
}

TEST(OpenCvArea, AllLevelsAgree) {
  std::mt19937 engine(2);
  for (int i = 0; i < 500; ++i) {
    const std::size_t most = i % 5 == 0 ? 500 : 80;
    const ImageShape from{1 + engine() % most, 1 + engine() % most};
    const ImageShape to{1 + engine() % (i % 3 == 0 ? most : from.width),
                        1 + engine() % (i % 3 == 0 ? most : from.height)};
    const Bytes pixels = random_bytes(from.width * from.height * 3, engine());
    Bytes expected;
    for (const SimdLevel level : available_levels()) {
      const LevelGuard guard(level);
      Bytes out = resize(pixels, from, to, i % 2 == 0);
      if (level == SimdLevel::scalar) expected = out;
      ASSERT_EQ(out, expected) << simd_level_name(level) << " " << from.width << "x" << from.height
                               << " to " << to.width << "x" << to.height;
    }
  }
}

// Both kinds of large boxes: many rows, and sums that single precision does not hold.
TEST(OpenCvArea, LargeBoxes) {
  for (const auto& [from, to] : {std::pair{ImageShape{40, 200}, ImageShape{4, 2}},
                                 {{200, 40}, {2, 4}},
                                 {{600, 400}, {2, 1}},
                                 {{700, 300}, {1, 1}}}) {
    const Bytes pixels = random_bytes(from.width * from.height * 3, 3);
    const std::size_t columns = from.width / to.width;
    const std::size_t rows = from.height / to.height;
    const Bytes out = resize(pixels, from, to);
    for (std::size_t at = 0; at < out.size(); ++at) {
      const std::size_t x = at / 3 % to.width * columns;
      const std::size_t y = at / 3 / to.width * rows;
      double sum = 0;
      for (std::size_t i = 0; i < columns * rows; ++i) {
        const std::size_t pixel = (y + i / columns) * from.width + x + i % columns;
        sum += testing::level_of(pixels[3 * pixel + at % 3]);
      }
      ASSERT_NEAR(values_of(out)[at], sum / static_cast<double>(columns * rows), 0.501);
    }
  }
}

TEST(OpenCvArea, RowsInAnyOrder) {
  for (const ImageShape to : {ImageShape{17, 23}, {60, 100}, {5, 2}, {25, 45}}) {
    const ImageShape from{50, 90};
    const Bytes pixels = random_bytes(from.width * from.height * 3, 8);
    const Bytes expected = resize(pixels, from, to);
    OpenCvArea area;
    expect_ok(area.plan(from, to, false));
    Bytes row(to.width * 3);
    for (const std::size_t at : {22U, 0U, 1U, 12U, 11U, 5U, 6U, 22U}) {
      const std::size_t y = at % to.height;
      area.write_row(values_of(pixels), from.width * 3, y, values_of(row));
      const auto* begin = expected.data() + y * row.size();
      EXPECT_EQ(row, Bytes(begin, begin + row.size())) << to.width << " row " << y;
    }
  }
}

TEST(OpenCvArea, FlipIsTheMirrorImage) {
  for (const ImageShape to : {ImageShape{17, 13}, {70, 13}, {25, 20}}) {
    const Bytes pixels = random_bytes(50 * 40 * 3, 8);
    const Bytes plain = resize(pixels, {50, 40}, to);
    const Bytes flipped = resize(pixels, {50, 40}, to, true);
    for (std::size_t i = 0; i < plain.size(); ++i) {
      const std::size_t mirrored = to.width - 1 - i / 3 % to.width;
      ASSERT_EQ(flipped[(i / 3 / to.width * to.width + mirrored) * 3 + i % 3], plain[i]);
    }
  }
}

TEST(OpenCvArea, EqualSizeCopies) {
  const Bytes pixels = random_bytes(31 * 9 * 3, 9);
  EXPECT_EQ(resize(pixels, {31, 9}, {31, 9}), pixels);
}

}  // namespace
}  // namespace headrace
