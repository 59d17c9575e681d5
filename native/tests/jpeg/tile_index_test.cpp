#include "headrace/jpeg/tile_index.hpp"

#include <algorithm>

#include "headrace/checksum.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::can_encode;
using testing::expect_code;
using testing::expect_ok;
using testing::JpegKind;
using testing::JpegSpec;
using testing::make_jpeg;

JpegTiles find(const Bytes& file, unsigned tile) {
  JpegTiles tiles;
  expect_ok(find_jpeg_tiles(file, tile, tiles));
  return tiles;
}

Bytes pack(const JpegTiles& tiles) {
  Bytes packed;
  expect_ok(pack_jpeg_tiles(tiles, packed));
  return packed;
}

void expect_equal(const JpegTiles& a, const JpegTiles& b) {
  EXPECT_EQ(a.info.jpeg_size, b.info.jpeg_size);
  EXPECT_EQ(a.info.jpeg_crc32c, b.info.jpeg_crc32c);
  EXPECT_EQ(a.info.width, b.info.width);
  EXPECT_EQ(a.info.height, b.info.height);
  EXPECT_EQ(a.info.tile, b.info.tile);
  EXPECT_EQ(a.info.components, b.info.components);
  EXPECT_EQ(a.info.h, b.info.h);
  EXPECT_EQ(a.info.v, b.info.v);
  EXPECT_EQ(a.info.scan_begin, b.info.scan_begin);
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_EQ(a.positions, b.positions);
  EXPECT_EQ(a.predictors, b.predictors);
}

// The checksum at the end made right again.
void seal(Bytes& packed) {
  const std::uint32_t crc = crc32c(ByteSpan(packed).first(packed.size() - 4));
  for (std::size_t i = 0; i < 4; ++i) {
    packed[packed.size() - 4 + i] = static_cast<std::byte>(crc >> 8 * i);
  }
}

const std::vector<JpegSpec> kSpecs = {
    {.shape = {1, 1}},
    {.shape = {203, 151}, .is_noisy = true},
    {.shape = {203, 151}, .horizontal_sampling = 1, .vertical_sampling = 1, .is_noisy = true},
    {.shape = {203, 151}, .vertical_sampling = 1, .is_optimised = true},
    {.shape = {203, 151}, .horizontal_sampling = 1, .quality = 20},
    {.shape = {203, 151}, .kind = JpegKind::grayscale, .is_noisy = true},
    {.shape = {97, 61}, .kind = JpegKind::rgb},
    {.shape = {203, 151}, .restart_interval = 1, .is_noisy = true},
    {.shape = {203, 151}, .restart_interval = 5, .is_noisy = true},
    {.shape = {203, 151}, .restart_interval = 13, .is_noisy = true}};

TEST(JpegTiles, PackedAndUnpacked) {
  for (const JpegSpec& spec : kSpecs) {
    const Bytes file = make_jpeg(spec);
    for (const unsigned tile : {1U, 3U, 8U, 65535U}) {
      const JpegTiles tiles = find(file, tile);
      EXPECT_EQ(tiles.positions.size(), tiles.info.rows * tiles.info.columns + 1);
      EXPECT_EQ(tiles.positions[0], tiles.info.scan_begin * 8);
      EXPECT_TRUE(std::is_sorted(tiles.positions.begin(), tiles.positions.end()));
      const Bytes packed = pack(tiles);
      JpegTiles again;
      expect_ok(unpack_jpeg_tiles(packed, SIZE_MAX, again));
      expect_equal(again, tiles);
      expect_ok(check_tiles_belong(again.info, file, crc32c(file)));
    }
  }
}

TEST(JpegTiles, FirstRowsAlone) {
  const Bytes file = make_jpeg(kSpecs[1]);
  const JpegTiles tiles = find(file, 4);
  const Bytes packed = pack(tiles);
  for (std::size_t rows = 0; rows <= tiles.rows; ++rows) {
    JpegTiles some;
    expect_ok(unpack_jpeg_tiles(packed, rows, some));
    EXPECT_EQ(some.rows, rows);
    EXPECT_TRUE(std::equal(some.positions.begin(), some.positions.end(), tiles.positions.begin()));
    EXPECT_EQ(some.positions.size(), rows * tiles.info.columns + 1);
  }
}

TEST(JpegTiles, SmallTilesHoldTheLargeOnes) {
  for (const JpegSpec& spec : kSpecs) {
    const Bytes file = make_jpeg(spec);
    const JpegTiles all = find(file, 1);
    const JpegTiles some = find(file, 4);
    for (std::size_t y = 0; y < some.rows; ++y) {
      for (std::size_t x = 0; x < some.info.columns; ++x) {
        const std::size_t i = y * some.info.columns + x;
        const std::size_t j = y * all.info.columns + 4 * x;
        EXPECT_EQ(some.positions[i], all.positions[j]);
        EXPECT_EQ(some.predictors[i], all.predictors[j]);
      }
    }
  }
}

TEST(JpegTiles, NeverPointAtStuffing) {
  const Bytes file = make_jpeg({.shape = {203, 151}, .is_noisy = true, .quality = 100});
  for (const std::uint32_t position : find(file, 1).positions) {
    const std::size_t at = position / 8;
    ASSERT_LE(at, file.size());
    EXPECT_FALSE(file[at - 1] == std::byte{0xFF} && file[at] == std::byte{0});
  }
}

TEST(JpegTiles, OtherKindsHaveNone) {
  for (const JpegSpec& spec : std::vector<JpegSpec>{{.kind = JpegKind::cmyk},
                                                    {.kind = JpegKind::ycck},
                                                    {.is_progressive = true},
                                                    {.is_arithmetic = true},
                                                    {.horizontal_sampling = 4},
                                                    {.vertical_sampling = 4}}) {
    if (!can_encode(spec)) continue;
    JpegTiles tiles;
    expect_code(find_jpeg_tiles(make_jpeg(spec), 8, tiles), Code::unsupported);
  }
  JpegTiles tiles;
  expect_code(find_jpeg_tiles(make_jpeg({}), 0, tiles), Code::invalid_argument);
  expect_code(find_jpeg_tiles(make_jpeg({}), 65536, tiles), Code::invalid_argument);
  expect_code(find_jpeg_tiles({}, 8, tiles), Code::truncated);
}

TEST(JpegTiles, BelongToTheirJpeg) {
  Bytes file = make_jpeg({});
  const JpegTiles tiles = find(file, 8);
  file[100] ^= std::byte{1};
  expect_code(check_tiles_belong(tiles.info, file, crc32c(file)), Code::corrupt);
  file[100] ^= std::byte{1};
  file.push_back(std::byte{0});
  expect_code(check_tiles_belong(tiles.info, file, tiles.info.jpeg_crc32c), Code::corrupt);
}

TEST(HostileJpegTiles, EveryTruncationOfTheJpeg) {
  for (const unsigned interval : {0U, 2U}) {
    const Bytes file = make_jpeg({.restart_interval = interval, .is_noisy = true});
    const JpegTiles whole = find(file, 1);
    for (std::size_t size = 0; size < file.size(); ++size) {
      const Bytes exact(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      JpegTiles tiles;
      const Status status = find_jpeg_tiles(exact, 1, tiles);
      // Only the end marker, and bits that fill the last byte, may be missing.
      if (status.is_ok()) {
        ASSERT_EQ(tiles.positions, whole.positions);
        ASSERT_GE(size * 8, whole.positions.back());
      } else {
        ASSERT_LE(status.offset(), static_cast<std::int64_t>(size));
      }
    }
  }
}

TEST(HostileJpegTiles, BitFlipsInTheJpeg) {
  std::mt19937 engine(3);
  for (const JpegSpec& spec : kSpecs) {
    if (spec.shape.width > 100) continue;
    const Bytes file = make_jpeg(spec);
    for (std::size_t at = 0; at < file.size(); ++at) {
      Bytes damaged = file;
      damaged[at] ^= static_cast<std::byte>(1U << engine() % 8);
      JpegTiles tiles;
      if (!find_jpeg_tiles(damaged, 2, tiles).is_ok()) continue;
      JpegTiles again;
      expect_ok(unpack_jpeg_tiles(pack(tiles), SIZE_MAX, again));
      expect_equal(again, tiles);
    }
  }
}

TEST(HostileJpegTiles, EveryTruncationOfTheIndex) {
  const Bytes packed = pack(find(make_jpeg(kSpecs[1]), 4));
  JpegTiles tiles;
  for (std::size_t size = 0; size < packed.size(); ++size) {
    Bytes cut(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(unpack_jpeg_tiles(cut, SIZE_MAX, tiles).is_ok());
    if (size < 32) continue;
    seal(cut);
    EXPECT_FALSE(unpack_jpeg_tiles(cut, SIZE_MAX, tiles).is_ok()) << size;
  }
}

TEST(HostileJpegTiles, BitFlipsInTheIndex) {
  const Bytes packed = pack(find(make_jpeg(kSpecs[1]), 4));
  JpegTiles tiles;
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    Bytes damaged = packed;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(unpack_jpeg_tiles(damaged, SIZE_MAX, tiles).is_ok()) << bit;
    seal(damaged);
    if (!unpack_jpeg_tiles(damaged, SIZE_MAX, tiles).is_ok()) continue;
    EXPECT_TRUE(std::is_sorted(tiles.positions.begin(), tiles.positions.end()));
    EXPECT_LE(tiles.positions.back(), std::uint64_t{tiles.info.jpeg_size} * 8);
  }
}

TEST(HostileJpegTiles, NoMemoryForWhatIsNotThere) {
  Bytes packed = pack(find(make_jpeg({}), 1));
  for (const std::size_t at : {12U, 13U, 14U, 15U}) packed[at] = std::byte{0xFF};
  seal(packed);
  JpegTiles tiles;
  expect_code(unpack_jpeg_tiles(packed, SIZE_MAX, tiles), Code::corrupt);
  EXPECT_LT(tiles.positions.capacity(), 1000U);
}

}  // namespace
}  // namespace headrace
