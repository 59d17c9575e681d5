#include "headrace/jpeg/codec.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::can_encode;
using testing::expect_code;
using testing::expect_ok;
using testing::gradient;
using testing::JpegKind;
using testing::JpegSpec;
using testing::make_jpeg;

Bytes decode(ByteSpan data, ImageShape shape, JpegDecodeOptions options = {}) {
  Bytes out(shape.width * shape.height * 3, std::byte{0xEE});
  expect_ok(decode_jpeg(data, options, shape, out));
  return out;
}

Bytes encode(const Bytes& pixels, ImageShape shape, int quality) {
  Bytes out;
  expect_ok(encode_jpeg(pixels, shape, shape.width * 3, quality, out));
  return out;
}

double mean_difference(const Bytes& a, const Bytes& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    sum += std::abs(testing::level_of(a[i]) - testing::level_of(b[i]));
  }
  return sum / static_cast<double>(a.size());
}

TEST(JpegInfo, DescribesEveryKind) {
  const std::vector<std::pair<JpegKind, std::string>> kinds = {{JpegKind::color, "ycbcr"},
                                                               {JpegKind::grayscale, "grayscale"},
                                                               {JpegKind::rgb, "rgb"},
                                                               {JpegKind::cmyk, "cmyk"},
                                                               {JpegKind::ycck, "ycck"}};
  for (const auto& [kind, name] : kinds) {
    for (const bool is_progressive : {false, true}) {
      const auto info = read_jpeg_info(
          make_jpeg({.shape = {33, 17}, .kind = kind, .is_progressive = is_progressive}));
      expect_ok(info.status());
      EXPECT_EQ(info.value().width, 33U);
      EXPECT_EQ(info.value().height, 17U);
      EXPECT_EQ(info.value().precision, 8);
      EXPECT_EQ(color_space_name(info.value().color_space), name);
      EXPECT_EQ(info.value().is_progressive, is_progressive);
      EXPECT_FALSE(info.value().is_arithmetic);
    }
  }
}

TEST(JpegInfo, SeesArithmeticCoding) {
  const JpegSpec spec{.is_arithmetic = true};
  if (!can_encode(spec)) GTEST_SKIP() << "libjpeg without arithmetic coding";
  EXPECT_TRUE(read_jpeg_info(make_jpeg(spec)).value().is_arithmetic);
}

TEST(JpegInfo, SidesOfMany) {
  const Bytes color = make_jpeg({.shape = {33, 17}});
  const Bytes cmyk = make_jpeg({.shape = {8, 8}, .kind = JpegKind::cmyk});
  Bytes base = color;
  base.insert(base.end(), cmyk.begin(), cmyk.end());
  base.insert(base.end(), 10, std::byte{7});
  const std::vector<std::uint64_t> offsets = {color.size(), 0, color.size() + cmyk.size(), 0};
  const std::vector<std::uint64_t> sizes = {cmyk.size(), color.size(), 10, 1};
  std::vector<std::uint32_t> widths(4, 9), heights(4, 9);
  expect_ok(read_jpeg_sides(base, {offsets, sizes}, widths, heights));
  EXPECT_EQ(widths, (std::vector<std::uint32_t>{0, 33, 0, 0}));
  EXPECT_EQ(heights, (std::vector<std::uint32_t>{0, 17, 0, 0}));
  const std::vector<std::uint64_t> beyond = {base.size(), 0, 0, 0};
  expect_code(read_jpeg_sides(base, {beyond, sizes}, widths, heights), Code::out_of_bounds);
}

TEST(Jpeg, RoundTripIsClose) {
  for (const ImageShape shape :
       {ImageShape{1, 1}, {1, 40}, {40, 1}, {16, 16}, {17, 15}, {200, 133}}) {
    const Bytes pixels = gradient(shape, 3);
    const Bytes file = encode(pixels, shape, 100);
    EXPECT_LT(mean_difference(decode(file, shape), pixels), 3.0);
    EXPECT_LT(mean_difference(decode(file, shape, {.fast_dct = true}), pixels), 4.0);
  }
}

TEST(Jpeg, WritesBaselineWithHalvedChroma) {
  const ImageShape shape{64, 64};
  const Bytes file = encode(gradient(shape, 3), shape, 90);
  const auto info = read_jpeg_info(file).value();
  EXPECT_FALSE(info.is_progressive);
  EXPECT_EQ(color_space_name(info.color_space), "ycbcr");
  // Baseline frame of three components; 22 is the sampling of luma.
  const Bytes frame = testing::from_hex("FFC0 0011 08 0040 0040 03 01 22");
  EXPECT_NE(std::search(file.begin(), file.end(), frame.begin(), frame.end()), file.end());
}

TEST(Jpeg, QualityChangesTheSize) {
  const ImageShape shape{128, 128};
  const Bytes pixels = testing::random_bytes(128 * 128 * 3, 1);
  std::size_t before = 0;
  for (const int quality : {1, 30, 60, 90, 100}) {
    const std::size_t size = encode(pixels, shape, quality).size();
    EXPECT_GT(size, before);
    before = size;
  }
}

TEST(Jpeg, EncodesRowsWithAStride) {
  const ImageShape shape{20, 10};
  const Bytes pixels = gradient(shape, 3);
  Bytes padded;
  for (std::size_t y = 0; y < shape.height; ++y) {
    const auto row = pixels.begin() + static_cast<std::ptrdiff_t>(y * 60);
    padded.insert(padded.end(), row, row + 60);
    if (y + 1 < shape.height) padded.insert(padded.end(), 11, std::byte{0xFF});
  }
  Bytes out;
  expect_ok(encode_jpeg(padded, shape, 71, 80, out));
  EXPECT_EQ(out, encode(pixels, shape, 80));
}

TEST(Jpeg, EncoderChecksItsArguments) {
  const Bytes pixels(30 * 10 * 3);
  Bytes out;
  expect_code(encode_jpeg(pixels, {30, 10}, 90, 0, out), Code::invalid_argument);
  expect_code(encode_jpeg(pixels, {30, 10}, 90, 101, out), Code::invalid_argument);
  expect_code(encode_jpeg(pixels, {0, 10}, 90, 90, out), Code::invalid_argument);
  expect_code(encode_jpeg(pixels, {30, 11}, 90, 90, out), Code::invalid_argument);
  expect_code(encode_jpeg(pixels, {30, 10}, 89, 90, out), Code::invalid_argument);
  expect_code(encode_jpeg(pixels, {30, 10}, 91, 90, out), Code::invalid_argument);
  expect_code(encode_jpeg(pixels, {30, 10}, SIZE_MAX, 90, out), Code::invalid_argument);
  expect_code(encode_jpeg(pixels, {70000, 1}, 210000, 90, out), Code::too_large);
}

TEST(Jpeg, ExpandsGrayscale) {
  const ImageShape shape{40, 24};
  const Bytes grey = gradient(shape, 1);
  const Bytes out = decode(make_jpeg({.shape = shape, .kind = JpegKind::grayscale}), shape);
  for (std::size_t i = 0; i < grey.size(); ++i) {
    EXPECT_EQ(out[3 * i], out[3 * i + 1]);
    EXPECT_EQ(out[3 * i], out[3 * i + 2]);
    EXPECT_NEAR(testing::level_of(out[3 * i]), testing::level_of(grey[i]), 8);
  }
}

TEST(Jpeg, DecodesOtherProcesses) {
  const ImageShape shape{75, 50};
  const Bytes pixels = gradient(shape, 3);
  for (const JpegSpec& spec : {JpegSpec{.shape = shape, .is_progressive = true},
                               JpegSpec{.shape = shape, .kind = JpegKind::rgb},
                               JpegSpec{.shape = shape, .restart_interval = 2},
                               JpegSpec{.shape = shape, .is_arithmetic = true}}) {
    if (can_encode(spec)) {
      EXPECT_LT(mean_difference(decode(make_jpeg(spec), shape), pixels), 3.0);
    }
  }
}

TEST(Jpeg, FourComponentsAreUnsupported) {
  for (const JpegKind kind : {JpegKind::cmyk, JpegKind::ycck}) {
    Bytes out(40 * 24 * 3);
    expect_code(decode_jpeg(make_jpeg({.kind = kind}), {}, {40, 24}, out), Code::unsupported);
  }
}

TEST(Jpeg, AnotherSizeIsCorrupt) {
  Bytes out(41 * 24 * 3);
  const Status status = decode_jpeg(make_jpeg({}), {}, {41, 24}, out);
  expect_code(status, Code::corrupt);
  EXPECT_NE(status.detail().find("40x24"), std::string_view::npos);
  EXPECT_NE(status.detail().find("41x24"), std::string_view::npos);
  expect_code(decode_jpeg(make_jpeg({}), {}, {40, 24}, std::span(out).first(100)),
              Code::invalid_argument);
}

// The tables of an earlier image must not serve a later one that has none.
TEST(Jpeg, ResultsDoNotDependOnEarlierImages) {
  Bytes stripped = make_jpeg({});
  const Bytes table_marker = testing::from_hex("FFDB");
  while (true) {  // takes out every quantisation table
    const auto at =
        std::search(stripped.begin(), stripped.end(), table_marker.begin(), table_marker.end());
    if (at == stripped.end()) break;
    stripped.erase(at, at + 2 + load_u16_be(&*at + 2));
  }
  Bytes out(40 * 24 * 3);
  expect_ok(decode_jpeg(make_jpeg({}), {}, {40, 24}, out));
  expect_code(decode_jpeg(stripped, {}, {40, 24}, out), Code::corrupt);
}

TEST(Jpeg, HandlesSurviveManyImagesAndErrors) {
  const Bytes good = make_jpeg({});
  const Bytes expected = decode(good, {40, 24});
  for (int i = 0; i < 400; ++i) {
    Bytes out(40 * 24 * 3);
    const auto cut = ByteSpan(good).first(good.size() / 2 + static_cast<std::size_t>(i) % 50);
    EXPECT_FALSE(decode_jpeg(cut, {}, {40, 24}, out).is_ok());
    ASSERT_EQ(decode(good, {40, 24}), expected);
  }
}

TEST(Jpeg, ThreadsHaveTheirOwnHandles) {
  const ImageShape shape{90, 70};
  const Bytes pixels = gradient(shape, 3);
  const Bytes file = encode(pixels, shape, 90);
  const Bytes expected = decode(file, shape);
  std::vector<int> wrong(8, -1);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      int bad = 0;
      for (int i = 0; i < 20; ++i) {
        Bytes out(expected.size());
        Bytes again;
        const bool is_ok = decode_jpeg(file, {}, shape, out).is_ok() &&
                           encode_jpeg(pixels, shape, shape.width * 3, 90, again).is_ok();
        bad += !is_ok || out != expected || again != file;
      }
      wrong[t] = bad;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

}  // namespace
}  // namespace headrace
