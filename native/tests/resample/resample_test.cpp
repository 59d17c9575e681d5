#include "headrace/resample/resample.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::available_levels;
using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::LevelGuard;
using testing::random_bytes;

struct Case {
  ImageShape shape;  // the view
  Region region;
  ImageShape out;
  ResampleFilter filter;
  bool is_flipped = false;
};

std::string text_of(const Case& c) {
  return std::to_string(c.shape.width) + "x" + std::to_string(c.shape.height) + " region " +
         std::to_string(c.region.left) + "," + std::to_string(c.region.top) + " " +
         std::to_string(c.region.width) + "x" + std::to_string(c.region.height) + " to " +
         std::to_string(c.out.width) + "x" + std::to_string(c.out.height) + " filter " +
         std::to_string(static_cast<int>(c.filter)) + (c.is_flipped ? " flipped" : "");
}

Bytes resample(const Bytes& pixels, const Case& c) {
  Resampler resampler;
  expect_ok(resampler.plan(c.shape, c.region, c.filter, c.out, c.is_flipped));
  const PixelView view{pixels.data(), c.shape.width * 3, c.shape};
  Bytes out(c.out.width * c.out.height * 3 + 1, std::byte{0xEE});
  for (std::size_t y = 0; y < c.out.height; ++y) {
    resampler.write_row(view, y, reinterpret_cast<std::uint8_t*>(out.data()) + y * c.out.width * 3);
  }
  EXPECT_EQ(out.back(), std::byte{0xEE});  // nothing written behind the image
  out.pop_back();
  return out;
}

// Weight of every source of an axis for one output, written as the definition has it.
using Weights = std::vector<double>;

Weights normalized(Weights weights) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight /= sum;
  return weights;
}

Weights coverage(std::size_t limit, double begin, double length, std::size_t out, std::size_t i) {
  const double scale = length / static_cast<double>(out);
  const double from = begin + static_cast<double>(i) * scale;
  Weights weights(limit);
  for (std::size_t k = 0; k < limit; ++k) {
    weights[k] = std::max(0.0, std::min(from + scale, static_cast<double>(k + 1)) -
                                   std::max(from, static_cast<double>(k)));
  }
  return normalized(weights);
}

Weights triangle(std::size_t limit, double begin, double length, std::size_t out, std::size_t i) {
  const double scale = length / static_cast<double>(out);
  const double center = begin + (static_cast<double>(i) + 0.5) * scale;
  Weights weights(limit);
  for (std::size_t k = 0; k < limit; ++k) {
    const double distance = std::abs(static_cast<double>(k) + 0.5 - center) / std::max(scale, 1.0);
    weights[k] = std::max(0.0, 1 - distance);
  }
  return normalized(weights);
}

double sinc(double x) { return x == 0 ? 1 : std::sin(x * M_PI) / (x * M_PI); }

double sharp_weight(ResampleFilter filter, double x) {
  if (filter == ResampleFilter::lanczos) return x < 3 ? sinc(x) * sinc(x / 3) : 0;
  constexpr double a = -0.5;
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

Weights sharp(ResampleFilter filter, std::size_t limit, double begin, double length,
              std::size_t out, std::size_t i) {
  const double scale = length / static_cast<double>(out);
  const double center = begin + (static_cast<double>(i) + 0.5) * scale;
  const double unit = std::max(scale, 1.0);
  const double reach = unit * static_cast<double>(support_of(filter));
  Weights weights(limit);
  // Sources from one rounded end to the other, as Pillow has it.
  const auto first = static_cast<std::size_t>(std::max(center - reach + 0.5, 0.0));
  const auto last = std::min(limit, static_cast<std::size_t>(center + reach + 0.5));
  for (std::size_t k = first; k < last; ++k) {
    weights[k] = sharp_weight(filter, std::abs(static_cast<double>(k) + 0.5 - center) / unit);
  }
  return normalized(weights);
}

// Where a side grows: an output between two sources takes of each what lies under it.
Weights area_linear(std::size_t limit, double begin, double length, std::size_t out,
                    std::size_t i) {
  const double inverse = static_cast<double>(out) / length;
  const auto source = static_cast<std::size_t>(static_cast<double>(i) * (1 / inverse));
  double share = static_cast<double>(i + 1) - static_cast<double>(source + 1) * inverse;
  share = static_cast<float>(share) <= 0 ? 0 : share - std::floor(share);
  if (static_cast<double>(source + 1) >= length) share = 0;
  Weights weights(limit);
  const auto first = static_cast<std::size_t>(begin) + source;
  weights[first] = 1 - share;
  if (share > 0) weights[first + 1] = share;
  return weights;
}

// The source under the centre; positions add up, as in Pillow.
Weights nearest(std::size_t limit, double begin, double length, std::size_t out, std::size_t i) {
  const double scale = length / static_cast<double>(out);
  double position = begin + scale * 0.5;
  for (std::size_t k = 0; k < i; ++k) position += scale;
  Weights weights(limit);
  weights[static_cast<std::size_t>(position)] = 1;
  return weights;
}

Weights weights_of(const Case& c, bool is_column, std::size_t i) {
  const std::size_t limit = is_column ? c.shape.width : c.shape.height;
  const double begin = is_column ? c.region.left : c.region.top;
  const double length = is_column ? c.region.width : c.region.height;
  const std::size_t out = is_column ? c.out.width : c.out.height;
  if (is_column && c.is_flipped) i = out - 1 - i;
  if (c.filter == ResampleFilter::bilinear) return triangle(limit, begin, length, out, i);
  if (c.filter == ResampleFilter::nearest) return nearest(limit, begin, length, out, i);
  if (c.filter != ResampleFilter::area) return sharp(c.filter, limit, begin, length, out, i);
  const bool is_shrinking = c.region.width >= static_cast<double>(c.out.width) &&
                            c.region.height >= static_cast<double>(c.out.height);
  return is_shrinking ? coverage(limit, begin, length, out, i)
                      : area_linear(limit, begin, length, out, i);
}

double exact_value(const Bytes& pixels, const Case& c, const Weights& columns, const Weights& rows,
                   std::size_t channel) {
  double sum = 0;
  for (std::size_t y = 0; y < rows.size(); ++y) {
    if (rows[y] == 0) continue;
    double row = 0;
    for (std::size_t x = 0; x < columns.size(); ++x) {
      if (columns[x] == 0) continue;
      row += columns[x] * testing::level_of(pixels[(y * c.shape.width + x) * 3 + channel]);
    }
    sum += rows[y] * std::clamp(row, 0.0, 255.0);  // as Pillow does between its passes
  }
  return std::clamp(sum, 0.0, 255.0);
}

// Largest difference from the exact value; half a grey level is rounding.
double largest_error(const Bytes& pixels, const Bytes& out, const Case& c) {
  double largest = 0;
  std::vector<Weights> columns;
  for (std::size_t x = 0; x < c.out.width; ++x) columns.push_back(weights_of(c, true, x));
  for (std::size_t y = 0; y < c.out.height; ++y) {
    const Weights rows = weights_of(c, false, y);
    for (std::size_t x = 0; x < c.out.width; ++x) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        const double value = testing::level_of(out[(y * c.out.width + x) * 3 + channel]);
        largest =
            std::max(largest, std::abs(value - exact_value(pixels, c, columns[x], rows, channel)));
      }
    }
  }
  return largest;
}

constexpr std::array kFilters = {ResampleFilter::area, ResampleFilter::bilinear,
                                 ResampleFilter::bicubic, ResampleFilter::lanczos,
                                 ResampleFilter::nearest};

Case random_case(std::mt19937& engine, std::size_t most) {
  const ImageShape shape{1 + engine() % most, 1 + engine() % most};
  const std::size_t width = 1 + engine() % shape.width;
  const std::size_t height = 1 + engine() % shape.height;
  const Region region{static_cast<double>(engine() % (shape.width - width + 1)),
                      static_cast<double>(engine() % (shape.height - height + 1)),
                      static_cast<double>(width), static_cast<double>(height)};
  return {shape,
          region,
          {1 + engine() % most, 1 + engine() % most},
          kFilters[engine() % kFilters.size()],
          engine() % 2 == 0};
}

// Rounding, the sources covered by less than a thousandth that area leaves out, weights of 14 bits.
constexpr double kTolerance = 0.5 + 0.26 + 0.1;
// With many sharp taps grey levels are rounded between the passes too, as in Pillow.
constexpr double kSharpTolerance = 0.5 + 0.7 + 0.1;

double tolerance_of(ResampleFilter filter) {
  return support_of(filter) > 1 ? kSharpTolerance : kTolerance;
}

TEST(Resample, EqualsTheExactValue) {
  std::mt19937 engine(1);
  for (int i = 0; i < 300; ++i) {
    const Case c = random_case(engine, i % 10 == 0 ? 150 : 40);
    const Bytes pixels = random_bytes(c.shape.width * c.shape.height * 3, engine());
    for (const SimdLevel level : available_levels()) {
      const LevelGuard guard(level);
      ASSERT_LE(largest_error(pixels, resample(pixels, c), c), tolerance_of(c.filter))
          << text_of(c) << " " << simd_level_name(level);
    }
  }
}

TEST(Resample, FractionsOfPixels) {
  std::mt19937 engine(2);
  for (int i = 0; i < 60; ++i) {
    Case c{{60, 50}, {}, {1 + engine() % 20, 1 + engine() % 20}, ResampleFilter::area, false};
    const auto eighths = [&](unsigned most) {
      return 0.125 * static_cast<double>(engine() % most);
    };
    c.region = {eighths(40), eighths(40), 30 + eighths(160), 25 + eighths(160)};
    c.filter = kFilters[static_cast<std::size_t>(i) % kFilters.size()];
    const Bytes pixels = random_bytes(60 * 50 * 3, engine());
    ASSERT_LE(largest_error(pixels, resample(pixels, c), c), tolerance_of(c.filter)) << text_of(c);
  }
}

TEST(Resample, LargeReductions) {
  for (const ResampleFilter filter : kFilters) {
    for (const ImageShape out : {ImageShape{1, 1}, {3, 2}, {20, 9}}) {
      const Case c{{700, 300}, {1, 2, 698, 297}, out, filter, false};
      const Bytes pixels = random_bytes(700 * 300 * 3, 4);
      EXPECT_LE(largest_error(pixels, resample(pixels, c), c), tolerance_of(c.filter))
          << text_of(c);
    }
  }
}

TEST(Resample, AllLevelsAgree) {
  std::mt19937 engine(3);
  for (int i = 0; i < 500; ++i) {
    const Case c = random_case(engine, i % 3 == 0 ? 600 : 90);
    const Bytes pixels = random_bytes(c.shape.width * c.shape.height * 3, engine());
    Bytes expected;
    for (const SimdLevel level : available_levels()) {
      const LevelGuard guard(level);
      Bytes out = resample(pixels, c);
      if (level == SimdLevel::scalar) expected = out;
      ASSERT_EQ(out, expected) << text_of(c) << " " << simd_level_name(level);
    }
  }
}

TEST(Resample, EqualSizeCopies) {
  const Bytes pixels = random_bytes(31 * 9 * 3, 9);
  for (const ResampleFilter filter : kFilters) {
    EXPECT_EQ(resample(pixels, {{31, 9}, {0, 0, 31, 9}, {31, 9}, filter}), pixels);
  }
}

TEST(Resample, ConstantStaysConstant) {
  std::mt19937 engine(6);
  for (int i = 0; i < 60; ++i) {
    const Case c = random_case(engine, 120);
    for (const int grey : {0, 1, 254, 255}) {
      const Bytes pixels(c.shape.width * c.shape.height * 3, static_cast<std::byte>(grey));
      ASSERT_EQ(resample(pixels, c),
                Bytes(c.out.width * c.out.height * 3, static_cast<std::byte>(grey)))
          << text_of(c);
    }
  }
}

TEST(Resample, RowsInAnyOrder) {
  for (const ResampleFilter filter : kFilters) {
    const Case c{{50, 90}, {3, 4, 41, 80}, {17, 23}, filter, false};
    const Bytes pixels = random_bytes(50 * 90 * 3, 8);
    const Bytes expected = resample(pixels, c);
    Resampler resampler;
    expect_ok(resampler.plan(c.shape, c.region, c.filter, c.out, c.is_flipped));
    Bytes row(std::size_t{17} * 3);
    for (const std::size_t y : {22U, 0U, 1U, 12U, 11U, 5U, 6U, 22U}) {
      resampler.write_row({pixels.data(), 150, c.shape}, y,
                          reinterpret_cast<std::uint8_t*>(row.data()));
      const auto* begin = expected.data() + y * row.size();
      EXPECT_EQ(row, Bytes(begin, begin + row.size())) << text_of(c) << " row " << y;
    }
  }
}

TEST(Resample, FlipIsTheMirrorImage) {
  Case c{{50, 40}, {3, 4, 41, 29}, {17, 13}, ResampleFilter::area, false};
  const Bytes pixels = random_bytes(50 * 40 * 3, 8);
  const Bytes plain = resample(pixels, c);
  c.is_flipped = true;
  const Bytes flipped = resample(pixels, c);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t x = i / 3 % 17;
    ASSERT_EQ(flipped[i + (16 - 2 * x) * 3], plain[i]);
  }
}

TEST(Resample, WrongArgumentsAreErrors) {
  Resampler resampler;
  const auto plan = [&](ImageShape shape, const Region& region, ImageShape out) {
    return resampler.plan(shape, region, ResampleFilter::area, out, false);
  };
  expect_code(plan({0, 5}, {0, 0, 1, 1}, {5, 5}), Code::invalid_argument);
  expect_code(plan({5, 5}, {0, 0, 5, 5}, {0, 5}), Code::invalid_argument);
  expect_code(plan({1ULL << 32, 5}, {0, 0, 5, 5}, {5, 5}), Code::too_large);
  for (const Region& region : {Region{0, 0, 0, 1},
                               {-1, 0, 2, 2},
                               {0, 0, 6, 5},
                               {1, 0, 5, 5},
                               {0, 4, 5, 2},
                               {NAN, 0, 1, 1},
                               {0, 0, NAN, 1}}) {
    expect_code(plan({5, 5}, region, {5, 5}), Code::out_of_bounds);
  }
  expect_code(resampler.plan({5, 5}, {0.5, 0, 4, 4}, ResampleFilter::opencv_area, {2, 2}, false),
              Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
