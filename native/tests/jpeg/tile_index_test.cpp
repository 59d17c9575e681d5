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

TileIndex find(const Bytes& file, unsigned tile) {
  TileIndex tile_index;
  expect_ok(make_tile_index(file, tile, tile_index));
  return tile_index;
}

Bytes pack(const TileIndex& tile_index) {
  Bytes packed;
  expect_ok(pack_tile_index(tile_index, packed));
  return packed;
}

void expect_equal(const TileIndex& a, const TileIndex& b) {
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

TEST(TileIndex, PackedAndUnpacked) {
  for (const JpegSpec& spec : kSpecs) {
    const Bytes file = make_jpeg(spec);
    for (const unsigned tile : {1U, 3U, 8U, 65535U}) {
      const TileIndex tile_index = find(file, tile);
      EXPECT_EQ(tile_index.positions.size(), tile_index.info.rows * tile_index.info.columns + 1);
      EXPECT_EQ(tile_index.positions[0], tile_index.info.scan_begin * 8);
      EXPECT_TRUE(std::is_sorted(tile_index.positions.begin(), tile_index.positions.end()));
      const Bytes packed = pack(tile_index);
      TileIndex again;
      expect_ok(unpack_tile_index(packed, SIZE_MAX, again));
      expect_equal(again, tile_index);
      expect_ok(check_tile_index_belongs(again.info, file, crc32c(file)));
    }
  }
}

// Numbers of every length, and some that are far from the others: these are escaped.
TEST(TileIndex, NumbersOfEveryLength) {
  std::mt19937 engine(5);
  for (unsigned round = 0; round < 300; ++round) {
    const std::uint32_t components = round % 2 == 0 ? 3 : 1;
    const std::size_t columns = 1 + engine() % 5, rows = 1 + engine() % 20;
    TileIndex made;
    made.info = {.jpeg_size = kMaxIndexedJpegSize,
                 .width = static_cast<std::uint32_t>(8 * columns),
                 .height = static_cast<std::uint32_t>(8 * rows),
                 .tile = 1,
                 .components = components,
                 .h = 1,
                 .v = 1,
                 .scan_begin = 600,
                 .rows = rows,
                 .columns = columns};
    made.rows = rows;
    const auto bits = static_cast<unsigned>(engine() % 20);
    const auto predictor_bits = static_cast<unsigned>(engine() % 14);
    made.positions.push_back(600 * 8);
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const bool is_far = engine() % 16 == 0;
      const auto length = static_cast<std::uint32_t>(1 + engine() % (1U << (is_far ? 24 : bits)));
      made.positions.push_back(made.positions.back() + length);
      auto& predictors = made.predictors.emplace_back();
      for (std::size_t c = 0; c < components; ++c) {
        const unsigned range = 1U << (is_far ? 14 : predictor_bits);
        const int value = static_cast<int>(engine() % (2 * range)) - static_cast<int>(range);
        predictors[c] = static_cast<std::int16_t>(std::max(value, -16383));
      }
    }
    TileIndex again;
    expect_ok(unpack_tile_index(pack(made), SIZE_MAX, again));
    expect_equal(again, made);
  }
}

TEST(TileIndex, Located) {
  const std::vector<std::uint64_t> offsets = {0, 5, 5, 9, 7, 40};
  const std::vector<std::int64_t> numbers = {2, 0, 1, 3, 4};
  std::vector<std::uint64_t> begins(5, 1), sizes(5, 1);
  expect_ok(locate_tile_indices(offsets, 39, numbers, begins, sizes));
  EXPECT_EQ(begins, (std::vector<std::uint64_t>{5, 0, 5, 0, 0}));
  EXPECT_EQ(sizes, (std::vector<std::uint64_t>{4, 5, 0, 0, 0}));
  for (const std::int64_t wrong : {std::int64_t{5}, std::int64_t{-1}, INT64_MAX}) {
    const std::vector<std::int64_t> bad = {0, wrong, 0, 0, 0};
    const Status status = locate_tile_indices(offsets, 39, bad, begins, sizes);
    expect_code(status, Code::out_of_bounds);
    EXPECT_EQ(status.offset(), 1);
  }
  expect_code(locate_tile_indices(offsets, 39, numbers, begins, {}), Code::invalid_argument);
}

TEST(TileIndex, FirstRowsAlone) {
  const Bytes file = make_jpeg(kSpecs[1]);
  const TileIndex tile_index = find(file, 4);
  const Bytes packed = pack(tile_index);
  for (std::size_t rows = 0; rows <= tile_index.rows; ++rows) {
    TileIndex some;
    expect_ok(unpack_tile_index(packed, rows, some));
    EXPECT_EQ(some.rows, rows);
    EXPECT_TRUE(
        std::equal(some.positions.begin(), some.positions.end(), tile_index.positions.begin()));
    EXPECT_EQ(some.positions.size(), rows * tile_index.info.columns + 1);
  }
}

TEST(TileIndex, SmallTilesHoldTheLargeOnes) {
  for (const JpegSpec& spec : kSpecs) {
    const Bytes file = make_jpeg(spec);
    const TileIndex all = find(file, 1);
    const TileIndex some = find(file, 4);
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

TEST(TileIndex, NeverPointAtStuffing) {
  const Bytes file = make_jpeg({.shape = {203, 151}, .is_noisy = true, .quality = 100});
  for (const std::uint32_t position : find(file, 1).positions) {
    const std::size_t at = position / 8;
    ASSERT_LE(at, file.size());
    EXPECT_FALSE(file[at - 1] == std::byte{0xFF} && file[at] == std::byte{0});
  }
}

TEST(TileIndex, OtherKindsHaveNone) {
  for (const JpegSpec& spec : std::vector<JpegSpec>{{.kind = JpegKind::cmyk},
                                                    {.kind = JpegKind::ycck},
                                                    {.is_progressive = true},
                                                    {.is_arithmetic = true},
                                                    {.horizontal_sampling = 4},
                                                    {.vertical_sampling = 4}}) {
    if (!can_encode(spec)) continue;
    TileIndex tile_index;
    expect_code(make_tile_index(make_jpeg(spec), 8, tile_index), Code::unsupported);
  }
  TileIndex tile_index;
  expect_code(make_tile_index(make_jpeg({}), 0, tile_index), Code::invalid_argument);
  expect_code(make_tile_index(make_jpeg({}), 65536, tile_index), Code::invalid_argument);
  expect_code(make_tile_index({}, 8, tile_index), Code::truncated);
}

TEST(TileIndex, BelongToTheirJpeg) {
  Bytes file = make_jpeg({});
  const TileIndex tile_index = find(file, 8);
  file[100] ^= std::byte{1};
  expect_code(check_tile_index_belongs(tile_index.info, file, crc32c(file)), Code::corrupt);
  file[100] ^= std::byte{1};
  file.push_back(std::byte{0});
  expect_code(check_tile_index_belongs(tile_index.info, file, tile_index.info.jpeg_crc32c),
              Code::corrupt);
}

TEST(HostileTileIndex, EveryTruncationOfTheJpeg) {
  for (const unsigned interval : {0U, 2U}) {
    const Bytes file = make_jpeg({.restart_interval = interval, .is_noisy = true});
    const TileIndex whole = find(file, 1);
    for (std::size_t size = 0; size < file.size(); ++size) {
      const Bytes exact(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
      TileIndex tile_index;
      const Status status = make_tile_index(exact, 1, tile_index);
      // Only the end marker, and bits that fill the last byte, may be missing.
      if (status.is_ok()) {
        ASSERT_EQ(tile_index.positions, whole.positions);
        ASSERT_GE(size * 8, whole.positions.back());
      } else {
        ASSERT_LE(status.offset(), static_cast<std::int64_t>(size));
      }
    }
  }
}

TEST(HostileTileIndex, BitFlipsInTheJpeg) {
  std::mt19937 engine(3);
  for (const JpegSpec& spec : kSpecs) {
    if (spec.shape.width > 100) continue;
    const Bytes file = make_jpeg(spec);
    for (std::size_t at = 0; at < file.size(); ++at) {
      Bytes damaged = file;
      damaged[at] ^= static_cast<std::byte>(1U << engine() % 8);
      TileIndex tile_index;
      if (!make_tile_index(damaged, 2, tile_index).is_ok()) continue;
      TileIndex again;
      expect_ok(unpack_tile_index(pack(tile_index), SIZE_MAX, again));
      expect_equal(again, tile_index);
    }
  }
}

TEST(HostileTileIndex, EveryTruncationOfTheIndex) {
  const Bytes packed = pack(find(make_jpeg(kSpecs[1]), 4));
  TileIndex tile_index;
  for (std::size_t size = 0; size < packed.size(); ++size) {
    Bytes cut(packed.begin(), packed.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(unpack_tile_index(cut, SIZE_MAX, tile_index).is_ok());
    if (size < 32) continue;
    seal(cut);
    EXPECT_FALSE(unpack_tile_index(cut, SIZE_MAX, tile_index).is_ok()) << size;
  }
}

TEST(HostileTileIndex, BitFlipsInTheIndex) {
  const Bytes packed = pack(find(make_jpeg(kSpecs[1]), 4));
  TileIndex tile_index;
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    Bytes damaged = packed;
    damaged[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    EXPECT_FALSE(unpack_tile_index(damaged, SIZE_MAX, tile_index).is_ok()) << bit;
    seal(damaged);
    if (!unpack_tile_index(damaged, SIZE_MAX, tile_index).is_ok()) continue;
    EXPECT_TRUE(std::is_sorted(tile_index.positions.begin(), tile_index.positions.end()));
    EXPECT_LE(tile_index.positions.back(), std::uint64_t{tile_index.info.jpeg_size} * 8);
  }
}

TEST(HostileTileIndex, NoMemoryForWhatIsNotThere) {
  Bytes packed = pack(find(make_jpeg({}), 1));
  for (const std::size_t at : {12U, 13U, 14U, 15U}) packed[at] = std::byte{0xFF};
  seal(packed);
  TileIndex tile_index;
  expect_code(unpack_tile_index(packed, SIZE_MAX, tile_index), Code::corrupt);
  EXPECT_LT(tile_index.positions.capacity(), 1000U);
}

}  // namespace
}  // namespace headrace
