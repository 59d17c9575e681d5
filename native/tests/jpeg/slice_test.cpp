#include "headrace/jpeg/slice.hpp"

#include <algorithm>
#include <string>

#include "core/jpeg/writer.hpp"
#include "headrace/checksum.hpp"
#include "headrace/jpeg/tile_index.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::decode;
using testing::expect_code;
using testing::expect_ok;
using testing::index_of;
using testing::JpegKind;
using testing::JpegSpec;
using testing::make_jpeg;
using testing::part_of;
using testing::random_window;
using testing::text_of;

ImageShape shape_of(const Bytes& file) {
  const auto info = read_jpeg_info(file);
  expect_ok(info.status());
  return {info.value().width, info.value().height};
}

void check_slices(const JpegSpec& spec, int count) {
  const Bytes file = make_jpeg(spec);
  const Bytes image = decode(file, spec.shape);
  std::mt19937 engine(7);
  JpegSlice slice;
  for (const unsigned tile : {1U, 3U, 8U}) {
    const Bytes packed = index_of(file, tile);
    for (int i = 0; i < count; ++i) {
      const Window window = i == 0 ? Window{0, 0, spec.shape.width, spec.shape.height}
                                   : random_window(engine, spec.shape);
      SCOPED_TRACE("window " + text_of(window) + " tile " + std::to_string(tile));
      expect_ok(slice_jpeg(file, packed, window, slice));
      const ImageShape shape = shape_of(slice.bytes);
      ASSERT_LE(slice.left + window.width, shape.width);
      ASSERT_LE(slice.top + window.height, shape.height);
      ASSERT_EQ(part_of(decode(slice.bytes, shape), shape,
                        {slice.left, slice.top, window.width, window.height}),
                part_of(image, spec.shape, window));
    }
  }
}

TEST(JpegSlice, DecodesToThePixelsOfTheWhole) {
  for (const ImageShape shape :
       {ImageShape{1, 1}, {3, 5}, {7, 9}, {16, 16}, {33, 17}, {97, 61}, {203, 151}}) {
    for (const bool is_optimised : {false, true}) {
      for (const bool is_noisy : {false, true}) {
        for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
          check_slices({.shape = shape,
                        .horizontal_sampling = h,
                        .vertical_sampling = v,
                        .is_noisy = is_noisy,
                        .is_optimised = is_optimised},
                       12);
        }
        check_slices({.shape = shape,
                      .kind = JpegKind::grayscale,
                      .is_noisy = is_noisy,
                      .is_optimised = is_optimised},
                     12);
        check_slices({.shape = shape, .kind = JpegKind::rgb, .is_noisy = is_noisy}, 12);
      }
    }
  }
}

TEST(JpegSlice, OfEveryQuality) {
  for (const int quality : {1, 5, 20, 50, 75, 90, 100}) {
    for (const bool is_optimised : {false, true}) {
      check_slices(
          {.shape = {130, 120}, .is_noisy = true, .quality = quality, .is_optimised = is_optimised},
          20);
    }
  }
}

TEST(JpegSlice, OfRestartIntervals) {
  for (const unsigned interval : {1U, 2U, 3U, 7U, 13U, 26U, 40U}) {
    for (const int sampling : {1, 2}) {
      check_slices({.shape = {203, 151},
                    .restart_interval = interval,
                    .horizontal_sampling = sampling,
                    .vertical_sampling = sampling,
                    .is_noisy = true},
                   12);
    }
    check_slices({.shape = {97, 61}, .kind = JpegKind::grayscale, .restart_interval = interval},
                 12);
  }
}

TEST(JpegSlice, EveryWindowOfASmallImage) {
  const JpegSpec spec{.shape = {37, 19}, .is_noisy = true, .is_optimised = true};
  const Bytes file = make_jpeg(spec);
  const Bytes image = decode(file, spec.shape);
  const Bytes packed = index_of(file, 1);
  JpegSlice slice;
  for (std::size_t left = 0; left < 37; ++left) {
    for (std::size_t width = 1; width <= 37 - left; width += 3) {
      const Window window{left, left % 19, width, 1 + (width % (19 - left % 19))};
      if (window.top + window.height > 19) continue;
      expect_ok(slice_jpeg(file, packed, window, slice));
      const ImageShape shape = shape_of(slice.bytes);
      ASSERT_EQ(part_of(decode(slice.bytes, shape), shape,
                        {slice.left, slice.top, window.width, window.height}),
                part_of(image, spec.shape, window))
          << left << " " << width;
    }
  }
}

// Decoders upsample pictures of up to four columns in another way.
TEST(JpegSlice, OfTheLastColumns) {
  for (std::size_t columns = 1; columns <= 6; ++columns) {
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
      const JpegSpec spec{.shape = {48 + columns, 48 + columns},
                          .horizontal_sampling = h,
                          .vertical_sampling = v,
                          .is_noisy = true};
      const Bytes file = make_jpeg(spec);
      const Bytes image = decode(file, spec.shape);
      const Bytes packed = index_of(file, 1);
      for (const Window& window :
           {Window{47 + columns, 0, 1, 40}, {0, 47 + columns, 40, 1}, {47 + columns, 47, 1, 1}}) {
        SCOPED_TRACE(text_of(window));
        JpegSlice slice;
        expect_ok(slice_jpeg(file, packed, window, slice));
        const ImageShape shape = shape_of(slice.bytes);
        EXPECT_EQ(part_of(decode(slice.bytes, shape), shape,
                          {slice.left, slice.top, window.width, window.height}),
                  part_of(image, spec.shape, window));
      }
    }
  }
}

TEST(JpegSlice, WrongArgumentsAreErrors) {
  const Bytes file = make_jpeg({});
  const Bytes other = make_jpeg({.is_noisy = true});
  const Bytes packed = index_of(file, 8);
  JpegSlice slice;
  expect_ok(slice_jpeg(file, packed, {0, 0, 40, 24}, slice));
  expect_code(slice_jpeg(file, packed, {0, 0, 41, 24}, slice), Code::out_of_bounds);
  expect_code(slice_jpeg(file, packed, {0, 0, 0, 24}, slice), Code::out_of_bounds);
  expect_code(slice_jpeg(other, packed, {0, 0, 40, 24}, slice), Code::corrupt);
  expect_code(slice_jpeg(file, {}, {0, 0, 40, 24}, slice), Code::truncated);
  expect_code(slice_jpeg(make_jpeg({.is_progressive = true}), packed, {0, 0, 40, 24}, slice),
              Code::unsupported);
}

TEST(JpegSlice, MissingDcCodes) {
  HuffmanSpec spec;
  spec.counts[0] = 1;  // 0
  spec.counts[1] = 1;  // 10
  spec.symbols[0] = 5;
  spec.symbols[1] = 3;
  spec.size = 2;
  DcCodes codes;
  expect_ok(complete_dc_codes(spec, codes));
  EXPECT_EQ(spec.size, 12U);
  EXPECT_EQ(codes[5].code, 0U);
  EXPECT_EQ(codes[5].length, 1U);
  EXPECT_EQ(codes[3].code, 2U);
  EXPECT_EQ(codes[3].length, 2U);
  EXPECT_EQ(codes[0].length, 6U);  // 110000: ten of fifteen
  EXPECT_EQ(codes[0].code, 48U);
  EXPECT_EQ(codes[11].code, 57U);
  HuffmanSpec full;
  full.counts[15] = 1;
  for (std::size_t l = 0; l < 16; ++l) full.counts[l] = 1;  // all but the code of ones
  full.size = 16;
  for (std::size_t i = 0; i < 16; ++i) full.symbols[i] = static_cast<std::uint8_t>(i % 11);
  expect_code(complete_dc_codes(full, codes), Code::unsupported);
}

// Wrong data under right checksums: any result, but no access out of bounds.
TEST(HostileJpegSlice, IndexAndDataThatDoNotFit) {
  std::mt19937 engine(11);
  for (const unsigned interval : {0U, 2U}) {
    const Bytes file = make_jpeg({.restart_interval = interval, .is_noisy = true});
    TileIndex tile_index;
    expect_ok(make_tile_index(file, 1, tile_index));
    for (int i = 0; i < 4000; ++i) {
      Bytes damaged = file;
      TileIndex wrong = tile_index;
      if (i % 2 == 0) {
        damaged[engine() % damaged.size()] ^= static_cast<std::byte>(1U << engine() % 8);
        wrong.info.jpeg_crc32c = crc32c(damaged);
      } else {
        std::uint32_t& position = wrong.positions[1 + engine() % (wrong.positions.size() - 2)];
        position += static_cast<std::uint32_t>(engine() % 64);
        position -= static_cast<std::uint32_t>(engine() % 64);
        wrong.predictors[engine() % wrong.predictors.size()][0] += 1;
        if (!std::is_sorted(wrong.positions.begin(), wrong.positions.end())) continue;
      }
      Bytes packed;
      expect_ok(pack_tile_index(wrong, packed));
      JpegSlice slice;
      static_cast<void>(slice_jpeg(damaged, packed, random_window(engine, {40, 24}), slice));
    }
  }
}

}  // namespace
}  // namespace headrace
