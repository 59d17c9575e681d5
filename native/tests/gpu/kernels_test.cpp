// The kernels, run on the CPU (gpu/grid.hpp) and on a GPU, against the CPU's own loader.
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>

#include "core/jpeg/mcus.hpp"
#include "core/resample/filter_plan.hpp"
#include "gpu/batch.hpp"
#include "gpu/level_table.hpp"
#include "gpu/stages.hpp"
#include "headrace/checksum.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/gpu/stored_pictures.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace::gpu {
namespace {

using headrace::testing::Bytes;
using headrace::testing::expect_ok;
using headrace::testing::JpegKind;
using headrace::testing::JpegSpec;
using testing::Machine;

// Pictures, and steps that are done to them.
struct Stored : testing::StoredPictures {
  std::vector<std::pair<StepKind, std::vector<float>>> values;  // of each step

  // Only when all pictures are there.
  void add_step(StepKind kind, const std::function<std::vector<float>(std::size_t)>& values_of) {
    std::vector<float> all;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      std::vector<float> one = values_of(i);
      one.resize(values_per_picture(kind));
      all.insert(all.end(), one.begin(), one.end());
    }
    values.emplace_back(kind, std::move(all));
    steps.clear();
    for (const auto& [step, numbers] : values) steps.push_back({step, numbers});
  }

  void add(const Bytes& bytes, const Bytes& index, bool is_raw, ImageShape shape,
           const Window& crop, bool is_flipped) {
    add_picture(bytes, index, is_raw ? StoredMode::raw : StoredMode::jpeg, shape, crop, is_flipped);
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
                           machine.make(bytes.words),
                           machine.put(std::as_bytes(std::span(lanczos_values(), kLanczosSize))),
                           table.empty() ? 0 : machine.put(table),
                           machine.put(outcome.values),
                           machine.make(bytes.pictures),
                           machine.make(bytes.copies)};
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

constexpr ResampleFilter kFilters[] = {ResampleFilter::area,    ResampleFilter::bilinear,
                                       ResampleFilter::bicubic, ResampleFilter::lanczos,
                                       ResampleFilter::nearest, ResampleFilter::opencv_area};

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
    for (const ImageShape shape : {ImageShape{20, 24}, ImageShape{64, 40}, ImageShape{2, 3}}) {
      const LoadOptions options{.shape = shape, .filter = filter};
      const Outcome outcome = run_kernels(*machine_, stored, options);
      // The sharp filters would need more taps than the GPU takes for the smallest output.
      EXPECT_GE(expect_equal(stored, options, outcome),
                shape.width > 2 ? stored.offsets.size() : 5U);
    }
  }
}

// Whole factors, those that are none, both axes in different ways, and so many taps that the CPU
// calculates with floats.
TEST_P(GpuKernels, EveryFactor) {
  for (const ResampleFilter filter : kFilters) {
    SCOPED_TRACE(name_of(filter));
    Stored stored;
    const ImageShape shapes[] = {{18, 12}, {9, 6}, {36, 24}, {27, 36}, {19, 13},   {5, 40},
                                 {40, 5},  {9, 1}, {288, 6}, {9, 198}, {289, 201}, {126, 90}};
    unsigned number = 0;
    for (const ImageShape shape : shapes) {
      ++number;
      stored.add(headrace::testing::random_bytes(shape.width * shape.height * 3, number), {}, true,
                 shape, {0, 0, shape.width, shape.height}, number % 2 == 0);
    }
    const LoadOptions options{.shape = {9, 6}, .filter = filter};
    const Outcome outcome = run_kernels(*machine_, stored, options);
    // The sharp filters would need more taps than the GPU takes for three of them.
    const bool is_sharp = filter == ResampleFilter::bicubic || filter == ResampleFilter::lanczos;
    EXPECT_EQ(expect_equal(stored, options, outcome), std::size(shapes) - (is_sharp ? 3 : 0));
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

// Sizes of 1 to 64, mostly odd ones, with every sampling, with and without restart markers.
TEST_P(GpuKernels, EverySmallSize) {
  std::mt19937 engine(3);
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    Stored stored;
    std::size_t narrow = 0;
    for (std::size_t side = 1; side <= 64; side += side < 20 ? 1 : 4) {
      const ImageShape shape{side, 1 + (side * 27 + 6) % 64};
      add_jpeg(stored,
               {.shape = shape,
                .restart_interval = side % 3 == 0 ? 1 + static_cast<unsigned>(side % 4) : 0U,
                .horizontal_sampling = h,
                .vertical_sampling = v,
                .is_noisy = side % 2 == 0,
                .is_optimised = side % 5 == 0},
               engine, 1 + static_cast<unsigned>(side % 3));
      narrow += h == 2 && side < kLeastMixedWidth ? 1 : 0;  // left to the CPU
    }
    const LoadOptions options{.shape = {8, 8}, .filter = ResampleFilter::bilinear};
    EXPECT_EQ(expect_equal(stored, options, run_kernels(*machine_, stored, options)),
              stored.offsets.size() - narrow);
  }
}

TEST_P(GpuKernels, EveryQuality) {
  std::mt19937 engine(8);
  Stored stored;
  for (int quality = 1; quality <= 100; quality += quality < 90 ? 7 : 1) {
    const int h = 1 + quality % 2, v = 1 + quality / 2 % 2;
    add_jpeg(stored,
             {.shape = {40, 34},
              .horizontal_sampling = h,
              .vertical_sampling = v,
              .is_noisy = quality % 3 != 0,
              .quality = quality},
             engine, 4);
  }
  const LoadOptions options{.shape = {16, 16}, .filter = ResampleFilter::bicubic};
  EXPECT_EQ(expect_equal(stored, options, run_kernels(*machine_, stored, options)),
            stored.offsets.size());
}

constexpr float kNothing = std::numeric_limits<float>::quiet_NaN();

// Values of a step for picture i: all regimes that the kind has, and nothing.
std::vector<float> values_of(StepKind kind, std::size_t i) {
  const auto n = static_cast<float>(i);
  switch (kind) {
    case StepKind::brightness:
    case StepKind::contrast:
    case StepKind::saturation:
    case StepKind::sharpness:
      return {i % 5 == 4 ? kNothing : n * 0.45F - 0.3F};
    case StepKind::flip:
    case StepKind::vertical_flip:
    case StepKind::autocontrast:
    case StepKind::equalize:
      return {i % 4 == 3 ? 0.0F : 1.0F};
    case StepKind::turn:
      return {static_cast<float>(i % 4)};
    case StepKind::cutout:
      return {n - 3.5F, 2 * n - 4.2F, 3.7F + n, 5.2F, 255, n, 3};
    case StepKind::noise:
      return {n - 3.5F, 2 * n - 4.2F, 3.7F + n, 5.2F + n, 1234567 + n, 16777215 - n};
    case StepKind::translate:
      return {n - 4, 1.5F * n - 3, 1, 2, n};
    case StepKind::affine:
      if (i % 5 == 4) return {kNothing};
      return {std::cos(n), -std::sin(n), 3 * n, std::sin(n) * 1.1F, std::cos(n), 5 - n, 9, 8, 7};
    case StepKind::hue:
      return {i % 5 == 4 ? kNothing : n * 0.37F - 1.2F};
    case StepKind::posterize:
      return {i == 9 ? kNothing : static_cast<float>(i % 9)};
    case StepKind::solarize:
      return {i % 5 == 4 ? kNothing : n * 40 - 20};
    case StepKind::blur:
      return {i % 5 == 4 ? kNothing : 0.1F + 0.6F * n,
              i == 7 ? 255 : static_cast<float>(2 * i + 1)};
    case StepKind::choice: {
      if (i % 6 == 5) return {kNothing};
      const auto chosen = static_cast<StepKind>((i * 7 + 3) % 17);
      std::vector<float> values{static_cast<float>(chosen)};
      const std::vector<float> its = values_of(chosen, i / 2);
      values.insert(values.end(), its.begin(), its.end());
      return values;
    }
  }
  return {};
}

// Raw pictures of a few kinds: noise, smooth, one colour, two levels.
void add_raws(Stored& stored, ImageShape shape, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Bytes pixels = headrace::testing::random_bytes(shape.width * shape.height * 3,
                                                   static_cast<unsigned>(i + 1));
    for (std::size_t k = 0; k < pixels.size(); ++k) {
      if (i % 4 == 1) pixels[k] = static_cast<std::byte>(40 + k / 5 % 90);
      if (i % 4 == 2) pixels[k] = static_cast<std::byte>(17 * i);
      if (i % 4 == 3) pixels[k] &= std::byte{0x80};
    }
    stored.add(pixels, {}, true, shape, {0, 0, shape.width, shape.height}, false);
  }
}

TEST_P(GpuKernels, EveryStep) {
  for (const ImageShape shape : {ImageShape{1, 1}, ImageShape{2, 2}, ImageShape{21, 21},
                                 ImageShape{64, 7}, ImageShape{3, 37}, ImageShape{1, 9}}) {
    for (std::size_t kind = 0; kind <= static_cast<std::size_t>(StepKind::choice); ++kind) {
      const auto step = static_cast<StepKind>(kind);
      const bool may_turn = step == StepKind::turn || step == StepKind::choice;
      if (may_turn && shape.width != shape.height) continue;
      SCOPED_TRACE(std::string(step_kind_name(step)) + " at " + std::to_string(shape.width));
      Stored stored;
      add_raws(stored, shape, shape.height > 2 ? 12 : 5);
      stored.add_step(step, [step](std::size_t i) { return values_of(step, i); });
      const LoadOptions options{.shape = shape};
      EXPECT_EQ(expect_equal(stored, options, run_kernels(*machine_, stored, options)),
                stored.offsets.size());
    }
  }
}

TEST_P(GpuKernels, ChainsOfSteps) {
  std::mt19937 engine(6);
  const StepKind chains[][5] = {
      {StepKind::flip, StepKind::brightness, StepKind::contrast, StepKind::saturation,
       StepKind::hue},
      {StepKind::translate, StepKind::cutout, StepKind::blur, StepKind::solarize, StepKind::noise},
      {StepKind::choice, StepKind::choice, StepKind::affine, StepKind::equalize,
       StepKind::sharpness},
      {StepKind::autocontrast, StepKind::posterize, StepKind::vertical_flip, StepKind::turn,
       StepKind::choice}};
  for (const auto& chain : chains) {
    for (const OutputType type : {OutputType::uint8, OutputType::float16, OutputType::float32}) {
      Stored stored;
      for (int i = 0; i < 4; ++i) {
        add_jpeg(stored, {.shape = {50 + engine() % 20, 60}, .is_noisy = i % 2 == 0}, engine);
      }
      add_raws(stored, {30, 20}, 3);
      for (const StepKind kind : chain) {
        stored.add_step(kind, [kind](std::size_t i) { return values_of(kind, i + 1); });
      }
      // Some choices are turns, which take a square.
      const bool is_wide = type == OutputType::float16 && chain[4] != StepKind::sharpness &&
                           chain[4] != StepKind::choice;
      LoadOptions options{.shape = {is_wide ? 31U : 17U, 17}, .type = type};
      options.is_channels_first = type != OutputType::float32;
      if (type != OutputType::uint8) options.scale = {0.017F, 0.0175F, 0.0174F};
      EXPECT_EQ(expect_equal(stored, options, run_kernels(*machine_, stored, options)),
                stored.offsets.size());
    }
  }
}

// Longer than what is blurred at a time.
TEST_P(GpuKernels, LongRowsAreBlurred) {
  Stored stored;
  const ImageShape shape{1300, 3};
  add_raws(stored, shape, 2);
  stored.add_step(StepKind::blur,
                  [](std::size_t i) { return std::vector<float>{3, i == 0 ? 9.0F : 255.0F}; });
  const LoadOptions options{.shape = shape};
  EXPECT_EQ(expect_equal(stored, options, run_kernels(*machine_, stored, options)), 2U);
}

// What sticks out of the picture is filled before the steps.
TEST_P(GpuKernels, StepsOnFilledPictures) {
  Stored stored;
  const ImageShape shape{12, 12};
  add_raws(stored, shape, 3);
  stored.crops = {-3, -4, 12, 12, 5, 6, 12, 12, 40, 40, 12, 12};
  stored.add_step(StepKind::contrast, [](std::size_t) { return std::vector<float>{0.6F}; });
  stored.add_step(StepKind::flip, [](std::size_t) { return std::vector<float>{1}; });
  const LoadOptions options{.shape = shape, .fill = Colour{9, 200, 77}};
  EXPECT_EQ(expect_equal(stored, options, run_kernels(*machine_, stored, options)), 3U);
}

}  // namespace
}  // namespace headrace::gpu
