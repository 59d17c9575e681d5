// PNG and WebP: alone, and as pictures of a batch. That their pixels are Pillow's the tests of the
// package show.
#include <array>
#include <memory>
#include <string>

#include "headrace/images/headers.hpp"
#include "headrace/images/load.hpp"
#include "headrace/png.hpp"
#include "headrace/webp.hpp"
#include "tests/images/corpus.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::corpus_file;
using testing::expect_code;
using testing::expect_ok;

constexpr ImageShape kPng{7, 6};
constexpr ImageShape kWebp{33, 24};

Bytes decoded(const Bytes& data, ImageShape shape,
              Status (*decode)(ByteSpan, ImageShape, MutableByteSpan) noexcept) {
  Bytes out(shape.width * shape.height * kRgbChannels);
  expect_ok(decode(data, shape, out));
  return out;
}

TEST(Png, HeadersOfEveryKind) {
  const auto info = read_png_info(corpus_file("png/palette_4_interlaced"));
  expect_ok(info.status());
  EXPECT_EQ(info.value().width, 7U);
  EXPECT_EQ(info.value().height, 6U);
  EXPECT_EQ(info.value().bit_depth, 4);
  EXPECT_EQ(info.value().colour, PngColour::palette);
  EXPECT_TRUE(info.value().is_interlaced);
  EXPECT_TRUE(info.value().is_plain());
  EXPECT_FALSE(read_png_info(corpus_file("png/colour_key")).value().is_plain());
  EXPECT_FALSE(read_png_info(corpus_file("png/rgb_16")).value().is_plain());
  EXPECT_EQ(read_png_info(corpus_file("png/rgb_alpha_8")).value().channels(), 4U);
}

TEST(Png, InterlacingChangesNoPixel) {
  if (!has_png_decoder()) GTEST_SKIP() << "built without libpng";
  for (const char* kind : {"grey_1", "grey_2", "grey_4", "grey_8", "palette_1", "palette_2",
                           "palette_4", "palette_8", "rgb_8", "grey_alpha_8", "rgb_alpha_8"}) {
    const std::string name = std::string("png/") + kind;
    EXPECT_EQ(decoded(corpus_file(name), kPng, decode_png),
              decoded(corpus_file(name + "_interlaced"), kPng, decode_png))
        << kind;
  }
}

TEST(Png, WhatIsNotTaken) {
  if (!has_png_decoder()) GTEST_SKIP() << "built without libpng";
  Bytes out(kPng.width * kPng.height * kRgbChannels);
  expect_code(decode_png(corpus_file("png/transparent"), kPng, out), Code::unsupported);
  expect_code(decode_png(corpus_file("png/rgb_16"), kPng, out), Code::unsupported);
  expect_code(decode_png(corpus_file("png/rgb_8"), {6, 7}, out), Code::corrupt);
  expect_code(decode_png(corpus_file("png/rgb_8"), kPng, MutableByteSpan(out).first(9)),
              Code::invalid_argument);
  expect_code(decode_deep_png(corpus_file("png/rgb_8"), kPng, out), Code::unsupported);
  expect_code(decode_png(corpus_file("webp/lossy"), kPng, out), Code::corrupt);
  expect_code(decode_png({}, kPng, out), Code::corrupt);
  Bytes deep(out.size() * 2);
  expect_ok(decode_deep_png(corpus_file("png/rgb_16_interlaced"), kPng, deep));
}

TEST(Png, CutShortAtEveryByte) {
  if (!has_png_decoder()) GTEST_SKIP() << "built without libpng";
  for (const char* kind : {"png/rgb_8", "png/grey_1_interlaced", "png/rgb_alpha_8_interlaced"}) {
    const Bytes data = corpus_file(kind);
    const std::size_t end = data.size() - 12;  // IEND, which nobody waits for
    Bytes out(kPng.width * kPng.height * kRgbChannels);
    for (std::size_t size = 0; size < end; ++size) {
      const Bytes cut(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_FALSE(decode_png(cut, kPng, out).is_ok()) << kind << " " << size;
    }
    expect_ok(decode_png(ByteSpan(data).first(end), kPng, out));
  }
}

TEST(Webp, HeadersAndWhatIsNotTaken) {
  if (!has_webp_decoder()) GTEST_SKIP() << "built without libwebp";
  EXPECT_TRUE(read_webp_info(corpus_file("webp/animated")).value().is_animated);
  EXPECT_TRUE(read_webp_info(corpus_file("webp/alpha")).value().has_alpha);
  expect_code(read_webp_info(corpus_file("png/rgb_8")).status(), Code::corrupt);
  Bytes out(kWebp.width * kWebp.height * kRgbChannels);
  expect_ok(decode_webp(corpus_file("webp/lossy"), kWebp, out));
  expect_ok(decode_webp(corpus_file("webp/alpha_opaque"), kWebp, out));
  expect_code(decode_webp(corpus_file("webp/alpha"), kWebp, out), Code::unsupported);
  expect_code(decode_webp(corpus_file("webp/animated"), kWebp, out), Code::unsupported);
  expect_code(decode_webp(corpus_file("webp/lossy"), {24, 33}, out), Code::corrupt);
  const Bytes data = corpus_file("webp/lossy");
  for (std::size_t size = 0; size + 1 < data.size(); ++size) {
    const Bytes cut(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(decode_webp(cut, kWebp, out).is_ok()) << size;
  }
}

// Pictures one after another: files, or their pixels.
struct Batch {
  Bytes base;
  std::vector<std::uint64_t> offsets, sizes;
  std::vector<std::uint8_t> modes, flips;
  std::vector<std::uint32_t> widths, heights;
  std::vector<std::int32_t> crops;

  void add(const Bytes& bytes, StoredMode mode, ImageShape shape,
           std::array<std::int32_t, 4> crop) {
    offsets.push_back(base.size());
    sizes.push_back(bytes.size());
    base.insert(base.end(), bytes.begin(), bytes.end());
    modes.push_back(static_cast<std::uint8_t>(mode));
    flips.push_back(modes.size() % 2 == 0 ? 1 : 0);
    widths.push_back(static_cast<std::uint32_t>(shape.width));
    heights.push_back(static_cast<std::uint32_t>(shape.height));
    crops.insert(crops.end(), crop.begin(), crop.end());
  }

  Bytes load(const LoadOptions& options, LoadReport& report) const {
    auto loader = ImageLoader::create(3);
    expect_ok(loader.status());
    Bytes out(sizes.size() * options.shape.width * options.shape.height * kRgbChannels,
              std::byte{0xEE});
    const LoadBatch batch{offsets, sizes, modes, widths, heights, crops, flips};
    expect_ok(loader.value()->load(base, batch, options, out, report));
    return out;
  }
};

TEST(Load, PngAndWebpAreAsTheirPixels) {
  if (!has_png_decoder() || !has_webp_decoder()) GTEST_SKIP() << "built without the libraries";
  Batch files, pixels;
  for (std::int32_t i = 0; i < 40; ++i) {
    const std::array<std::int32_t, 4> crop{i % 3, i % 4, 3, 3};
    const std::array<std::int32_t, 4> padded{i % 3 - 5, i % 4 - 1, 5, 4};
    const bool is_png = i % 2 == 0;
    const ImageShape shape = is_png ? kPng : kWebp;
    const Bytes data = corpus_file(is_png ? "png/palette_4" : "webp/lossy");
    files.add(data, is_png ? StoredMode::png : StoredMode::webp, shape, i % 5 == 0 ? padded : crop);
    pixels.add(decoded(data, shape, is_png ? decode_png : decode_webp), StoredMode::raw, shape,
               i % 5 == 0 ? padded : crop);
  }
  const LoadOptions options{.shape = {4, 5}, .fill = Colour{1, 2, 3}};
  LoadReport report;
  const Bytes found = files.load(options, report);
  EXPECT_TRUE(report.failures.empty());
  EXPECT_EQ(found, pixels.load(options, report));
  EXPECT_TRUE(report.failures.empty());
}

TEST(PictureHeaders, OfEveryKind) {
  if (!has_png_decoder() || !has_webp_decoder()) GTEST_SKIP() << "built without the libraries";
  Batch batch;
  for (const char* name : {"png/rgb_8", "webp/lossy", "png/rgb_16", "webp/animated"}) {
    batch.add(corpus_file(name), StoredMode::raw, kPng, {});
  }
  std::vector<std::uint8_t> modes(4);
  std::vector<std::uint32_t> widths(4), heights(4);
  const PictureHeaders out{modes, widths, heights};
  expect_ok(read_picture_headers(batch.base, {batch.offsets, batch.sizes}, 10000, out));
  EXPECT_EQ(widths, (std::vector<std::uint32_t>{7, 33, 0, 0}));
  EXPECT_EQ(heights, (std::vector<std::uint32_t>{6, 24, 0, 0}));
  EXPECT_EQ(modes, (std::vector<std::uint8_t>{2, 3, 0, 0}));
  expect_ok(read_picture_headers(batch.base, {batch.offsets, batch.sizes}, 42, out));
  EXPECT_EQ(widths, (std::vector<std::uint32_t>{7, 0, 0, 0}));
  batch.sizes[3] += 1;
  expect_code(read_picture_headers(batch.base, {batch.offsets, batch.sizes}, 42, out),
              Code::out_of_bounds);
}

TEST(Load, BrokenPngAndWebpFailAlone) {
  if (!has_png_decoder() || !has_webp_decoder()) GTEST_SKIP() << "built without the libraries";
  Batch batch;
  Bytes cut = corpus_file("png/rgb_8");
  cut.resize(60);
  batch.add(corpus_file("png/rgb_8"), StoredMode::png, kPng, {0, 0, 6, 7});
  batch.add(cut, StoredMode::png, kPng, {0, 0, 6, 7});
  batch.add(corpus_file("png/transparent"), StoredMode::png, kPng, {0, 0, 6, 7});
  batch.add(corpus_file("png/rgb_8"), StoredMode::webp, kPng, {0, 0, 6, 7});
  batch.add(corpus_file("webp/animated"), StoredMode::webp, kWebp, {0, 0, 6, 7});
  batch.add(corpus_file("webp/lossy"), StoredMode::webp, kPng, {0, 0, 6, 7});
  batch.add(corpus_file("webp/lossy"), StoredMode::webp, kWebp, {0, 0, 6, 7});
  LoadReport report;
  const Bytes out = batch.load({.shape = {7, 6}}, report);
  std::vector<std::size_t> positions;
  for (const LoadFailure& failure : report.failures) positions.push_back(failure.position);
  EXPECT_EQ(positions, (std::vector<std::size_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(Bytes(out.begin(), out.begin() + 126),
            decoded(corpus_file("png/rgb_8"), kPng, decode_png));
}

}  // namespace
}  // namespace headrace
