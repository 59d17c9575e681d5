// The kernels, run on the CPU (gpu/grid.hpp) and on a GPU, against the CPU's own loader.
#include <cstring>
#include <string>

#include "core/resample/filter_plan.hpp"
#include "gpu/batch.hpp"
#include "gpu/level_table.hpp"
#include "gpu/stages.hpp"
#include "headrace/checksum.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace::gpu {
namespace {

using headrace::testing::Bytes;
using headrace::testing::expect_ok;
using headrace::testing::JpegKind;
using headrace::testing::JpegSpec;
using testing::Machine;

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

// Pictures as the CPU prepares them; memory grows until they fit.
BatchSizes prepare(const Stored& stored, const LoadOptions& options, std::vector<Tile>& memory,
                   std::vector<Verdict>& verdicts) {
  const LoadBatch batch = stored.batch();
  const std::size_t count = batch.offsets.size();
  Batch prepared;
  BatchScratch scratch;
  memory.resize(1 << 12);
  for (;;) {
    prepared.start(std::as_writable_bytes(std::span(memory)), count, options);
    verdicts.clear();
    for (std::size_t i = 0; i < count; ++i) {
      Status failure;
      verdicts.push_back(prepared.add(stored.base, batch, i, i, scratch, failure));
      expect_ok(failure);
    }
    const BatchSizes& sizes = prepared.finish();
    if (sizes.missing_bytes == 0) return sizes;
    memory.resize(memory.size() + sizes.missing_bytes / sizeof(Tile) + 64);
  }
}

Outcome run_kernels(Machine& machine, const Stored& stored, const LoadOptions& options) {
  const std::size_t count = stored.offsets.size();
  Outcome outcome;
  std::vector<Tile> memory;
  const BatchSizes sizes = prepare(stored, options, memory, outcome.verdicts);
  const StageBytes bytes = bytes_of(sizes, count);
  const Bytes table = level_table(options);
  const std::size_t slot =
      options.shape.width * options.shape.height * 3 * size_bytes_of(options.type);
  outcome.values.assign(count * slot, std::byte{0xEE});
  outcome.status.resize(count);
  const StageMemory device{machine.put(std::as_bytes(std::span(memory)).first(sizes.blob_bytes)),
                           machine.make(bytes.codes),
                           machine.make(bytes.samples),
                           machine.make(bytes.status),
                           machine.make(bytes.spans),
                           machine.make(bytes.weights),
                           machine.put(std::as_bytes(std::span(lanczos_values(), kLanczosSize))),
                           table.empty() ? 0 : machine.put(table),
                           machine.put(outcome.values)};
  expect_ok(launch_stages(machine.launcher(), device, sizes, count, options));
  machine.get(device.status, std::as_writable_bytes(std::span(outcome.status)));
  machine.get(device.values, outcome.values);
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
  const Bytes file = headrace::testing::make_jpeg(spec);
  stored.add(file, headrace::testing::index_of(file, tile), false, spec.shape,
             headrace::testing::random_window(engine, spec.shape), engine() % 2 == 0);
}

std::string name_of(ResampleFilter filter) {
  return "filter " + std::to_string(static_cast<int>(filter));
}

constexpr ResampleFilter kFilters[] = {ResampleFilter::area, ResampleFilter::bilinear,
                                       ResampleFilter::bicubic, ResampleFilter::lanczos,
                                       ResampleFilter::nearest};

class GpuKernels : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    machine_ = std::string(GetParam()) == "cpu" ? testing::make_cpu() : testing::make_gpu();
    if (machine_ == nullptr) GTEST_SKIP() << "HEADRACE_GPU_KERNELS names no kernels for a GPU";
  }

  std::unique_ptr<Machine> machine_;
};

INSTANTIATE_TEST_SUITE_P(Machines, GpuKernels, ::testing::Values("cpu", "gpu"),
                         [](const auto& machine) { return std::string(machine.param); });

TEST_P(GpuKernels, PixelsAreThoseOfTheCpu) {
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
  stored.add(headrace::testing::random_bytes(raw.width * raw.height * 3, 5), {}, true, raw,
             {3, 2, 17, 13}, true);
  for (const ResampleFilter filter : kFilters) {
    SCOPED_TRACE(name_of(filter));
    for (const ImageShape shape : {ImageShape{20, 24}, ImageShape{64, 40}}) {
      const LoadOptions options{.shape = shape, .filter = filter};
      const Outcome outcome = run_kernels(*machine_, stored, options);
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
TEST_P(GpuKernels, DamageIsNoticed) {
  std::mt19937 engine(4);
  std::size_t fine = 0, noticed = 0;
  for (int round = 0; round < 12; ++round) {
    Stored stored;
    for (int i = 0; i < 12; ++i) {
      const ImageShape shape{64 + engine() % 40, 48 + engine() % 40};
      Bytes file = headrace::testing::make_jpeg({.shape = shape,
                                                 .restart_interval = i % 3 == 0 ? 3U : 0U,
                                                 .horizontal_sampling = 1 + i % 2,
                                                 .vertical_sampling = 1 + i / 2 % 2,
                                                 .is_noisy = i % 2 == 0});
      Bytes index = headrace::testing::index_of(file, 2);
      const std::size_t header = i % 4 == 1 ? 160 : file.size() / 3;  // tables, or codes alone
      for (int k = 0; k <= i % 5; ++k) {
        file[header + engine() % (file.size() - header)] = static_cast<std::byte>(engine() & 0xFF);
      }
      if (i % 6 == 5)
        index[30 + engine() % (index.size() - 34)] = static_cast<std::byte>(engine() & 0xFF);
      sign_index(file, index);
      stored.add(file, index, false, shape, headrace::testing::random_window(engine, shape), false);
    }
    const LoadOptions options{.shape = {16, 16}};
    const Outcome outcome = run_kernels(*machine_, stored, options);
    fine += expect_equal(stored, options, outcome);
    for (const std::uint32_t status : outcome.status) noticed += status == kFine ? 0 : 1;
  }
  EXPECT_GT(fine, 10U);
  EXPECT_GT(noticed, 10U);
}

TEST_P(GpuKernels, TypesAndLayouts) {
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
      EXPECT_EQ(expect_equal(stored, options, run_kernels(*machine_, stored, options)), 3U);
    }
  }
}

TEST_P(GpuKernels, EverySmallSize) {
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
  EXPECT_GE(expect_equal(stored, options, run_kernels(*machine_, stored, options)), 37U);
}

}  // namespace
}  // namespace headrace::gpu
