#include "core/resample/late_colour.hpp"

#include <cstdlib>
#include <string>

#include "headrace/cpu.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::available_levels;
using testing::Bytes;
using testing::decode;
using testing::expect_code;
using testing::expect_ok;
using testing::JpegKind;
using testing::JpegSpec;
using testing::LevelGuard;
using testing::make_jpeg;
using testing::part_of;
using testing::random_window;

struct Case {
  JpegSpec spec;
  Window crop;
  ImageShape out;
  ResampleFilter filter = ResampleFilter::area;
  bool is_flipped = false;
};

Bytes fast(const Bytes& file, const Case& c) {
  JpegWindowDecoder decoder;
  DecodedSamples samples;
  expect_ok(decoder.decode_samples({file, {}, {}}, c.spec.shape, c.crop, samples));
  LateColour colour;
  expect_ok(colour.plan(samples, c.crop, c.filter, c.out, c.is_flipped));
  Bytes out;
  for (std::size_t y = 0; y < c.out.height; ++y) {
    const auto* row = reinterpret_cast<const std::byte*>(colour.row(y));
    out.insert(out.end(), row, row + c.out.width * 3);
  }
  return out;
}

Bytes exact(const Bytes& file, const Case& c) {
  const Bytes image = decode(file, c.spec.shape);
  Resampler resampler;
  const Region region{static_cast<double>(c.crop.left), static_cast<double>(c.crop.top),
                      static_cast<double>(c.crop.width), static_cast<double>(c.crop.height)};
  expect_ok(resampler.plan(c.spec.shape, region, c.filter, c.out, c.is_flipped));
  const PixelView view{image.data(), c.spec.shape.width * 3, c.spec.shape};
  Bytes out(c.out.width * c.out.height * 3);
  for (std::size_t y = 0; y < c.out.height; ++y) {
    resampler.write_row(view, y, reinterpret_cast<std::uint8_t*>(out.data()) + y * c.out.width * 3);
  }
  return out;
}

double mean_difference(const Bytes& a, const Bytes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(std::to_integer<int>(a[i]) - std::to_integer<int>(b[i]));
  }
  return sum / static_cast<double>(a.size());
}

// The same at every level, and close to the exact way.
void check(const Case& c) {
  const Bytes file = make_jpeg(c.spec);
  Bytes first;
  for (const SimdLevel level : available_levels()) {
    const LevelGuard guard(level);
    const Bytes found = fast(file, c);
    if (first.empty()) first = found;
    ASSERT_EQ(found, first) << simd_level_name(level);
  }
  EXPECT_LT(mean_difference(first, exact(file, c)), 1.5);
}

TEST(LateColour, IsCloseToTheExactWay) {
  std::mt19937 engine(3);
  for (const ImageShape shape : {ImageShape{33, 17}, {97, 61}, {203, 151}, {640, 480}}) {
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
      for (const ResampleFilter filter : {ResampleFilter::area, ResampleFilter::bilinear}) {
        const JpegSpec spec{.shape = shape, .horizontal_sampling = h, .vertical_sampling = v};
        SCOPED_TRACE(std::to_string(shape.width) + " sampling " + std::to_string(h) + "x" +
                     std::to_string(v) + " filter " + std::to_string(static_cast<int>(filter)));
        for (const ImageShape out : {ImageShape{24, 20}, {67, 64}, {120, 7}}) {
          Window crop = random_window(engine, shape);
          crop.width = std::min(crop.width, 8 * out.width);
          crop.height = std::min(crop.height, 8 * out.height);
          check({spec, crop, out, filter, out.width % 2 == 1});
        }
      }
    }
  }
}

TEST(LateColour, OfOtherKindsAndQualities) {
  for (const JpegKind kind : {JpegKind::grayscale, JpegKind::rgb, JpegKind::color}) {
    for (const int quality : {1, 10, 50, 90, 100}) {
      const JpegSpec spec{.shape = {130, 120}, .kind = kind, .quality = quality};
      check({spec, {10, 20, 100, 80}, {64, 64}});
    }
  }
}

// Noise has no smooth colours: only samples can be compared.
TEST(LateColour, SamplesAreUpToTwoLevelsOff) {
  for (const int quality : {20, 75, 95, 100}) {
    const JpegSpec spec{
        .shape = {90, 70}, .kind = JpegKind::grayscale, .is_noisy = true, .quality = quality};
    const Bytes file = make_jpeg(spec);
    const Bytes image = decode(file, spec.shape);
    for (const SimdLevel level : available_levels()) {
      const LevelGuard guard(level);
      JpegWindowDecoder decoder;
      DecodedSamples samples;
      const Window window{20, 9, 50, 40};
      expect_ok(decoder.decode_samples({file, {}, {}}, spec.shape, window, samples));
      const SampleView& view = samples.components[0];
      ASSERT_LE(view.left, window.left);
      ASSERT_GE(view.left + view.shape.width, window.left + window.width);
      for (std::size_t y = window.top; y < window.top + window.height; ++y) {
        for (std::size_t x = window.left; x < window.left + window.width; ++x) {
          const int found = view.samples[(y - view.top) * view.stride + x - view.left];
          const int expected = std::to_integer<int>(image[(y * spec.shape.width + x) * 3]);
          ASSERT_LE(std::abs(found - expected), 2) << x << " " << y;
        }
      }
    }
  }
}

TEST(LateColour, WhereItIsNotPossible) {
  EXPECT_TRUE(LateColour::is_possible(ResampleFilter::area, {0, 0, 800, 800}, {100, 100}));
  EXPECT_FALSE(LateColour::is_possible(ResampleFilter::area, {0, 0, 801, 800}, {100, 100}));
  EXPECT_FALSE(LateColour::is_possible(ResampleFilter::bicubic, {0, 0, 100, 100}, {100, 100}));
  EXPECT_FALSE(LateColour::is_possible(ResampleFilter::opencv_area, {0, 0, 9, 9}, {9, 9}));
  PlaneResampler resampler;
  expect_code(resampler.plan({.plane = {4000, 10}, .region = {0, 0, 4000, 10}, .out = {10, 10}}),
              Code::unsupported);
}

TEST(HostileLateColour, BitFlips) {
  std::mt19937 engine(9);
  JpegWindowDecoder decoder;
  DecodedSamples samples;
  LateColour colour;
  for (const JpegSpec& spec : std::vector<JpegSpec>{{}, {.is_noisy = true}}) {
    const Bytes file = make_jpeg(spec);
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const SimdLevel level : {SimdLevel::scalar, hardware_simd_level()}) {
        const LevelGuard guard(level);
        Bytes damaged = file;
        damaged[at] ^= static_cast<std::byte>(1U << engine() % 8);
        const Window window = random_window(engine, {40, 24});
        if (!decoder.decode_samples({damaged, {}, {}}, {40, 24}, window, samples).is_ok()) continue;
        expect_ok(colour.plan(samples, window, ResampleFilter::area, {17, 13}, at % 2 == 0));
        for (std::size_t y = 0; y < 13; ++y) colour.row(y);
      }
    }
  }
}

}  // namespace
}  // namespace headrace
