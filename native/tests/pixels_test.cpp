// The kernels behind type and layout, at every level.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include "kernels/kernels.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

struct Level {
  std::string name;
  decltype(&kernels::scalar::split_row) split_row;
  decltype(&kernels::scalar::scale_row) scale_row;
  decltype(&kernels::scalar::scale_row_half) scale_row_half;
  decltype(&kernels::scalar::to_half) to_half;
};

std::vector<Level> levels() {
  std::vector<Level> all = {{"scalar", kernels::scalar::split_row, kernels::scalar::scale_row,
                             kernels::scalar::scale_row_half, kernels::scalar::to_half}};
#if defined(__x86_64__)
  if (hardware_simd_level() >= SimdLevel::avx2) {
    all.push_back({"avx2", kernels::avx2::split_row, kernels::avx2::scale_row,
                   kernels::avx2::scale_row_half, kernels::avx2::to_half});
  }
  if (hardware_simd_level() >= SimdLevel::avx512) {
    all.push_back({"avx512", kernels::avx512::split_row, kernels::avx512::scale_row,
                   kernels::avx512::scale_row_half, kernels::avx512::to_half});
  }
#endif
  return all;
}

// What a half means, by the definition.
double value_of(std::uint16_t half) {
  const int exponent = half >> 10 & 0x1F;
  const int fraction = half & 0x3FF;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  return sign *
         (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

std::vector<std::uint16_t> convert(const Level& level, const std::vector<float>& values) {
  std::vector<std::uint16_t> out(values.size());
  level.to_half(values.data(), values.size(), out.data());
  return out;
}

TEST(Half, EveryValueStaysItself) {
  for (const Level& level : levels()) {
    std::vector<float> values;
    for (unsigned half = 0; half < 65536; ++half) {
      values.push_back(static_cast<float>(value_of(static_cast<std::uint16_t>(half))));
    }
    const auto out = convert(level, values);
    for (unsigned half = 0; half < 65536; ++half) {
      if (std::isnan(values[half])) {
        ASSERT_TRUE(std::isnan(value_of(out[half]))) << level.name << " " << half;
      } else {
        ASSERT_EQ(out[half], half) << level.name;
      }
    }
  }
}

// Between two neighbours: the nearer one, and the even one in the middle.
TEST(Half, RoundsToNearestEven) {
  std::vector<float> values;
  std::vector<std::uint16_t> expected;
  for (unsigned half = 0; half < 0x7C00; ++half) {
    const auto low = static_cast<std::uint16_t>(half);
    const auto high = static_cast<std::uint16_t>(half + 1);
    const double above = half == 0x7BFF ? 65536 : value_of(high);
    const auto middle = static_cast<float>((value_of(low) + above) / 2);
    const std::uint16_t even = half % 2 == 0 ? low : high;
    for (const float sign : {1.0F, -1.0F}) {
      const auto bit = static_cast<std::uint16_t>(sign < 0 ? 0x8000 : 0);
      values.insert(values.end(), {sign * std::nextafter(middle, 0.0F), sign * middle,
                                   sign * std::nextafter(middle, 1e6F)});
      for (const std::uint16_t half_value : {low, even, high}) {
        expected.push_back(static_cast<std::uint16_t>(half_value | bit));
      }
    }
  }
  for (const Level& level : levels()) ASSERT_EQ(convert(level, values), expected) << level.name;
}

TEST(Half, AllLevelsAgreeOnAnyBits) {
  std::mt19937 engine(3);
  std::vector<float> values(200'001);
  for (float& value : values) value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
  const auto expected = convert(levels().front(), values);
  for (const Level& level : levels()) ASSERT_EQ(convert(level, values), expected) << level.name;
}

std::vector<std::uint8_t> random_row(std::size_t size) {
  std::mt19937 engine(static_cast<std::uint32_t>(size));
  std::vector<std::uint8_t> row(size);
  for (std::uint8_t& value : row) value = static_cast<std::uint8_t>(engine());
  return row;
}

constexpr float kScale[3] = {0.017F, 0.5F, 1.0F};
constexpr float kBias[3] = {-2.1F, 0.0F, 7.0F};

template <typename T>
std::vector<T> split(const Level& level, const std::vector<std::uint8_t>& row) {
  const std::size_t pixels = row.size() / 3;
  std::vector<T> planes(row.size());
  T* first = planes.data();
  const kernels::ValueRow out{
      {first, first + pixels, first + 2 * pixels}, sizeof(T), false, kScale, kBias};
  level.split_row(row.data(), pixels, &out);
  return planes;
}

TEST(Pixels, SplitsAndScales) {
  for (std::size_t pixels = 0; pixels < 70; ++pixels) {
    const auto row = random_row(3 * pixels);
    std::vector<float> expected;
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t j = 0; j < pixels; ++j) {
        const float product = static_cast<float>(row[3 * j + c]) * kScale[c];
        expected.push_back(product + kBias[c]);
      }
    }
    for (const Level& level : levels()) {
      ASSERT_EQ(split<float>(level, row), expected) << level.name << " " << pixels;
      ASSERT_EQ(split<std::uint16_t>(level, row), convert(levels().front(), expected))
          << level.name << " " << pixels;
    }
  }
}

TEST(Pixels, SplitsChannels) {
  for (const Level& level : levels()) {
    for (std::size_t pixels = 0; pixels < 70; ++pixels) {
      const auto row = random_row(3 * pixels);
      std::vector<std::uint8_t> planes[3];
      for (auto& plane : planes) plane.resize(pixels);
      const kernels::ValueRow out{
          {planes[0].data(), planes[1].data(), planes[2].data()}, 1, false, kScale, kBias};
      level.split_row(row.data(), pixels, &out);
      for (std::size_t i = 0; i < row.size(); ++i) {
        ASSERT_EQ(planes[i % 3][i / 3], row[i]) << level.name << " " << pixels;
      }
    }
  }
}

TEST(Pixels, ScalesAlikeAtEveryLevel) {
  std::vector<float> scale;
  std::vector<float> bias;
  for (int i = 0; i < 48; ++i) {
    scale.push_back(0.017F + 0.001F * static_cast<float>(i));
    bias.push_back(-2.1F + 0.03F * static_cast<float>(i));
  }
  for (std::size_t size = 0; size < 200; ++size) {
    const auto row = random_row(size);
    std::vector<float> expected;
    for (std::size_t i = 0; i < size; ++i) {
      const float product = static_cast<float>(row[i]) * scale[i % 48];
      expected.push_back(product + bias[i % 48]);
    }
    for (const Level& level : levels()) {
      std::vector<float> out(size);
      level.scale_row(row.data(), size, scale.data(), bias.data(), out.data());
      ASSERT_EQ(out, expected) << level.name << " " << size;
      std::vector<std::uint16_t> halves(size);
      level.scale_row_half(row.data(), size, scale.data(), bias.data(), halves.data());
      ASSERT_EQ(halves, convert(levels().front(), expected)) << level.name << " " << size;
    }
  }
}

}  // namespace
}  // namespace headrace
