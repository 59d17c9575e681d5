// The kernels, run on the CPU (gpu/grid.hpp), against the CPU's own loader.
#include <cstring>
#include <string>

#include "core/resample/filter_plan.hpp"
#include "gpu/batch.hpp"
#include "gpu/destuff.hpp"
#include "gpu/level_table.hpp"
#include "gpu/resample.hpp"
#include "gpu/tiles.hpp"
#include "headrace/checksum.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace::gpu {
namespace {

using testing::Bytes;
using testing::expect_ok;
using testing::JpegKind;
using testing::JpegSpec;

// A batch of pictures in memory.
struct Stored {
  Bytes base, indices;
  std::vector<std::uint64_t> offsets, sizes, index_offsets, index_sizes;
  std::vector<std::uint8_t> modes, flips;
  std::vector<std::uint32_t> widths, heights;
  std::vector<std::int32_t> crops;

  void add(const Bytes& bytes, const Bytes& index, bool is_raw, ImageShape shape,
           const Window& crop, bool is_flipped) {
    offsets.push_back(base.size());
    sizes.push_back(bytes.size());
    base.insert(base.end(), bytes.begin(), bytes.end());
    index_offsets.push_back(indices.size());
    index_sizes.push_back(index.size());
    indices.insert(indices.end(), index.begin(), index.end());
    modes.push_back(is_raw ? 1 : 0);
    flips.push_back(is_flipped ? 1 : 0);
    widths.push_back(static_cast<std::uint32_t>(shape.width));
    heights.push_back(static_cast<std::uint32_t>(shape.height));
    for (const std::size_t value : {crop.top, crop.left, crop.height, crop.width}) {
      crops.push_back(static_cast<std::int32_t>(value));
    }
  }

  [[nodiscard]] LoadBatch batch() const {
    return {.offsets = offsets,
            .sizes = sizes,
            .modes = modes,
            .widths = widths,
            .heights = heights,
            .crops = crops,
            .flips = flips,
            .tile_indices = indices,
            .tile_index_offsets = index_offsets,
            .tile_index_sizes = index_sizes};
  }
};

struct Outcome {
  Bytes values;
  std::vector<std::uint32_t> status;
  std::vector<Verdict> verdicts;
};

// Memory as the GPU has it: aligned, and longer than what is used.
template <typename T>
std::vector<T> device_memory(std::size_t count) {
  return std::vector<T>(count + 64);
}

Outcome run_kernels(const Stored& stored, const LoadOptions& options) {
  const LoadBatch batch = stored.batch();
  const std::size_t count = batch.offsets.size();
  Outcome outcome;
  outcome.status.assign(count, kFine);
  Batch prepared;
  BatchScratch scratch;
  auto memory = device_memory<Tile>(1 << 12);
  BatchSizes sizes;
  for (;;) {
    const MutableByteSpan bytes = std::as_writable_bytes(std::span(memory));
    prepared.start(bytes, count, options);
    outcome.verdicts.clear();
    for (std::size_t i = 0; i < count; ++i) {
      Status failure;
      outcome.verdicts.push_back(prepared.add(stored.base, batch, i, i, scratch, failure));
      expect_ok(failure);
    }
    sizes = prepared.finish();
    if (sizes.missing_bytes == 0) break;
    memory.resize(memory.size() + sizes.missing_bytes / sizeof(Tile) + 64);
  }
  const auto* blob = reinterpret_cast<const std::uint8_t*>(memory.data());
  auto codes = device_memory<Tile>(sizes.blob_bytes / sizeof(Tile));
  auto samples = device_memory<std::uint64_t>(sizes.sample_blocks * 8);
  auto spans = device_memory<AxisSpan>(count * 2 * sizes.axis_size);
  auto weights = device_memory<std::int16_t>(count * 2 * sizes.axis_size * sizes.axis_taps);
  const Bytes table = level_table(options);
  const std::size_t slot =
      options.shape.width * options.shape.height * 3 * size_bytes_of(options.type);
  outcome.values.assign(count * slot, std::byte{0xEE});
  auto* code_bytes = reinterpret_cast<std::uint8_t*>(codes.data());
  auto* sample_bytes = reinterpret_cast<std::uint8_t*>(samples.data());
  const auto n = static_cast<std::uint32_t>(count);
  grid::run(n, 2, kDestuffThreads, 0,
            [&] { destuff_pictures(blob, code_bytes, outcome.status.data()); });
  const auto* units = reinterpret_cast<const Unit*>(blob + sizes.units_at);
  grid::run(static_cast<std::uint32_t>(sizes.units), 1, kUnitTiles, sizeof(TileMemory),
            [&] { decode_tiles(blob, units, code_bytes, sample_bytes, outcome.status.data()); });
  const AxisPlans plans{spans.data(), weights.data(), sizes.axis_size, sizes.axis_taps};
  const auto kind = options.filter == ResampleFilter::bilinear  ? AxisKind::triangle
                    : options.filter == ResampleFilter::bicubic ? AxisKind::cubic
                    : options.filter == ResampleFilter::lanczos ? AxisKind::lanczos
                    : options.filter == ResampleFilter::nearest ? AxisKind::nearest
                                                                : AxisKind::area;
  grid::run(n, 2, kAxisThreads, 0, [&] {
    gpu::plan_axes(blob, static_cast<std::uint32_t>(kind), lanczos_values(), plans);
  });
  const Colour fill = options.fill.value_or(Colour{});
  const Output output{reinterpret_cast<std::uint8_t*>(outcome.values.data()),
                      reinterpret_cast<const std::uint8_t*>(table.empty() ? nullptr : table.data()),
                      static_cast<std::uint32_t>(options.shape.width),
                      static_cast<std::uint32_t>(options.shape.height),
                      static_cast<std::uint32_t>(size_bytes_of(options.type)),
                      options.is_channels_first ? 1U : 0U,
                      pack_levels(fill[0], fill[1], fill[2], 0)};
  if (sizes.has_fill) grid::run(n, 1, kFillThreads, 0, [&] { fill_around(blob, output); });
  const ResampleCall call{blob,
                          sample_bytes,
                          reinterpret_cast<const Part*>(blob + sizes.parts_at),
                          plans,
                          static_cast<std::uint32_t>(support_of(options.filter)),
                          output};
  grid::run(static_cast<std::uint32_t>(sizes.parts), 1, kResampleThreads, sizes.shared_bytes, [&] {
    if (is_sharp(kind)) {
      resample_sharp(call);
    } else {
      resample_smooth(call);
    }
  });
  return outcome;
}

// Pictures that the GPU has found fine have the CPU's values, and are among those that the CPU can
// decode. Returns how many these were.
std::size_t expect_equal(const Stored& stored, const LoadOptions& options, const Outcome& outcome) {
  auto loader = ImageLoader::create(1);
  EXPECT_TRUE(loader.is_ok());
  Bytes expected(outcome.values.size());
  LoadReport report;
  expect_ok(loader.value()->load(stored.base, stored.batch(), options, expected, report));
  std::vector<bool> has_failed(outcome.status.size());
  for (const LoadFailure& failure : report.failures) has_failed[failure.position] = true;
  const std::size_t slot = expected.size() / outcome.status.size();
  std::size_t equal = 0;
  for (std::size_t i = 0; i < outcome.status.size(); ++i) {
    if (outcome.verdicts[i] != Verdict::on_gpu || outcome.status[i] != kFine) continue;
    EXPECT_FALSE(has_failed[i]) << "picture " << i;
    const bool is_equal =
        std::memcmp(expected.data() + i * slot, outcome.values.data() + i * slot, slot) == 0;
    EXPECT_TRUE(is_equal) << "picture " << i << " of " << stored.widths[i] << "x"
                          << stored.heights[i];
    equal += is_equal ? 1 : 0;
  }
  return equal;
}

void add_jpeg(Stored& stored, const JpegSpec& spec, std::mt19937& engine, unsigned tile = 8) {
  const Bytes file = testing::make_jpeg(spec);
  stored.add(file, testing::index_of(file, tile), false, spec.shape,
             testing::random_window(engine, spec.shape), engine() % 2 == 0);
}

std::string name_of(ResampleFilter filter) {
  return "filter " + std::to_string(static_cast<int>(filter));
}

constexpr ResampleFilter kFilters[] = {ResampleFilter::area, ResampleFilter::bilinear,
                                       ResampleFilter::bicubic, ResampleFilter::lanczos,
                                       ResampleFilter::nearest};

TEST(GpuKernels, PixelsAreThoseOfTheCpu) {
  std::mt19937 engine(1);
  Stored stored;
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    for (const unsigned restarts : {0U, 5U}) {
      for (const bool is_noisy : {false, true}) {
        add_jpeg(stored,
                 {.shape = {97, 75},
                  .restart_interval = restarts,
                  .horizontal_sampling = h,
                  .vertical_sampling = v,
                  .is_noisy = is_noisy,
                  .is_optimised = is_noisy},
                 engine);
      }
    }
  }
  add_jpeg(stored, {.shape = {61, 50}, .kind = JpegKind::grayscale}, engine);
  add_jpeg(
      stored,
      {.shape = {61, 50}, .kind = JpegKind::rgb, .horizontal_sampling = 1, .vertical_sampling = 1},
      engine);
  const ImageShape raw{33, 21};
  stored.add(testing::random_bytes(raw.width * raw.height * 3, 5), {}, true, raw, {3, 2, 17, 13},
             true);
  for (const ResampleFilter filter : kFilters) {
    SCOPED_TRACE(name_of(filter));
    for (const ImageShape shape : {ImageShape{20, 24}, ImageShape{64, 40}}) {
      const LoadOptions options{.shape = shape, .filter = filter};
      const Outcome outcome = run_kernels(stored, options);
      EXPECT_EQ(expect_equal(stored, options, outcome), stored.offsets.size());
    }
  }
}

void put_u32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// As if it had been made for this file.
void sign_index(const Bytes& file, Bytes& index) {
  put_u32(index, 8, crc32c(file));
  put_u32(index, index.size() - 4, crc32c(ByteSpan(index).first(index.size() - 4)));
}

// Whatever the codes, tables and entry points are: the GPU has the CPU's pixels, or says that it
// has not, and touches nothing that is not its own (which the sanitizers see).
TEST(GpuKernels, DamageIsNoticed) {
  std::mt19937 engine(4);
  std::size_t fine = 0, noticed = 0;
  for (int round = 0; round < 12; ++round) {
    Stored stored;
    for (int i = 0; i < 12; ++i) {
      const ImageShape shape{64 + engine() % 40, 48 + engine() % 40};
      Bytes file = testing::make_jpeg({.shape = shape,
                                       .restart_interval = i % 3 == 0 ? 3U : 0U,
                                       .horizontal_sampling = 1 + i % 2,
                                       .vertical_sampling = 1 + i / 2 % 2,
                                       .is_noisy = i % 2 == 0});
      Bytes index = testing::index_of(file, 2);
      const std::size_t header = i % 4 == 1 ? 160 : file.size() / 3;  // tables, or codes alone
      for (int k = 0; k <= i % 5; ++k) {
        file[header + engine() % (file.size() - header)] = static_cast<std::byte>(engine() & 0xFF);
      }
      if (i % 6 == 5)
        index[30 + engine() % (index.size() - 34)] = static_cast<std::byte>(engine() & 0xFF);
      sign_index(file, index);
      stored.add(file, index, false, shape, testing::random_window(engine, shape), false);
    }
    const LoadOptions options{.shape = {16, 16}};
    const Outcome outcome = run_kernels(stored, options);
    fine += expect_equal(stored, options, outcome);
    for (const std::uint32_t status : outcome.status) noticed += status == kFine ? 0 : 1;
  }
  EXPECT_GT(fine, 10U);
  EXPECT_GT(noticed, 10U);
}

TEST(GpuKernels, TypesAndLayouts) {
  std::mt19937 engine(2);
  Stored stored;
  for (int i = 0; i < 3; ++i) add_jpeg(stored, {.shape = {70, 60}, .is_noisy = true}, engine);
  for (const OutputType type : {OutputType::uint8, OutputType::float16, OutputType::float32}) {
    for (const bool is_channels_first : {false, true}) {
      LoadOptions options{.shape = {24, 16}, .type = type, .is_channels_first = is_channels_first};
      if (type != OutputType::uint8) {
        options.scale = {0.017F, 0.0175F, 0.0174F};
        options.bias = {-2.1F, -2.0F, -1.8F};
      }
      EXPECT_EQ(expect_equal(stored, options, run_kernels(stored, options)), 3U);
    }
  }
}

TEST(GpuKernels, EverySmallSize) {
  std::mt19937 engine(3);
  Stored stored;
  for (std::size_t side = 1; side <= 40; ++side) {
    const ImageShape shape{side, 41 - side};
    const int h = 1 + static_cast<int>(side % 2), v = 1 + static_cast<int>(side / 2 % 2);
    add_jpeg(stored,
             {.shape = shape, .horizontal_sampling = h, .vertical_sampling = v, .is_noisy = true},
             engine, 2);
  }
  const LoadOptions options{.shape = {8, 8}};
  // Halved chroma in pictures narrower than five pixels is left to the CPU.
  EXPECT_GE(expect_equal(stored, options, run_kernels(stored, options)), 37U);
}

}  // namespace
}  // namespace headrace::gpu
