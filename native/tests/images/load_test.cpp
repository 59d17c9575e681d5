#include "headrace/images/load.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "headrace/checksum.hpp"
#include "headrace/jpeg/codec.hpp"
#include "headrace/jpeg/tile_index.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::LevelGuard;
using testing::make_jpeg;
using testing::random_bytes;

// Images one after another, with the arrays that describe them.
struct Stored {
  Bytes base;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint8_t> modes;
  std::vector<std::uint32_t> widths;
  std::vector<std::uint32_t> heights;
  std::vector<std::int32_t> crops;
  std::vector<std::uint8_t> flips;

  void add(const Bytes& bytes, StoredMode mode, ImageShape shape, std::array<int, 4> crop,
           bool is_flipped = false) {
    offsets.push_back(base.size());
    sizes.push_back(bytes.size());
    base.insert(base.end(), bytes.begin(), bytes.end());
    modes.push_back(static_cast<std::uint8_t>(mode));
    widths.push_back(static_cast<std::uint32_t>(shape.width));
    heights.push_back(static_cast<std::uint32_t>(shape.height));
    crops.insert(crops.end(), crop.begin(), crop.end());
    flips.push_back(is_flipped ? 1 : 0);
  }

  [[nodiscard]] LoadBatch batch() const {
    return {offsets, sizes, modes, widths, heights, crops, flips};
  }
};

std::unique_ptr<ImageLoader> make_loader(std::size_t threads) {
  auto loader = ImageLoader::create(threads);
  expect_ok(loader.status());
  return std::move(loader.value());
}

Bytes load(const Stored& stored, const LoadOptions& options, std::size_t threads = 1) {
  Bytes out(stored.sizes.size() * options.shape.width * options.shape.height * 3 *
                size_bytes_of(options.type),
            std::byte{0xEE});
  LoadReport report;
  expect_ok(make_loader(threads)->load(stored.base, stored.batch(), options, out, report));
  EXPECT_TRUE(report.failures.empty());
  return out;
}

constexpr ImageShape kImage{97, 61};

Bytes test_jpeg() { return make_jpeg({.shape = kImage, .is_noisy = true}); }

Bytes decoded_jpeg() {
  Bytes pixels(kImage.width * kImage.height * 3);
  expect_ok(decode_jpeg(test_jpeg(), {}, kImage, pixels));
  return pixels;
}

std::array<int, 4> random_crop(std::mt19937& engine) {
  const int height = 1 + static_cast<int>(engine() % kImage.height);
  const int width = 1 + static_cast<int>(engine() % kImage.width);
  return {static_cast<int>(engine() % (kImage.height + 1 - static_cast<unsigned>(height))),
          static_cast<int>(engine() % (kImage.width + 1 - static_cast<unsigned>(width))), height,
          width};
}

// The same crops of the same picture, once as JPEG and once as its pixels.
std::pair<Stored, Stored> twins(int count) {
  std::mt19937 engine(11);
  std::pair<Stored, Stored> both;
  const Bytes file = test_jpeg();
  const Bytes pixels = decoded_jpeg();
  for (int i = 0; i < count; ++i) {
    const auto crop = random_crop(engine);
    both.first.add(file, StoredMode::jpeg, kImage, crop, i % 2 == 1);
    both.second.add(pixels, StoredMode::raw, kImage, crop, i % 2 == 1);
  }
  return both;
}

TEST(Load, JpegEqualsItsPixels) {
  const auto [jpegs, raws] = twins(60);
  for (const ResampleFilter filter :
       {ResampleFilter::area, ResampleFilter::bilinear, ResampleFilter::bicubic,
        ResampleFilter::lanczos, ResampleFilter::nearest, ResampleFilter::opencv_area}) {
    const LoadOptions options{.shape = {32, 24}, .filter = filter};
    EXPECT_EQ(load(jpegs, options), load(raws, options));
  }
}

TEST(Load, ThreadsChangeNothing) {
  const auto [jpegs, raws] = twins(40);
  const LoadOptions options{.shape = {32, 24}};
  const Bytes expected = load(jpegs, options);
  for (const std::size_t threads : {2U, 5U}) EXPECT_EQ(load(jpegs, options, threads), expected);
}

TEST(Load, ManyCallersAtOnce) {
  const auto [jpegs, raws] = twins(20);
  const LoadOptions small{.shape = {32, 24}};
  const LoadOptions large{.shape = {80, 60}, .type = OutputType::float16};
  const Bytes expected[] = {load(jpegs, small), load(raws, large)};
  const auto loader = make_loader(3);
  std::vector<std::thread> callers;
  std::array<Bytes, 4> out;
  for (std::size_t c = 0; c < out.size(); ++c) {
    out[c].resize(expected[c % 2].size());
    callers.emplace_back([&, c, &stored = c % 2 == 0 ? jpegs : raws] {
      LoadReport report;
      for (int round = 0; round < 5; ++round) {
        expect_ok(
            loader->load(stored.base, stored.batch(), c % 2 == 0 ? small : large, out[c], report));
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (std::size_t c = 0; c < out.size(); ++c) EXPECT_EQ(out[c], expected[c % 2]);
}

TEST(Load, WholeImageIsACopy) {
  Stored stored;
  const Bytes pixels = decoded_jpeg();
  stored.add(pixels, StoredMode::raw, kImage, {0, 0, 61, 97});
  stored.add(test_jpeg(), StoredMode::jpeg, kImage, {0, 0, 61, 97});
  Bytes expected = pixels;
  expected.insert(expected.end(), pixels.begin(), pixels.end());
  EXPECT_EQ(load(stored, {.shape = kImage}), expected);
}

// A part of a picture thought to go on in one colour on all sides.
Bytes filled_part(const Bytes& pixels, std::array<int, 4> crop, std::array<std::uint8_t, 3> fill,
                  bool is_flipped) {
  Bytes out;
  for (int y = crop[0]; y < crop[0] + crop[2]; ++y) {
    for (int i = 0; i < crop[3]; ++i) {
      const int x = crop[1] + (is_flipped ? crop[3] - 1 - i : i);
      const bool is_inside = y >= 0 && x >= 0 && y < static_cast<int>(kImage.height) &&
                             x < static_cast<int>(kImage.width);
      for (int c = 0; c < 3; ++c) {
        const auto at = static_cast<std::size_t>((y * static_cast<int>(kImage.width) + x) * 3 + c);
        out.push_back(is_inside ? pixels[at] : std::byte{fill[static_cast<std::size_t>(c)]});
      }
    }
  }
  return out;
}

TEST(Load, CropsStickOutWhereThereIsAFill) {
  const Bytes file = test_jpeg();
  const Bytes pixels = decoded_jpeg();
  const std::array<std::uint8_t, 3> fill{9, 0, 250};
  const std::array<std::array<int, 4>, 5> smaller{
      {{-3, 5, 40, 50}, {50, 80, 40, 50}, {-39, -49, 40, 50}, {5, 6, 40, 50}, {61, 97, 40, 50}}};
  const std::array<std::array<int, 4>, 3> larger{
      {{-3, -20, 70, 120}, {-9, -23, 70, 120}, {-70, 0, 70, 120}}};
  const auto expect_parts = [&](auto crops, ImageShape shape) {
    Stored stored;
    Bytes expected;
    for (const std::array<int, 4>& crop : crops) {
      for (const bool is_flipped : {false, true}) {
        stored.add(file, StoredMode::jpeg, kImage, crop, is_flipped);
        stored.add(pixels, StoredMode::raw, kImage, crop, is_flipped);
        const Bytes part = filled_part(pixels, crop, fill, is_flipped);
        for (int twice = 0; twice < 2; ++twice) {
          expected.insert(expected.end(), part.begin(), part.end());
        }
      }
    }
    EXPECT_EQ(load(stored, {.shape = shape, .fill = fill}), expected);
  };
  expect_parts(smaller, {50, 40});
  expect_parts(larger, {120, 70});
}

TEST(Load, CropsThatStickOutAreNotScaled) {
  Stored stored;
  stored.add(decoded_jpeg(), StoredMode::raw, kImage, {-1, 0, 20, 20});
  stored.add(decoded_jpeg(), StoredMode::raw, kImage, {0, 0, 20, 20});
  Bytes out(2 * 10 * 10 * 3);
  LoadReport report;
  expect_ok(make_loader(1)->load(stored.base, stored.batch(),
                                 {.shape = {10, 10}, .fill = {{1, 2, 3}}}, out, report));
  ASSERT_EQ(report.failures.size(), 1U);
  EXPECT_EQ(report.failures[0].position, 0U);
  expect_code(report.failures[0].status, Code::out_of_bounds);
}

std::vector<float> floats_of(const Bytes& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

TEST(Load, LayoutsAndTypes) {
  const auto [jpegs, raws] = twins(3);
  LoadOptions options{.shape = {37, 19}};
  const std::size_t plane = 37 * 19;
  const Bytes plain = load(raws, options);
  options.is_channels_first = true;
  const Bytes planes = load(raws, options);
  options.type = OutputType::float32;
  options.scale = {0.5F, 0.25F, 2.0F};
  options.bias = {-1.0F, 3.0F, 0.5F};
  const std::vector<float> float_planes = floats_of(load(raws, options));
  options.is_channels_first = false;
  const std::vector<float> float_pixels = floats_of(load(raws, options));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t image = i / (plane * 3);
    const std::size_t channel = i % 3;
    const std::size_t in_planes = (image * 3 + channel) * plane + i / 3 % plane;
    const auto value = static_cast<float>(testing::level_of(plain[i]));
    const float expected = value * options.scale[channel] + options.bias[channel];
    ASSERT_EQ(planes[in_planes], plain[i]);
    ASSERT_EQ(float_planes[in_planes], expected);
    ASSERT_EQ(float_pixels[i], expected);
  }
}

TEST(Load, AllLevelsAgree) {
  const auto [jpegs, raws] = twins(12);
  for (const ImageShape shape :
       {ImageShape{1, 2}, {15, 9}, {16, 16}, {64, 7}, {90, 61}, {150, 33}}) {
    for (const OutputType type : {OutputType::uint8, OutputType::float16, OutputType::float32}) {
      for (const bool is_channels_first : {false, true}) {
        for (const ResampleFilter filter : {ResampleFilter::area, ResampleFilter::lanczos}) {
          const LoadOptions options{.shape = shape,
                                    .type = type,
                                    .is_channels_first = is_channels_first,
                                    .filter = filter,
                                    .scale = {0.0171F, 0.0175F, -0.3F},
                                    .bias = {-2.118F, 0.1F, 7.0F}};
          Bytes expected;
          for (const SimdLevel level : testing::available_levels()) {
            const testing::LevelGuard guard(level);
            const Bytes out = load(raws, options);
            if (level == SimdLevel::scalar) expected = out;
            ASSERT_EQ(out, expected) << shape.width << " " << simd_level_name(level);
          }
        }
      }
    }
  }
}

TEST(Load, TablesReplaceScaleAndBias) {
  const auto [jpegs, raws] = twins(3);
  for (const ImageShape shape : {ImageShape{1, 2}, {63, 3}, {64, 9}, {65, 2}, {150, 33}}) {
    const Bytes levels = load(raws, {.shape = shape});
    for (const OutputType type : {OutputType::float16, OutputType::float32}) {
      const std::size_t size = size_bytes_of(type);
      const Bytes table = random_bytes(3 * 256 * size, 5);
      for (const bool is_channels_first : {false, true}) {
        const LoadOptions options{
            .shape = shape, .type = type, .is_channels_first = is_channels_first, .table = table};
        Bytes expected(levels.size() * size);
        const std::size_t plane = shape.width * shape.height;
        for (std::size_t i = 0; i < levels.size(); ++i) {
          const std::size_t channel = i % 3;
          const std::size_t in_planes = (i / (3 * plane) * 3 + channel) * plane + i / 3 % plane;
          const std::size_t entry = channel * 256 + static_cast<std::size_t>(levels[i]);
          std::memcpy(expected.data() + (is_channels_first ? in_planes : i) * size,
                      table.data() + entry * size, size);
        }
        for (const SimdLevel level : testing::available_levels()) {
          const testing::LevelGuard guard(level);
          ASSERT_EQ(load(raws, options), expected) << shape.width << " " << simd_level_name(level);
        }
      }
    }
  }
}

TEST(Load, HalvesAreRoundedFloats) {
  const auto [jpegs, raws] = twins(2);
  for (const bool is_channels_first : {false, true}) {
    LoadOptions options{.shape = {37, 19},
                        .type = OutputType::float16,
                        .is_channels_first = is_channels_first,
                        .scale = {1.0F, 0.5F, 0.25F},  // all results exist as halves
                        .bias = {-128.0F, 0.0F, 1.0F}};
    const Bytes halves = load(raws, options);
    options.type = OutputType::float32;
    const std::vector<float> floats = floats_of(load(raws, options));
    for (std::size_t i = 0; i < floats.size(); ++i) {
      std::uint16_t half;
      std::memcpy(&half, halves.data() + 2 * i, sizeof half);
      const int exponent = half >> 10 & 0x1F;
      const double size = exponent == 0 ? std::ldexp(half & 0x3FF, -24)
                                        : std::ldexp(1024 + (half & 0x3FF), exponent - 25);
      ASSERT_EQ((half & 0x8000) != 0 ? -size : size, static_cast<double>(floats[i]));
    }
  }
}

// A ramp without steps, so that a shift by a part of a pixel would show.
Bytes ramp_jpeg(ImageShape shape) {
  Bytes pixels;
  for (std::size_t y = 0; y < shape.height; ++y) {
    for (std::size_t x = 0; x < shape.width; ++x) {
      for (const std::size_t value :
           {255 * x / shape.width, 255 * y / shape.height, 255 * (x + y) / 1000}) {
        pixels.push_back(static_cast<std::byte>(value));
      }
    }
  }
  Bytes file;
  expect_ok(encode_jpeg(pixels, shape, shape.width * 3, 98, file));
  return file;
}

TEST(Load, ReducedSizeIsClose) {
  const ImageShape shape{400, 300};
  Stored stored;
  stored.add(ramp_jpeg(shape), StoredMode::jpeg, shape, {13, 37, 250, 330});
  stored.add(ramp_jpeg(shape), StoredMode::jpeg, shape, {0, 0, 300, 400}, true);
  for (const ImageShape out_shape : {ImageShape{160, 120}, {80, 60}, {40, 30}}) {
    for (const ResampleFilter filter : {ResampleFilter::area, ResampleFilter::bilinear}) {
      LoadOptions options{.shape = out_shape, .filter = filter};
      const Bytes exact = load(stored, options);
      options.is_reduced = true;
      const Bytes reduced = load(stored, options);
      double largest = 0;
      for (std::size_t i = 0; i < exact.size(); ++i) {
        largest = std::max(largest,
                           std::abs(testing::level_of(exact[i]) - testing::level_of(reduced[i])));
      }
      EXPECT_LE(largest, 3) << out_shape.width;  // a step of the smallest output is 6
    }
  }
}

TEST(Load, ExactFiltersAreNeverReduced) {
  const ImageShape shape{400, 300};
  Stored stored;
  stored.add(ramp_jpeg(shape), StoredMode::jpeg, shape, {13, 37, 250, 330});
  for (const ResampleFilter filter : {ResampleFilter::nearest, ResampleFilter::opencv_area}) {
    LoadOptions options{.shape = {40, 30}, .filter = filter};
    const Bytes expected = load(stored, options);
    options.is_reduced = true;
    EXPECT_EQ(load(stored, options), expected);
  }
}

TEST(Load, FailuresAreListedAndTheirSlotsAreZero) {
  Stored stored;
  const Bytes file = test_jpeg();
  const Bytes pixels = decoded_jpeg();
  const std::array<int, 4> crop{0, 0, 61, 97};
  std::vector<Code> expected;
  const auto add = [&](Code code, const Bytes& bytes, StoredMode mode, std::array<int, 4> where) {
    stored.add(bytes, mode, kImage, where);
    expected.push_back(code);
  };
  add(Code::ok, file, StoredMode::jpeg, crop);
  add(Code::truncated, Bytes(file.begin(), file.begin() + 900), StoredMode::jpeg, crop);
  add(Code::corrupt, pixels, StoredMode::jpeg, crop);
  add(Code::corrupt, file, StoredMode::raw, crop);
  add(Code::ok, pixels, StoredMode::raw, crop);
  add(Code::out_of_bounds, file, StoredMode::jpeg, {0, 0, 62, 97});
  add(Code::out_of_bounds, file, StoredMode::jpeg, {-1, 0, 5, 5});
  add(Code::out_of_bounds, pixels, StoredMode::raw, {0, 90, 5, 8});
  add(Code::out_of_bounds, pixels, StoredMode::raw, {0, 0, 0, 5});
  add(Code::out_of_bounds, pixels, StoredMode::raw, {INT32_MIN, 0, INT32_MAX, 5});
  add(Code::invalid_argument, pixels, static_cast<StoredMode>(4), crop);
  add(Code::out_of_bounds, file, StoredMode::jpeg, crop);
  stored.offsets.back() = UINT64_MAX;
  add(Code::out_of_bounds, file, StoredMode::jpeg, crop);
  stored.sizes.back() += 1;

  const LoadOptions options{.shape = {16, 16}};
  const std::size_t slot = 16 * 16 * 3;
  for (const std::size_t threads : {1U, 3U}) {
    Bytes out(expected.size() * slot, std::byte{0xEE});
    LoadReport report;
    expect_ok(make_loader(threads)->load(stored.base, stored.batch(), options, out, report));
    std::vector<Code> codes(expected.size(), Code::ok);
    for (const LoadFailure& failure : report.failures) {
      codes[failure.position] = failure.status.code();
      EXPECT_FALSE(failure.status.detail().empty());
    }
    EXPECT_EQ(codes, expected);
    EXPECT_TRUE(
        std::is_sorted(report.failures.begin(), report.failures.end(),
                       [](const auto& a, const auto& b) { return a.position < b.position; }));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const auto begin = out.begin() + static_cast<std::ptrdiff_t>(i * slot);
      const bool is_zero = std::all_of(begin, begin + static_cast<std::ptrdiff_t>(slot),
                                       [](std::byte value) { return value == std::byte{0}; });
      EXPECT_EQ(is_zero, expected[i] != Code::ok) << i;
    }
  }
}

TEST(Load, ChecksumsAreCompared) {
  const auto [jpegs, raws] = twins(3);
  for (const Stored* stored : {&jpegs, &raws}) {
    std::vector<std::uint32_t> checksums(3);
    expect_ok(crc32c_spans(stored->base, stored->offsets, stored->sizes, checksums));
    LoadBatch batch = stored->batch();
    batch.checksums = checksums;
    const LoadOptions options{.shape = {8, 8}};
    Bytes out(std::size_t{3} * 8 * 8 * 3);
    LoadReport report;
    const auto loader = make_loader(2);
    expect_ok(loader->load(stored->base, batch, options, out, report));
    EXPECT_TRUE(report.failures.empty());
    const std::uint32_t found = checksums[1];
    checksums[1] = 0x0123ABCD;
    expect_ok(loader->load(stored->base, batch, options, out, report));
    ASSERT_EQ(report.failures.size(), 1U);
    EXPECT_EQ(report.failures[0].position, 1U);
    expect_code(report.failures[0].status, Code::wrong_checksum);
    const Detail expected = Detail("checksum 0x0123abcd expected, found ") << Hex32{found};
    EXPECT_EQ(report.failures[0].status.detail(), expected.view());
    batch.checksums = batch.checksums.first(2);
    expect_code(loader->load(stored->base, batch, options, out, report), Code::invalid_argument);
  }
}

// Packed tile indices, one after another.
struct StoredTileIndices {
  Bytes base;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;

  void add(const Bytes& packed) {
    offsets.push_back(base.size());
    sizes.push_back(packed.size());
    base.insert(base.end(), packed.begin(), packed.end());
  }

  [[nodiscard]] LoadBatch added_to(LoadBatch batch) const {
    batch.tile_indices = base;
    batch.tile_index_offsets = offsets;
    batch.tile_index_sizes = sizes;
    return batch;
  }
};

Bytes tile_index_of(const Bytes& file, unsigned tile) {
  TileIndex tile_index;
  expect_ok(make_tile_index(file, tile, tile_index));
  Bytes packed;
  expect_ok(pack_tile_index(tile_index, packed));
  return packed;
}

struct Loaded {
  Bytes out;
  LoadCounts counts;
};

Loaded load_indexed(const Stored& stored, const LoadBatch& batch, const LoadOptions& options,
                    std::size_t threads) {
  Loaded loaded;
  loaded.out.resize(stored.sizes.size() * options.shape.width * options.shape.height * 3);
  LoadReport report;
  expect_ok(make_loader(threads)->load(stored.base, batch, options, loaded.out, report));
  loaded.counts = report.counts;
  EXPECT_TRUE(report.failures.empty());
  return loaded;
}

TEST(Load, TileIndicesChangeNothing) {
  const auto [jpegs, raws] = twins(40);
  LoadOptions options{.shape = {32, 24}};
  options.jpeg = JpegDecoder::libjpeg;
  const Loaded expected = load_indexed(jpegs, jpegs.batch(), options, 1);
  EXPECT_EQ(expected.counts.libjpeg_by_options, 40U);
  options.jpeg = JpegDecoder::window;
  {
    const LevelGuard guard(SimdLevel::scalar);
    StoredTileIndices tile_index;
    for (int i = 0; i < 40; ++i)
      tile_index.add(i % 2 == 0 ? Bytes() : tile_index_of(test_jpeg(), 2));
    const Loaded found = load_indexed(jpegs, tile_index.added_to(jpegs.batch()), options, 1);
    EXPECT_EQ(found.out, expected.out);
    EXPECT_EQ(found.counts.window, 20U);
    EXPECT_EQ(found.counts.libjpeg_by_options, 20U);
  }
  if (hardware_simd_level() < SimdLevel::avx512) return;
  for (const std::size_t threads : {1U, 3U}) {
    for (const unsigned tile : {0U, 1U, 3U, 8U}) {
      StoredTileIndices tile_index;
      for (int i = 0; i < 40; ++i)
        tile_index.add(tile == 0 ? Bytes() : tile_index_of(test_jpeg(), tile));
      const Loaded found =
          load_indexed(jpegs, tile_index.added_to(jpegs.batch()), options, threads);
      EXPECT_EQ(found.out, expected.out);
      EXPECT_EQ(found.counts.window, tile == 0 ? 0U : 40U);
      EXPECT_EQ(found.counts.window_without_tile_index, tile == 0 ? 40U : 0U);
    }
  }
}

TEST(Load, CountsWhyLibjpegWasUsed) {
  if (hardware_simd_level() < SimdLevel::avx512) GTEST_SKIP();
  Stored stored;
  StoredTileIndices tile_index;
  const Bytes progressive = make_jpeg({.shape = kImage, .is_progressive = true});
  stored.add(progressive, StoredMode::jpeg, kImage, {0, 0, 61, 97});
  stored.add(test_jpeg(), StoredMode::jpeg, kImage, {5, 6, 30, 40});  // index of another JPEG
  stored.add(test_jpeg(), StoredMode::jpeg, kImage, {5, 6, 30, 40});  // cut index
  stored.add(decoded_jpeg(), StoredMode::raw, kImage, {5, 6, 30, 40});
  const Bytes other = tile_index_of(make_jpeg({.shape = kImage}), 8);
  tile_index.add({});
  tile_index.add(other);
  tile_index.add({other.begin(), other.begin() + 20});
  tile_index.add({});
  const Loaded found =
      load_indexed(stored, tile_index.added_to(stored.batch()), {.shape = {32, 24}}, 2);
  EXPECT_EQ(found.counts.libjpeg_by_kind, 1U);
  EXPECT_EQ(found.counts.rejected_tile_indices, 2U);
  EXPECT_EQ(found.counts.window_without_tile_index, 2U);
  EXPECT_EQ(found.counts.window, 0U);
  EXPECT_EQ(found.out, load(stored, {.shape = {32, 24}, .jpeg = JpegDecoder::libjpeg}));
  const Loaded fast =
      load_indexed(stored, stored.batch(), {.shape = {32, 24}, .fast_dct = true}, 1);
  EXPECT_EQ(fast.counts.libjpeg_by_options, 3U);
  const Loaded reduced =
      load_indexed(stored, stored.batch(), {.shape = {10, 10}, .is_reduced = true}, 1);
  EXPECT_EQ(reduced.counts.libjpeg_by_options, 3U);
}

TEST(Load, DamagedJpegsFailInEveryDecoder) {
  if (hardware_simd_level() < SimdLevel::avx512) GTEST_SKIP();
  Bytes cut = test_jpeg();
  cut.resize(cut.size() / 2);
  Stored stored;
  stored.add(cut, StoredMode::jpeg, kImage, {0, 0, 61, 97});
  StoredTileIndices tile_index;
  tile_index.add(tile_index_of(test_jpeg(), 8));
  Bytes out(16 * 16 * 3);
  LoadReport report;
  expect_ok(make_loader(1)->load(stored.base, tile_index.added_to(stored.batch()),
                                 {.shape = {16, 16}}, out, report));
  const LoadCounts& counts = report.counts;
  ASSERT_EQ(report.failures.size(), 1U);
  expect_code(report.failures[0].status, Code::truncated);
  EXPECT_EQ(counts.rejected_tile_indices, 1U);
  EXPECT_EQ(counts.libjpeg_by_damage, 1U);
}

TEST(Load, TileIndicesOutsideTheirRegionFail) {
  const auto [jpegs, raws] = twins(1);
  StoredTileIndices tile_index;
  tile_index.add(tile_index_of(test_jpeg(), 8));
  tile_index.sizes[0] += 1;
  Bytes out(16 * 16 * 3);
  LoadReport report;
  const auto loader = make_loader(1);
  LoadBatch batch = tile_index.added_to(jpegs.batch());
  expect_ok(loader->load(jpegs.base, batch, {.shape = {16, 16}}, out, report));
  ASSERT_EQ(report.failures.size(), 1U);
  expect_code(report.failures[0].status, Code::out_of_bounds);
  batch.tile_index_sizes = {};
  expect_code(loader->load(jpegs.base, batch, {.shape = {16, 16}}, out, report),
              Code::invalid_argument);
}

TEST(Load, TellsHowLongEachStageTook) {
  const auto [jpegs, raws] = twins(8);
  const auto loader = make_loader(2);
  Bytes out(8 * 16 * 16 * 3);
  LoadReport report;
  const std::vector<float> factors(8, 1.5F);
  const std::vector<PixelStep> steps{{StepKind::contrast, factors}};
  LoadBatch batch = jpegs.batch();
  const auto start = std::chrono::steady_clock::now();
  expect_ok(loader->load(jpegs.base, batch, {.shape = {16, 16}}, out, report));
  const auto elapsed = std::chrono::steady_clock::now() - start;
  const auto most = 2 * static_cast<std::uint64_t>(
                            std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
  EXPECT_GT(report.times.decode_ns, 0U);
  EXPECT_GT(report.times.resize_ns, 0U);
  EXPECT_EQ(report.times.ops_ns, 0U);
  EXPECT_LE(report.times.check_ns + report.times.decode_ns + report.times.resize_ns, most);
  batch = raws.batch();
  batch.steps = steps;
  expect_ok(loader->load(raws.base, batch, {.shape = {16, 16}}, out, report));
  EXPECT_GT(report.times.ops_ns, 0U);
  LoadTimes sum = report.times;
  sum += report.times;
  EXPECT_EQ(sum.ops_ns, 2 * report.times.ops_ns);
}

TEST(Load, WrongArgumentsAreErrors) {
  const auto [jpegs, raws] = twins(2);
  const auto loader = make_loader(1);
  LoadReport report;
  Bytes out(2 * 16 * 16 * 3 * 4 + 1);
  const auto load_with = [&](const LoadBatch& batch, const LoadOptions& options,
                             MutableByteSpan to) {
    return loader->load(raws.base, batch, options, to, report);
  };
  const LoadOptions options{.shape = {16, 16}};
  const auto bytes = std::span(out).first(2 * 16 * 16 * 3);
  expect_ok(load_with(raws.batch(), options, bytes));
  expect_code(load_with(raws.batch(), options, std::span(out).first(10)), Code::invalid_argument);
  expect_code(load_with(raws.batch(), {.shape = {0, 16}}, {}), Code::invalid_argument);
  expect_code(load_with(raws.batch(), {.shape = {1ULL << 62, 16}}, bytes), Code::too_large);
  LoadOptions floats = options;
  floats.type = OutputType::float32;
  expect_code(load_with(raws.batch(), floats, std::span(out).subspan(1)), Code::invalid_argument);
  const Bytes table(3 * 256 * 4 + 1);
  const MutableByteSpan all = std::span(out).first(2 * 16 * 16 * 3 * 4);
  floats.table = std::span(table).first(3 * 256 * 4);
  expect_ok(load_with(raws.batch(), floats, all));
  floats.table = std::span(table).subspan(1);
  expect_code(load_with(raws.batch(), floats, all), Code::invalid_argument);
  floats.table = std::span(table).first(3 * 256 * 2);
  expect_code(load_with(raws.batch(), floats, all), Code::invalid_argument);
  floats.table = std::span(out).first(3 * 256 * 4);
  expect_code(load_with(raws.batch(), floats, all), Code::invalid_argument);
  LoadOptions with_table = options;
  with_table.table = std::span(table).first(3 * 256);
  expect_code(load_with(raws.batch(), with_table, bytes), Code::invalid_argument);
  for (int i = 0; i < 6; ++i) {
    LoadBatch batch = raws.batch();
    if (i == 0) batch.sizes = batch.sizes.first(1);
    if (i == 1) batch.modes = batch.modes.first(1);
    if (i == 2) batch.widths = batch.widths.first(1);
    if (i == 3) batch.heights = batch.heights.first(1);
    if (i == 4) batch.crops = batch.crops.first(7);
    if (i == 5) batch.flips = batch.flips.first(1);
    expect_code(load_with(batch, options, bytes), Code::invalid_argument);
  }
  Stored own = raws;
  expect_code(loader->load(own.base, own.batch(), options,
                           std::span(own.base).first(2 * 16 * 16 * 3), report),
              Code::invalid_argument);
  expect_code(ImageLoader::create(0).status(), Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
