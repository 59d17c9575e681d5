#include "headrace/jpeg/window_decoder.hpp"

#include <algorithm>
#include <string>

#include "headrace/checksum.hpp"
#include "headrace/jpeg/codec.hpp"
#include "headrace/jpeg/tile_index.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::available_levels;
using testing::Bytes;
using testing::decode;
using testing::expect_code;
using testing::expect_ok;
using testing::index_of;
using testing::JpegKind;
using testing::JpegSpec;
using testing::LevelGuard;
using testing::make_jpeg;
using testing::part_of;
using testing::random_window;

Bytes pixels_of(const DecodedWindow& decoded) {
  EXPECT_EQ(decoded.row_stride, decoded.window.width * 3);
  return {decoded.pixels, decoded.pixels + decoded.row_stride * decoded.window.height};
}

std::string text_of(const JpegSpec& spec, const Window& window, unsigned tile) {
  return std::to_string(spec.shape.width) + "x" + std::to_string(spec.shape.height) + " sampling " +
         std::to_string(spec.horizontal_sampling) + "x" + std::to_string(spec.vertical_sampling) +
         " restart " + std::to_string(spec.restart_interval) + " quality " +
         std::to_string(spec.quality) + " tile " + std::to_string(tile) + " window " +
         testing::text_of(window) + " level " + std::string(simd_level_name(simd_level()));
}

// With a tile index of every tile size (0: none), at every level.
void check_windows(const JpegSpec& spec, int count) {
  const Bytes file = make_jpeg(spec);
  const Bytes image = decode(file, spec.shape);
  for (const unsigned tile : {0U, 1U, 3U, 8U}) {
    const Bytes packed = tile == 0 ? Bytes() : index_of(file, tile);
    for (const SimdLevel level : available_levels()) {
      if (level == SimdLevel::sse42) continue;  // as scalar
      const LevelGuard guard(level);
      std::mt19937 engine(tile);
      JpegWindowDecoder decoder;
      DecodedWindow decoded;
      for (int i = 0; i < count; ++i) {
        const Window window = i == 0 ? Window{0, 0, spec.shape.width, spec.shape.height}
                                     : random_window(engine, spec.shape);
        SCOPED_TRACE(text_of(spec, window, tile));
        expect_ok(decoder.decode({file, packed, {}}, spec.shape, window, decoded));
        ASSERT_EQ(decoded.window.width, window.width);
        ASSERT_EQ(decoded.window.height, window.height);
        ASSERT_EQ(pixels_of(decoded), part_of(image, spec.shape, window));
      }
    }
  }
}

TEST(JpegWindowDecoder, HasThePixelsOfLibjpeg) {
  for (const ImageShape shape :
       {ImageShape{5, 1}, {7, 9}, {16, 16}, {33, 17}, {97, 61}, {203, 151}}) {
    for (const bool is_noisy : {false, true}) {
      for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
        check_windows({.shape = shape,
                       .horizontal_sampling = h,
                       .vertical_sampling = v,
                       .is_noisy = is_noisy},
                      6);
      }
      check_windows({.shape = shape, .kind = JpegKind::grayscale, .is_noisy = is_noisy}, 8);
      check_windows({.shape = shape, .kind = JpegKind::rgb, .is_noisy = is_noisy}, 8);
    }
  }
  for (const ImageShape shape : {ImageShape{1, 1}, {1, 40}, {3, 3}}) {
    check_windows({.shape = shape, .horizontal_sampling = 1, .vertical_sampling = 1}, 5);
    check_windows({.shape = shape, .horizontal_sampling = 1, .vertical_sampling = 2}, 5);
    check_windows({.shape = shape, .kind = JpegKind::grayscale}, 5);
  }
}

TEST(JpegWindowDecoder, HasThemAtEveryQuality) {
  for (const int quality : {1, 2, 5, 10, 30, 50, 75, 90, 97, 99, 100}) {
    for (const bool is_noisy : {false, true}) {
      for (const int sampling : {1, 2}) {
        check_windows({.shape = {130, 120},
                       .horizontal_sampling = sampling,
                       .vertical_sampling = sampling,
                       .is_noisy = is_noisy,
                       .quality = quality,
                       .is_optimised = quality % 2 == 1},
                      6);
      }
    }
  }
}

TEST(JpegWindowDecoder, HasThemWithRestarts) {
  for (const unsigned interval : {1U, 2U, 3U, 7U, 13U, 26U, 40U}) {
    for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
      check_windows({.shape = {203, 151},
                     .restart_interval = interval,
                     .horizontal_sampling = h,
                     .vertical_sampling = v,
                     .is_noisy = true},
                    8);
    }
    check_windows({.shape = {97, 61}, .kind = JpegKind::grayscale, .restart_interval = interval},
                  8);
  }
}

TEST(JpegWindowDecoder, HasThemInEveryWindow) {
  const JpegSpec spec{.shape = {37, 19}, .is_noisy = true};
  const Bytes file = make_jpeg(spec);
  const Bytes image = decode(file, spec.shape);
  const Bytes packed = index_of(file, 1);
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  for (std::size_t left = 0; left < 37; ++left) {
    for (std::size_t width = 1; width <= 37 - left; ++width) {
      for (std::size_t top = 0; top < 19; ++top) {
        const Window window{left, top, width, 1 + (left + width + top) % (19 - top)};
        expect_ok(decoder.decode({file, packed, {}}, spec.shape, window, decoded));
        ASSERT_EQ(pixels_of(decoded), part_of(image, spec.shape, window))
            << left << " " << width << " " << top;
      }
    }
  }
}

TEST(JpegWindowDecoder, LeavesTheRestToLibjpeg) {
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  const auto decode_of = [&](const JpegSpec& spec) {
    return decoder.decode({make_jpeg(spec), {}, {}}, spec.shape, {0, 0, 1, 1}, decoded);
  };
  for (const JpegSpec& spec : std::vector<JpegSpec>{{.kind = JpegKind::cmyk},
                                                    {.is_progressive = true},
                                                    {.horizontal_sampling = 4},
                                                    {.shape = {4, 40}}}) {
    expect_code(decode_of(spec), Code::unsupported);
  }
  expect_ok(decode_of({}));
}

TEST(JpegWindowDecoder, WrongArgumentsAreErrors) {
  const Bytes file = make_jpeg({});
  const Bytes packed = index_of(file, 8);
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  expect_ok(decoder.decode({file, packed, crc32c(file)}, {40, 24}, {0, 0, 40, 24}, decoded));
  expect_code(decoder.decode({file, packed, {}}, {40, 24}, {0, 0, 41, 24}, decoded),
              Code::out_of_bounds);
  expect_code(decoder.decode({file, packed, {}}, {41, 24}, {0, 0, 40, 24}, decoded), Code::corrupt);
  expect_code(decoder.decode({file, packed, 1234U}, {40, 24}, {0, 0, 40, 24}, decoded),
              Code::corrupt);
  expect_code(decoder.decode({make_jpeg({.is_noisy = true}), packed, {}}, {40, 24}, {0, 0, 40, 24},
                             decoded),
              Code::corrupt);
}

// Whatever the data, nothing is accessed out of bounds, what is decoded without a tile index is
// what libjpeg decodes, and the next image is decoded as ever.
TEST(HostileJpegWindowDecoder, BitFlips) {
  std::mt19937 engine(9);
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  for (const JpegSpec& spec : std::vector<JpegSpec>{
           {}, {.is_noisy = true}, {.kind = JpegKind::grayscale}, {.restart_interval = 1}}) {
    const Bytes file = make_jpeg(spec);
    const Bytes image = decode(file, {40, 24});
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (const SimdLevel level : {SimdLevel::scalar, hardware_simd_level()}) {
        const LevelGuard guard(level);
        Bytes damaged = file;
        damaged[at] ^= static_cast<std::byte>(1U << engine() % 8);
        const Window whole{0, 0, 40, 24};
        if (decoder.decode({damaged, {}, {}}, {40, 24}, whole, decoded).is_ok()) {
          Bytes expected(40 * 24 * 3);
          if (decode_jpeg(damaged, {}, {40, 24}, expected).is_ok()) {
            ASSERT_EQ(pixels_of(decoded), expected) << at;
          }
        }
        const Window window = random_window(engine, {40, 24});
        expect_ok(decoder.decode({file, {}, {}}, {40, 24}, window, decoded));
        ASSERT_EQ(pixels_of(decoded), part_of(image, {40, 24}, window));
      }
    }
  }
}

TEST(HostileJpegWindowDecoder, EveryTruncation) {
  const Bytes file = make_jpeg({.is_noisy = true});
  const Bytes image = decode(file, {40, 24});
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  for (const Window& window : {Window{0, 0, 40, 24}, {20, 2, 8, 5}, {30, 18, 10, 6}}) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      const Bytes exact(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      if (decoder.decode({exact, {}, {}}, {40, 24}, window, decoded).is_ok()) {
        ASSERT_EQ(pixels_of(decoded), part_of(image, {40, 24}, window)) << size;
      }
    }
  }
}

TEST(HostileJpegWindowDecoder, NoMemoryForWhatIsNotThere) {
  Bytes file = make_jpeg({.shape = {90, 70}, .is_noisy = true});
  TileIndex tile_index;
  expect_ok(make_tile_index(file, 65535, tile_index));
  const Bytes marker = testing::from_hex("FFC0");
  const auto frame = std::search(file.begin(), file.end(), marker.begin(), marker.end());
  std::fill_n(frame + 5, 4, std::byte{0xFF});  // 65535x65535
  tile_index.info.width = tile_index.info.height = 65535;
  tile_index.info.jpeg_crc32c = crc32c(file);
  tile_index.rows = tile_index.info.rows = 4096;
  tile_index.positions.resize(4097);
  for (std::size_t i = 0; i < 4097; ++i) {
    tile_index.positions[i] = tile_index.info.scan_begin * 8 + static_cast<std::uint32_t>(i);
  }
  tile_index.predictors.resize(4096);
  Bytes packed;
  expect_ok(pack_tile_index(tile_index, packed));
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  expect_code(decoder.decode({file, packed, {}}, {65535, 65535}, {0, 0, 65535, 65535}, decoded),
              Code::corrupt);
  EXPECT_TRUE(decoded.memory.empty());
  EXPECT_FALSE(
      decoder.decode({file, {}, {}}, {65535, 65535}, {0, 0, 65535, 65535}, decoded).is_ok());
}

// Wrong data under right checksums: any result, but no access out of bounds.
TEST(HostileJpegWindowDecoder, IndexAndDataThatDoNotFit) {
  std::mt19937 engine(11);
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  for (const unsigned interval : {0U, 2U}) {
    const Bytes file =
        make_jpeg({.shape = {90, 70}, .restart_interval = interval, .is_noisy = true});
    TileIndex tile_index;
    expect_ok(make_tile_index(file, 1, tile_index));
    for (int i = 0; i < 4000; ++i) {
      Bytes damaged = file;
      TileIndex wrong = tile_index;
      if (i % 2 == 0) {
        damaged[tile_index.info.scan_begin +
                engine() % (damaged.size() - tile_index.info.scan_begin)] ^=
            static_cast<std::byte>(1U << engine() % 8);
        wrong.info.jpeg_crc32c = crc32c(damaged);
      } else {
        std::uint32_t& position = wrong.positions[1 + engine() % (wrong.positions.size() - 2)];
        position += static_cast<std::uint32_t>(engine() % 64);
        position -= static_cast<std::uint32_t>(engine() % 64);
        if (!std::is_sorted(wrong.positions.begin(), wrong.positions.end())) continue;
      }
      Bytes packed;
      expect_ok(pack_tile_index(wrong, packed));
      static_cast<void>(decoder.decode({damaged, packed, {}}, {90, 70},
                                       random_window(engine, {90, 70}), decoded));
    }
  }
}

// Any number of FF may stand before a marker.
Bytes with_fill_bytes(const Bytes& file, std::size_t count) {
  Bytes filled;
  for (std::size_t i = 0; i < file.size(); ++i) {
    const bool is_restart = file[i] == std::byte{0xFF} && i + 1 < file.size() &&
                            (file[i + 1] & std::byte{0xF8}) == std::byte{0xD0};
    if (is_restart) filled.insert(filled.end(), count, std::byte{0xFF});
    filled.push_back(file[i]);
  }
  return filled;
}

TEST(JpegWindowDecoder, FillBytesBeforeRestartMarkers) {
  const JpegSpec spec{.shape = {97, 61}, .restart_interval = 2, .is_noisy = true};
  const Bytes plain = make_jpeg(spec);
  const Bytes image = decode(plain, spec.shape);
  for (const std::size_t count : {1, 2, 9}) {
    const Bytes file = with_fill_bytes(plain, count);
    EXPECT_EQ(decode(file, spec.shape), image);
    const Bytes packed = index_of(file, 3);
    std::mt19937 engine(0);
    JpegWindowDecoder decoder;
    DecodedWindow decoded;
    for (int i = 0; i < 50; ++i) {
      const Window window = random_window(engine, spec.shape);
      expect_ok(decoder.decode({file, packed, {}}, spec.shape, window, decoded));
      ASSERT_EQ(pixels_of(decoded), part_of(image, spec.shape, window));
    }
  }
}

// libjpeg refuses a code of all ones, and so nothing else may decode it.
TEST(JpegWindowDecoder, ACodeOfAllOnesIsRefused) {
  const JpegSpec spec{.kind = JpegKind::grayscale};
  Bytes file = make_jpeg(spec);
  const Bytes table = testing::from_hex("FFC4 0000");
  const auto dht = std::search(file.begin(), file.end(), table.begin(), table.begin() + 2);
  ASSERT_NE(dht, file.end());
  // The standard table of DC differences: 12 codes, of 2 to 9 bits. One more of 9 bits is the last.
  const auto count_of_nine = dht + 5 + 8;
  ASSERT_EQ(*count_of_nine, std::byte{1});
  *count_of_nine = std::byte{2};
  file.insert(dht + 5 + 16 + 12, std::byte{12});
  const auto at = std::search(file.begin(), file.end(), table.begin(), table.begin() + 2);
  at[3] = static_cast<std::byte>(std::to_integer<unsigned>(at[3]) + 1);
  Bytes out(spec.shape.width * spec.shape.height * 3);
  EXPECT_FALSE(decode_jpeg(file, {}, spec.shape, out).is_ok());
  TileIndex tile_index;
  expect_code(make_tile_index(file, 1, tile_index), Code::corrupt);
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
  expect_code(decoder.decode({file, {}, {}}, spec.shape, {0, 0, 40, 24}, decoded), Code::corrupt);
}

}  // namespace
}  // namespace headrace
