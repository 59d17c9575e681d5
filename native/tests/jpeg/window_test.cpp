#include "headrace/jpeg/window.hpp"

#include <algorithm>
#include <string>

#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::can_encode;
using testing::decode;
using testing::expect_code;
using testing::expect_ok;
using testing::JpegKind;
using testing::JpegSpec;
using testing::make_jpeg;
using testing::part_of;
using testing::random_window;

// The window's pixels without the gaps between its rows.
Bytes pixels_of(const DecodedWindow& decoded) {
  Bytes pixels;
  for (std::size_t y = 0; y < decoded.window.height; ++y) {
    const std::byte* row = decoded.pixels + y * decoded.row_stride;
    pixels.insert(pixels.end(), row, row + decoded.window.width * 3);
  }
  return pixels;
}

std::string text_of(const JpegSpec& spec, const Window& window) {
  return std::to_string(spec.shape.width) + "x" + std::to_string(spec.shape.height) + " sampling " +
         std::to_string(spec.horizontal_sampling) + "x" + std::to_string(spec.vertical_sampling) +
         (spec.is_progressive ? " progressive" : "") + (spec.is_arithmetic ? " arithmetic" : "") +
         " restart " + std::to_string(spec.restart_interval) + " window " +
         std::to_string(window.left) + "," + std::to_string(window.top) + " " +
         std::to_string(window.width) + "x" + std::to_string(window.height);
}

void check_windows(const JpegSpec& spec, int count) {
  if (!can_encode(spec)) return;
  const Bytes file = make_jpeg(spec);
  const Bytes image = decode(file, spec.shape);
  std::mt19937 engine(5);
  DecodedWindow decoded;
  for (int i = 0; i < count; ++i) {
    const Window window = i == 0 ? Window{0, 0, spec.shape.width, spec.shape.height}
                                 : random_window(engine, spec.shape);
    SCOPED_TRACE(text_of(spec, window));
    expect_ok(decode_jpeg_window(file, {}, spec.shape, window, decoded));
    ASSERT_EQ(decoded.window.width, window.width);
    ASSERT_EQ(decoded.window.height, window.height);
    ASSERT_EQ(pixels_of(decoded), part_of(image, spec.shape, window));
  }
}

const std::vector<ImageShape> kShapes = {{1, 1},   {7, 9},    {16, 16},  {33, 17},
                                         {97, 61}, {128, 96}, {203, 151}};

TEST(JpegWindow, EqualsTheWholeImage) {
  for (const ImageShape shape : kShapes) {
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}, {4, 2}}) {
      check_windows(
          {.shape = shape, .horizontal_sampling = h, .vertical_sampling = v, .is_noisy = true}, 40);
    }
    check_windows({.shape = shape, .kind = JpegKind::grayscale, .is_noisy = true}, 40);
    check_windows({.shape = shape, .kind = JpegKind::rgb, .is_noisy = true}, 20);
  }
}

TEST(JpegWindow, EqualsTheWholeImageInEveryProcess) {
  for (const ImageShape shape : {ImageShape{33, 17}, {97, 61}, {203, 151}}) {
    for (const int sampling : {1, 2}) {
      for (const JpegKind kind : {JpegKind::color, JpegKind::grayscale}) {
        JpegSpec spec{.shape = shape,
                      .kind = kind,
                      .horizontal_sampling = sampling,
                      .vertical_sampling = sampling,
                      .is_noisy = true};
        for (const unsigned interval : {1U, 3U, 7U}) {
          spec.restart_interval = interval;
          check_windows(spec, 20);
        }
        spec.is_progressive = true;
        check_windows(spec, 20);
        spec.restart_interval = 0;
        check_windows(spec, 20);
        spec.is_progressive = false;
        spec.is_arithmetic = true;
        check_windows(spec, 20);
        spec.is_arithmetic = false;
        spec.has_whole_scans = true;
        check_windows(spec, 20);
      }
    }
  }
}

TEST(JpegWindow, UnfinishedProgressiveEqualsTheWholeImage) {
  const ImageShape shape{97, 61};
  const Bytes file = make_jpeg({.shape = shape, .is_progressive = true, .is_noisy = true});
  const Bytes marker = testing::from_hex("FFDA");
  auto at = std::search(file.begin(), file.end(), marker.begin(), marker.end());
  for (int scans = 1; scans < 8; ++scans) {  // the rest of the scans left out
    at = std::search(at + 2, file.end(), marker.begin(), marker.end());
    Bytes cut(file.begin(), at);
    cut.insert(cut.end(), {std::byte{0xFF}, std::byte{0xD9}});
    Bytes image(shape.width * shape.height * 3);
    const bool is_ok = decode_jpeg(cut, {}, shape, image).is_ok();
    DecodedWindow decoded;
    for (const Window& window : {Window{40, 20, 30, 30}, Window{3, 50, 90, 11}}) {
      const Status status = decode_jpeg_window(cut, {}, shape, window, decoded);
      ASSERT_EQ(status.is_ok(), is_ok) << scans;
      if (is_ok) {
        ASSERT_EQ(pixels_of(decoded), part_of(image, shape, window)) << scans;
      }
    }
  }
}

TEST(JpegWindow, ReducedSizes) {
  const ImageShape shape{203, 151};
  const Bytes file = make_jpeg({.shape = shape});
  const Bytes image = decode(file, shape);
  DecodedWindow decoded;
  const Window window{37, 21, 150, 100};
  for (const unsigned d : {2U, 4U, 8U}) {
    expect_ok(decode_jpeg_window(file, {.scale_denominator = d}, shape, window, decoded));
    EXPECT_EQ(decoded.scale_denominator, d);
    EXPECT_EQ(decoded.window.left, window.left / d);
    EXPECT_EQ(decoded.window.top, window.top / d);
    EXPECT_EQ(decoded.window.left + decoded.window.width, (window.left + window.width + d - 1) / d);
    // The middle pixel is about the mean of those it stands for.
    const std::size_t x = decoded.window.width / 2;
    const std::size_t y = decoded.window.height / 2;
    double mean = 0;
    for (std::size_t i = 0; i < d * d; ++i) {
      const std::size_t row = (decoded.window.top + y) * d + i / d;
      const std::size_t column = (decoded.window.left + x) * d + i % d;
      mean += testing::level_of(image[(row * shape.width + column) * 3]) / (d * d);
    }
    EXPECT_NEAR(testing::level_of(decoded.pixels[y * decoded.row_stride + x * 3]), mean, 4) << d;
  }
}

TEST(JpegWindow, DenominatorKeepsTheWantedSize) {
  EXPECT_EQ(scale_denominator_for({0, 0, 447, 448}, {224, 224}), 1U);
  EXPECT_EQ(scale_denominator_for({0, 0, 448, 448}, {224, 224}), 2U);
  EXPECT_EQ(scale_denominator_for({0, 0, 900, 895}, {224, 224}), 2U);
  EXPECT_EQ(scale_denominator_for({0, 0, 4000, 900}, {224, 224}), 4U);
  EXPECT_EQ(scale_denominator_for({0, 0, 5000, 5000}, {224, 224}), 8U);
}

TEST(JpegWindow, WrongWindowsAreErrors) {
  const Bytes file = make_jpeg({});
  DecodedWindow decoded;
  for (const Window& window : {Window{0, 0, 0, 1},
                               {0, 0, 1, 0},
                               {40, 0, 1, 1},
                               {0, 24, 1, 1},
                               {1, 0, 40, 1},
                               {0, 1, 1, 24},
                               {SIZE_MAX, 0, 2, 1}}) {
    expect_code(decode_jpeg_window(file, {}, {40, 24}, window, decoded), Code::out_of_bounds);
  }
  expect_code(decode_jpeg_window(file, {}, {41, 24}, {0, 0, 1, 1}, decoded), Code::corrupt);
  expect_code(decode_jpeg_window(file, {.scale_denominator = 3}, {40, 24}, {0, 0, 1, 1}, decoded),
              Code::invalid_argument);
  expect_code(
      decode_jpeg_window(make_jpeg({.kind = JpegKind::cmyk}), {}, {40, 24}, {0, 0, 1, 1}, decoded),
      Code::unsupported);
}

const std::vector<JpegSpec> kHostile = {{},
                                        {.kind = JpegKind::grayscale},
                                        {.is_progressive = true},
                                        {.restart_interval = 1},
                                        {.is_arithmetic = true}};

// An exact copy, so that a sanitizer sees every read behind the end.
Status decode_part(ByteSpan data, const Window& window, unsigned denominator,
                   DecodedWindow& decoded) {
  const Bytes exact(data.begin(), data.end());
  return decode_jpeg_window(exact, {.scale_denominator = denominator}, {40, 24}, window, decoded);
}

TEST(HostileJpegWindow, EveryTruncation) {
  for (const JpegSpec& spec : kHostile) {
    if (!can_encode(spec)) continue;
    const Bytes file = make_jpeg(spec);
    const Bytes image = decode(file, {40, 24});
    for (const Window& window : {Window{0, 0, 40, 24}, {20, 2, 8, 5}, {30, 18, 10, 6}}) {
      DecodedWindow decoded;
      for (std::size_t size = 0; size < file.size(); ++size) {
        const Status status = decode_part(ByteSpan(file).first(size), window, 1, decoded);
        if (status.is_ok()) {
          ASSERT_EQ(pixels_of(decoded), part_of(image, {40, 24}, window)) << size;
        } else {
          ASSERT_LE(status.offset(), static_cast<std::int64_t>(size));
        }
      }
      expect_ok(decode_part(file, window, 1, decoded));
    }
  }
}

TEST(HostileJpegWindow, BitFlips) {
  std::mt19937 engine(9);
  for (const JpegSpec& spec : kHostile) {
    if (!can_encode(spec)) continue;
    const Bytes file = make_jpeg(spec);
    DecodedWindow decoded;
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (int i = 0; i < 3; ++i) {
        Bytes damaged = file;
        damaged[at] ^= static_cast<std::byte>(1U << engine() % 8);
        const Window window = random_window(engine, {40, 24});
        static_cast<void>(decode_part(damaged, window, 1U << engine() % 4, decoded));
      }
    }
  }
}

}  // namespace
}  // namespace headrace
