// Raw pictures that are not scaled, through the loader: copied whole, in parts and by shares.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "headrace/checksum.hpp"
#include "headrace/images/load.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::random_bytes;

// Pictures of one size, one after another.
struct Pictures {
  Pictures(std::size_t count, ImageShape size)
      : shape(size), slot(size.width * size.height * 3), base(random_bytes(count * slot, 3)) {
    for (std::size_t i = 0; i < count; ++i) {
      offsets.push_back(i * slot);
      sizes.push_back(slot);
      modes.push_back(static_cast<std::uint8_t>(StoredMode::raw));
      widths.push_back(static_cast<std::uint32_t>(size.width));
      heights.push_back(static_cast<std::uint32_t>(size.height));
    }
  }

  [[nodiscard]] LoadBatch batch() const { return {offsets, sizes, modes, widths, heights, {}, {}}; }

  ImageShape shape;
  std::size_t slot;
  Bytes base;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint8_t> modes;
  std::vector<std::uint32_t> widths;
  std::vector<std::uint32_t> heights;
};

LoadReport load(const Pictures& pictures, const LoadBatch& batch, const LoadOptions& options,
                std::size_t threads, Bytes& out) {
  out.assign(pictures.offsets.size() * options.shape.width * options.shape.height * 3 *
                 size_bytes_of(options.type),
             std::byte{0xEE});
  LoadReport report;
  expect_ok(ImageLoader::create(threads).value()->load(pictures.base, batch, options, out, report));
  return report;
}

Bytes loaded(const Pictures& pictures, const LoadBatch& batch, const LoadOptions& options,
             std::size_t threads = 1) {
  Bytes out;
  EXPECT_TRUE(load(pictures, batch, options, threads, out).failures.empty());
  return out;
}

// Some thousand pixels, a share of many pictures, and many shares.
const std::array<std::pair<std::size_t, ImageShape>, 4> kBatches{
    {{1, {5, 7}}, {30, {32, 32}}, {700, {32, 32}}, {9, {200, 150}}}};

TEST(StoredPixels, WholePicturesAreCopied) {
  for (const auto& [count, shape] : kBatches) {
    Pictures pictures(count, shape);
    std::reverse(pictures.offsets.begin(), pictures.offsets.end());
    Bytes expected;
    for (const std::uint64_t offset : pictures.offsets) {
      const auto from = pictures.base.begin() + static_cast<std::ptrdiff_t>(offset);
      expected.insert(expected.end(), from, from + static_cast<std::ptrdiff_t>(pictures.slot));
    }
    for (const std::size_t threads : {1U, 3U}) {
      EXPECT_EQ(loaded(pictures, pictures.batch(), {.shape = shape}, threads), expected);
    }
  }
}

TEST(StoredPixels, WithoutCropsPicturesAreWholeAndWithoutFlipsNoneIsMirrored) {
  for (const auto& [count, shape] : kBatches) {
    const Pictures pictures(count, shape);
    LoadBatch batch = pictures.batch();
    const Bytes expected = loaded(pictures, batch, {.shape = shape});
    std::vector<std::int32_t> crops;
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t side : {std::size_t{0}, std::size_t{0}, shape.height, shape.width}) {
        crops.push_back(static_cast<std::int32_t>(side));
      }
    }
    const std::vector<std::uint8_t> flips(count, 0);
    batch.crops = crops;
    EXPECT_EQ(loaded(pictures, batch, {.shape = shape}), expected);
    batch.flips = flips;
    EXPECT_EQ(loaded(pictures, batch, {.shape = shape}, 2), expected);
  }
}

TEST(StoredPixels, FiltersDoNotChangePixelsThatAreNotScaled) {
  const Pictures pictures(3, {40, 30});
  const Bytes expected = loaded(pictures, pictures.batch(), {.shape = pictures.shape});
  for (const ResampleFilter filter :
       {ResampleFilter::area, ResampleFilter::bilinear, ResampleFilter::bicubic,
        ResampleFilter::lanczos, ResampleFilter::nearest, ResampleFilter::opencv_area}) {
    EXPECT_EQ(loaded(pictures, pictures.batch(), {.shape = pictures.shape, .filter = filter}),
              expected);
  }
}

// Every value of the output, one by one.
struct Expectation {
  const Pictures& pictures;
  const LoadBatch& batch;
  const LoadOptions& options;

  [[nodiscard]] int level(std::size_t i, std::size_t y, std::size_t x, std::size_t c) const {
    const bool is_flipped = !batch.flips.empty() && batch.flips[i] != 0;
    const std::size_t column = is_flipped ? options.shape.width - 1 - x : x;
    const int top = batch.crops.empty() ? 0 : batch.crops[4 * i];
    const int left = batch.crops.empty() ? 0 : batch.crops[4 * i + 1];
    const int row = top + static_cast<int>(y);
    const int at = left + static_cast<int>(column);
    const auto width = static_cast<int>(pictures.shape.width);
    if (row < 0 || at < 0 || at >= width || row >= static_cast<int>(pictures.shape.height)) {
      return (*options.fill)[c];
    }
    const auto offset = static_cast<std::size_t>(row * width + at) * 3 + c;
    return static_cast<int>(pictures.base[pictures.offsets[i] + offset]);
  }

  void check(const Bytes& out) const {
    const auto [width, height] = options.shape;
    for (std::size_t n = 0; n < pictures.offsets.size() * width * height * 3; ++n) {
      const std::size_t i = n / (width * height * 3);
      const std::size_t in_picture = n % (width * height * 3);
      const bool is_first = options.is_channels_first;
      const std::size_t c = is_first ? in_picture / (width * height) : in_picture % 3;
      const std::size_t pixel = is_first ? in_picture % (width * height) : in_picture / 3;
      const int wanted = level(i, pixel / width, pixel % width, c);
      if (options.type == OutputType::uint8) {
        ASSERT_EQ(static_cast<int>(out[n]), wanted) << n;
        continue;
      }
      float found = 0;
      std::memcpy(&found, out.data() + n * sizeof found, sizeof found);
      ASSERT_EQ(found, static_cast<float>(wanted) * options.scale[c] + options.bias[c]) << n;
    }
  }
};

TEST(StoredPixels, PartsAndMirrorImagesInEveryLayout) {
  const Pictures pictures(6, {33, 21});
  for (const ImageShape shape : {ImageShape{33, 21}, {33, 9}, {17, 21}, {40, 30}}) {
    std::vector<std::int32_t> crops;
    for (std::size_t i = 0; i < 6; ++i) {
      const int offset = static_cast<int>(i) - 2;
      crops.insert(crops.end(), {offset, 2 * offset, static_cast<int>(shape.height),
                                 static_cast<int>(shape.width)});
    }
    const std::vector<std::uint8_t> flips{0, 1, 0, 1, 1, 0};
    for (int choice = 0; choice < 16; ++choice) {
      const LoadOptions options{
          .shape = shape,
          .type = (choice & 1) != 0 ? OutputType::float32 : OutputType::uint8,
          .is_channels_first = (choice & 2) != 0,
          .fill = {{7, 8, 9}},
          .scale = (choice & 1) != 0 ? std::array{0.5F, 0.3F, 2.0F} : std::array{1.0F, 1.0F, 1.0F},
          .bias = {0.1F, -7.0F, 3.0F}};
      LoadBatch batch = pictures.batch();
      const bool is_whole = shape.width == 33 && shape.height == 21;
      if ((choice & 4) != 0 || !is_whole) batch.crops = crops;
      if ((choice & 8) != 0) batch.flips = flips;
      for (const SimdLevel level : testing::available_levels()) {
        const testing::LevelGuard guard(level);
        Expectation{pictures, batch, options}.check(loaded(pictures, batch, options, 2));
      }
    }
  }
}

TEST(StoredPixels, StepsComeAfterTheCopyAndBeforeScaling) {
  const Pictures pictures(40, {32, 32});
  std::vector<float> flips(40);
  for (std::size_t i = 0; i < flips.size(); ++i) flips[i] = static_cast<float>(i % 2);
  const PixelStep step{StepKind::flip, flips};
  std::vector<std::uint8_t> same(40);
  for (std::size_t i = 0; i < same.size(); ++i) same[i] = i % 2;
  for (const bool is_channels_first : {false, true}) {
    const LoadOptions options{.shape = {32, 32}, .is_channels_first = is_channels_first};
    LoadBatch batch = pictures.batch();
    batch.steps = {&step, 1};
    const Bytes stepped = loaded(pictures, batch, options);
    batch.steps = {};
    batch.flips = same;
    EXPECT_EQ(stepped, loaded(pictures, batch, options));
  }
}

TEST(StoredPixels, HostilePicturesFailAloneAndTheirSlotsAreZero) {
  for (const std::size_t threads : {1U, 4U}) {
    Pictures pictures(300, {32, 32});
    const Bytes right = loaded(pictures, pictures.batch(), {.shape = {32, 32}});
    pictures.offsets[3] = UINT64_MAX - 5;
    pictures.offsets[4] = pictures.base.size() - pictures.slot + 1;
    pictures.sizes[77] -= 1;
    pictures.modes[100] = 4;
    pictures.widths[200] = 16;  // scaled, and too many bytes for it
    pictures.heights[299] = 0xFFFFFFFF;
    Bytes out;
    const LoadReport report = load(pictures, pictures.batch(), {.shape = {32, 32}}, threads, out);
    const std::array<std::pair<std::size_t, Code>, 6> expected{{{3, Code::out_of_bounds},
                                                                {4, Code::out_of_bounds},
                                                                {77, Code::corrupt},
                                                                {100, Code::invalid_argument},
                                                                {200, Code::corrupt},
                                                                {299, Code::out_of_bounds}}};
    ASSERT_EQ(report.failures.size(), expected.size());
    for (std::size_t k = 0; k < expected.size(); ++k) {
      EXPECT_EQ(report.failures[k].position, expected[k].first);
      expect_code(report.failures[k].status, expected[k].second);
    }
    for (std::size_t i = 0; i < 300; ++i) {
      const bool is_bad = std::any_of(expected.begin(), expected.end(),
                                      [i](const auto& pair) { return pair.first == i; });
      const Bytes slot(out.begin() + static_cast<std::ptrdiff_t>(i * pictures.slot),
                       out.begin() + static_cast<std::ptrdiff_t>((i + 1) * pictures.slot));
      const Bytes wanted(right.begin() + static_cast<std::ptrdiff_t>(i * pictures.slot),
                         right.begin() + static_cast<std::ptrdiff_t>((i + 1) * pictures.slot));
      EXPECT_EQ(slot, is_bad ? Bytes(pictures.slot) : wanted) << i;
    }
  }
}

TEST(StoredPixels, ChecksumsOfCopiesAreCompared) {
  for (const auto& [count, shape] : kBatches) {
    const Pictures pictures(count, shape);
    std::vector<std::uint32_t> checksums(count);
    expect_ok(crc32c_spans(pictures.base, pictures.offsets, pictures.sizes, checksums));
    LoadBatch batch = pictures.batch();
    batch.checksums = checksums;
    for (const std::size_t threads : {1U, 3U}) {
      const Bytes right = loaded(pictures, batch, {.shape = shape}, threads);
      EXPECT_EQ(right, pictures.base);
      checksums[count / 2] ^= 1;
      Bytes out;
      const LoadReport report = load(pictures, batch, {.shape = shape}, threads, out);
      checksums[count / 2] ^= 1;
      ASSERT_EQ(report.failures.size(), 1U);
      EXPECT_EQ(report.failures[0].position, count / 2);
      expect_code(report.failures[0].status, Code::wrong_checksum);
      const std::byte* slot = out.data() + count / 2 * pictures.slot;
      EXPECT_TRUE(std::all_of(slot, slot + pictures.slot,
                              [](std::byte value) { return value == std::byte{0}; }));
    }
  }
}

TEST(StoredPixels, AnEmptyBatchIsNothing) {
  const Pictures pictures(0, {32, 32});
  EXPECT_TRUE(loaded(pictures, pictures.batch(), {.shape = {32, 32}}).empty());
}

}  // namespace
}  // namespace headrace
