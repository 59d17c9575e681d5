// Batches of GpuLoader, on a device that is the CPU and on a GPU, against those of ImageLoader.
#include "gpu/loader.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "gpu/slots.hpp"
#include "headrace/checksum.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/gpu/stored_pictures.hpp"
#include "tests/images/corpus.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace::gpu {
namespace {

using headrace::testing::Bytes;
using headrace::testing::expect_code;
using headrace::testing::expect_ok;
using headrace::testing::JpegKind;
using headrace::testing::JpegSpec;
using testing::CpuDevice;
using testing::DeviceCall;

constexpr ImageShape kShape{34, 27};

// Pictures of every kind, with checksums.
struct Stored : testing::StoredPictures {
  std::vector<float> brightness, cutout;

  void add(const Bytes& bytes, const Bytes& index, StoredMode mode = StoredMode::jpeg,
           ImageShape shape = kShape) {
    const Window crop{.left = 2, .top = 3, .width = 23, .height = 19};
    add_picture(bytes, index, mode, shape, crop, flips.size() % 2 != 0);
    checksums.push_back(crc32c(bytes));
  }

  void add_jpeg(const JpegSpec& spec) {
    const Bytes file = headrace::testing::make_jpeg(spec);
    add(file, headrace::testing::index_of(file, 2));
  }

  void crop_last(std::int32_t top, std::int32_t left, std::int32_t height, std::int32_t width) {
    crops.resize(crops.size() - 4);
    crops.insert(crops.end(), {top, left, height, width});
  }
};

void put_u32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// As if it had been made for this file.
void sign_index(const Bytes& file, Bytes& index) {
  put_u32(index, 8, crc32c(file));
  put_u32(index, index.size() - 4, crc32c(ByteSpan(index).first(index.size() - 4)));
}

// With damage that its tile index does not know of.
void add_damaged(Stored& stored, std::uint64_t seed) {
  Bytes file = headrace::testing::make_jpeg({.shape = kShape, .is_noisy = true});
  Bytes index = headrace::testing::index_of(file, 2);
  const Bytes noise = headrace::testing::random_bytes(40, seed);
  std::copy(noise.begin(), noise.end(), file.end() - 200);
  sign_index(file, index);
  stored.add(file, index);
}

void add_raw(Stored& stored) {
  stored.add(headrace::testing::random_bytes(kShape.width * kShape.height * 3, 5), {},
             StoredMode::raw);
}

// What the GPU decodes, what it leaves to the CPU, and what nobody can decode.
Stored mixture() {
  Stored stored;
  stored.add_jpeg({.shape = kShape, .is_noisy = true});
  const Bytes plain = headrace::testing::make_jpeg({.shape = kShape});
  stored.add(plain, {});
  add_raw(stored);
  const Bytes progressive = headrace::testing::make_jpeg({.shape = kShape, .is_progressive = true});
  stored.add(progressive, headrace::testing::index_of(plain, 2));
  add_damaged(stored, 1);
  stored.add_jpeg({.shape = kShape, .horizontal_sampling = 1, .vertical_sampling = 1});
  stored.checksums.back() ^= 1;  // of other bytes
  stored.add_jpeg({.shape = kShape, .restart_interval = 3, .horizontal_sampling = 1});
  stored.add_jpeg({.shape = kShape});
  stored.crop_last(20, 2, 19, 23);  // not inside
  stored.add(headrace::testing::random_bytes(300, 7), {});
  stored.add(headrace::testing::make_jpeg({.shape = kShape, .kind = JpegKind::cmyk}), {});
  stored.add_jpeg({.shape = kShape, .kind = JpegKind::grayscale});
  stored.add(plain, headrace::testing::random_bytes(90, 9));  // no tile index
  stored.add_jpeg({.shape = {18, 20}});                       // not of the size that is said
  stored.add(headrace::testing::random_bytes(30, 7), {}, StoredMode::raw);
  add_damaged(stored, 2);
  stored.add_jpeg({.shape = kShape, .vertical_sampling = 1, .is_optimised = true});
  stored.add(headrace::testing::corpus_file("webp/lossy"), {}, StoredMode::webp, {33, 24});
  stored.add(plain, {}, StoredMode::png);  // it is none
  return stored;
}

Stored plain_pictures(std::size_t count) {
  Stored stored;
  for (std::size_t i = 0; i < count; ++i) {
    stored.add_jpeg({.shape = kShape, .is_noisy = i % 2 == 0, .quality = 80});
  }
  return stored;
}

struct Loaded {
  Bytes values;
  LoadReport report;
};

std::size_t batch_bytes(const Stored& stored, const LoadOptions& options) {
  return stored.offsets.size() * options.shape.width * options.shape.height * 3 *
         size_bytes_of(options.type);
}

Loaded load_on_cpu(ImageLoader& loader, const Stored& stored, const LoadOptions& options) {
  Loaded loaded;
  loaded.values.resize(batch_bytes(stored, options));
  expect_ok(loader.load(stored.base, stored.batch(), options, loaded.values, loaded.report));
  return loaded;
}

template <typename Entry>
void expect_same_list(const std::vector<Entry>& found, const std::vector<Entry>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].position, expected[i].position);
    EXPECT_EQ(found[i].status.code(), expected[i].status.code());
    EXPECT_EQ(found[i].status.detail(), expected[i].status.detail());
  }
}

std::uint64_t sum_of(const LoadCounts& counts) {
  return counts.window + counts.window_without_tile_index + counts.libjpeg_by_options +
         counts.libjpeg_by_kind + counts.libjpeg_by_damage + counts.gpu;
}

// Positions of pictures whose values differ.
std::string differing(const Loaded& found, const Loaded& expected, std::size_t pictures) {
  std::string positions;
  const std::size_t size = expected.values.size() / pictures;
  for (std::size_t i = 0; i < pictures; ++i) {
    const bool is_equal =
        std::memcmp(found.values.data() + i * size, expected.values.data() + i * size, size) == 0;
    if (!is_equal) positions += std::to_string(i) + " ";
  }
  return positions;
}

// What `loader` says and writes is what the CPU says and writes.
void expect_same(const Loaded& found, const Loaded& expected, std::size_t pictures) {
  EXPECT_EQ(differing(found, expected, pictures), "");
  expect_same_list(found.report.failures, expected.report.failures);
  expect_same_list(found.report.notes, expected.report.notes);
  EXPECT_EQ(sum_of(found.report.counts), sum_of(expected.report.counts));
  EXPECT_EQ(found.report.counts.rejected_tile_indices,
            expected.report.counts.rejected_tile_indices);
  EXPECT_EQ(expected.report.counts.gpu, 0U);
}

class GpuLoaders : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    cpu_ = std::move(ImageLoader::create(2).value());
    std::unique_ptr<Device> device;
    if (std::string(GetParam()).starts_with("cpu")) {
      auto made = std::make_unique<CpuDevice>();
      fake_ = made.get();
      device = std::move(made);
    } else {
      device = testing::open_gpu();
      viewer_ = testing::open_gpu();
    }
    if (device == nullptr) GTEST_SKIP() << "HEADRACE_GPU_KERNELS names no kernels for a GPU";
    make_loader(std::move(device), GpuLoader::kMaxCopyBytes);
  }

  void make_loader(std::unique_ptr<Device> device, std::size_t max_copy_bytes) {
    auto made = GpuLoader::create(std::move(device), *cpu_, max_copy_bytes);
    expect_ok(made.status());
    loader_ = std::move(made.value());
  }

  // On a device that nobody has used yet.
  void renew(std::size_t max_copy_bytes) {
    auto device = std::make_unique<CpuDevice>();
    fake_ = device.get();
    make_loader(std::move(device), max_copy_bytes);
  }

  // In device memory of the loader's own, with what nobody expects in it.
  Status load(const Stored& stored, const LoadOptions& options, Loaded& loaded) {
    loaded.values.assign(batch_bytes(stored, options), std::byte{0xEE});
    auto out = loader_->allocate(loaded.values.size());
    if (!out.is_ok()) return out.status();
    const Status status = loader_->load(base_of(stored), stored.batch(), options, out.value(),
                                        loaded.values.size(), loaded.report);
    fetch(out.value(), loaded.values);
    loader_->release(out.value(), loaded.values.size());
    return status;
  }

  // Where pictures lie: in memory that the device fetches them from, if that is tested.
  ByteSpan base_of(const Stored& stored) {
    if (!std::string(GetParam()).ends_with("fetching")) return stored.base;
    constexpr std::size_t kPage = 4096;
    const std::size_t size = round_up(stored.base.size(), kPage);
    auto memory = std::make_unique<std::byte[]>(size + kPage);
    const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
    std::byte* const first = memory.get() + (round_up(address, kPage) - address);
    std::copy(stored.base.begin(), stored.base.end(), first);
    const std::lock_guard lock(mutex_);
    pinned_.push_back(std::move(memory));
    static_cast<void>(loader_->pin({first, size}));  // without it, all are copied
    return {first, stored.base.size()};
  }

  void fetch(DevicePointer from, Bytes& bytes) {
    if (viewer_ == nullptr) {
      std::memcpy(bytes.data(), reinterpret_cast<const void*>(from), bytes.size());
      return;
    }
    const DeviceScope scope(*viewer_);
    auto stream = viewer_->make_stream();
    ASSERT_TRUE(stream.is_ok());
    expect_ok(viewer_->copy_to_host(bytes, from, stream.value()));
    expect_ok(viewer_->wait(stream.value()));
    viewer_->destroy(stream.value());
  }

  Loaded compare(const Stored& stored, const LoadOptions& options) {
    Loaded found;
    expect_ok(load(stored, options, found));
    expect_same(found, load_on_cpu(*cpu_, stored, options), stored.offsets.size());
    return found;
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<std::byte[]>> pinned_;
  std::unique_ptr<ImageLoader> cpu_;
  CpuDevice* fake_ = nullptr;  // of the loader
  std::unique_ptr<Device> viewer_;
  std::unique_ptr<GpuLoader> loader_;
};

INSTANTIATE_TEST_SUITE_P(Machines, GpuLoaders,
                         ::testing::Values("cpu", "gpu", "cpu_fetching", "gpu_fetching"),
                         [](const auto& machine) { return std::string(machine.param); });

TEST_P(GpuLoaders, MixturesAreThoseOfTheCpu) {
  const Stored stored = mixture();
  const Loaded found = compare(stored, {.shape = {9, 8}});
  EXPECT_GE(found.report.counts.gpu, 4U);
  EXPECT_GE(found.report.failures.size(), 4U);
  EXPECT_GE(found.report.notes.size(), 1U);
  // Nothing of one batch is left in the next one.
  const Stored few = plain_pictures(2);
  EXPECT_EQ(compare(few, {.shape = {9, 8}}).report.counts.gpu, 2U);
  EXPECT_GT(loader_->device_bytes(), 0U);
}

TEST_P(GpuLoaders, WhatIsPinnedIsFetched) {
  const Stored stored = plain_pictures(3);
  const LoadOptions options{.shape = {9, 8}};
  compare(stored, options);
  const bool is_fetching = std::string(GetParam()).ends_with("fetching");
  EXPECT_EQ(loader_->pinned_bytes() > 0, is_fetching);
  if (fake_ == nullptr) return;
  // The codes: the CPU may not look at them where the device fetches them.
  const ByteSpan base = base_of(stored);
  if (is_fetching) {
    const auto out = loader_->allocate(batch_bytes(stored, options));
    ASSERT_TRUE(out.is_ok());
    auto* const codes = const_cast<std::byte*>(base.data()) + stored.offsets[1] + stored.sizes[1];
    codes[-30] ^= std::byte{4};  // found by its checksum alone, if at all
    LoadReport report;
    expect_ok(loader_->load(base, stored.batch(), options, out.value(),
                            batch_bytes(stored, options), report));
    ASSERT_EQ(report.failures.size(), 1U);
    EXPECT_EQ(report.failures[0].position, 1U);
    EXPECT_EQ(report.failures[0].status.code(), Code::wrong_checksum);
    loader_->release(out.value(), batch_bytes(stored, options));
  }
  EXPECT_EQ(fake_->has_failed(), false);
  // A device that does not pin is no failure: all is copied.
  renew(GpuLoader::kMaxCopyBytes);
  fake_->fail(DeviceCall::pin, 0, Code::unsupported);
  expect_same(compare(stored, options), load_on_cpu(*cpu_, stored, options), 3);
  EXPECT_EQ(loader_->pinned_bytes(), 0U);
}

TEST_P(GpuLoaders, PinnedInPieces) {
  if (fake_ == nullptr) GTEST_SKIP() << "the same for every device";
  const Stored stored = plain_pictures(6);
  const std::size_t middle = stored.offsets[3] + 10;
  Loaded found;
  found.values.resize(batch_bytes(stored, {.shape = {9, 8}}));
  const Loaded expected = load_on_cpu(*cpu_, stored, {.shape = {9, 8}});
  const ByteSpan base = stored.base;
  for (const ByteSpan piece : {base.first(middle), base.subspan(middle)}) {
    expect_ok(loader_->pin(piece));
    expect_ok(loader_->load(base, stored.batch(), {.shape = {9, 8}},
                            reinterpret_cast<DevicePointer>(found.values.data()),
                            found.values.size(), found.report));
    expect_same(found, expected, 6);
  }
  EXPECT_EQ(loader_->pinned_bytes(), base.size());
  loader_.reset();  // before what it has pinned
}

// Of all lengths around those that a lane, a warp and a thread block take at a time.
TEST_P(GpuLoaders, ChecksumsOfEveryLength) {
  const Bytes file = headrace::testing::make_jpeg({.shape = kShape});
  const Bytes index = headrace::testing::index_of(file, 2);
  Stored stored;
  for (const std::size_t more : {0U, 1U, 7U, 15U, 16U, 31U, 511U, 513U, 16383U, 40000U, 140001U}) {
    Bytes longer = file;  // what follows the end of a JPEG is not looked at
    const Bytes noise = headrace::testing::random_bytes(more, more);
    longer.insert(longer.end(), noise.begin(), noise.end());
    Bytes signed_index = index;
    put_u32(signed_index, 4, static_cast<std::uint32_t>(longer.size()));
    sign_index(longer, signed_index);
    for (const std::uint32_t wrong : {0U, 1U}) {
      stored.add(longer, signed_index);
      stored.checksums.back() ^= wrong << more % 32;
    }
  }
  const Loaded found = compare(stored, {.shape = {9, 8}});
  EXPECT_EQ(found.report.failures.size(), stored.offsets.size() / 2);
  EXPECT_EQ(found.report.counts.gpu, stored.offsets.size() / 2);
}

TEST_P(GpuLoaders, TypesLayoutsAndFilters) {
  const Stored stored = mixture();
  const Bytes table = headrace::testing::random_bytes(3 * 256 * 2, 3);
  compare(stored, {.shape = {8, 10},
                   .type = OutputType::float16,
                   .is_channels_first = true,
                   .filter = ResampleFilter::bilinear,
                   .table = table});
  compare(stored, {.shape = {8, 10},
                   .type = OutputType::float32,
                   .filter = ResampleFilter::lanczos,
                   .scale = {0.017F, 0.0175F, 0.0174F},
                   .bias = {-2.1F, -2.0F, -1.8F}});
  compare(stored,
          {.shape = {30, 33}, .is_channels_first = true, .filter = ResampleFilter::bicubic});
}

TEST_P(GpuLoaders, Undamaged) {
  Stored stored;
  for (const auto& [h, v] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}}) {
    stored.add_jpeg({.shape = kShape,
                     .restart_interval = static_cast<unsigned>(h + v) % 3 * 2,
                     .horizontal_sampling = h,
                     .vertical_sampling = v,
                     .is_noisy = h == 1,
                     .is_optimised = v == 1});
  }
  stored.add_jpeg({.shape = kShape, .kind = JpegKind::grayscale});
  add_raw(stored);
  for (int filter = 0; filter <= static_cast<int>(ResampleFilter::opencv_area); ++filter) {
    for (const ImageShape shape : {ImageShape{9, 8}, ImageShape{40, 31}, ImageShape{23, 19}}) {
      LoadOptions options{.shape = shape, .filter = static_cast<ResampleFilter>(filter)};
      const std::uint64_t expected = GpuLoader::is_possible(options, {}) ? 5 : 0;
      EXPECT_EQ(compare(stored, options).report.counts.gpu, expected);
    }
  }
}

// Codes, tables, entry points and predictors, all of which say that they are right.
TEST_P(GpuLoaders, DamagedInEveryWay) {
  const char* const wanted = std::getenv("HEADRACE_GPU_ROUNDS");
  const int rounds = wanted == nullptr ? 30 : std::atoi(wanted);
  std::mt19937 engine(7);
  std::uint64_t by_gpu = 0, by_cpu = 0;
  for (int round = 0; round < rounds; ++round) {
    Stored stored;
    for (int i = 0; i < 16; ++i) {
      Bytes file = headrace::testing::make_jpeg({.shape = kShape,
                                                 .restart_interval = i % 5 == 0 ? 2U : 0U,
                                                 .horizontal_sampling = 1 + i % 2,
                                                 .vertical_sampling = 1 + i / 2 % 2,
                                                 .is_noisy = i % 3 == 0,
                                                 .is_optimised = i % 3 == 1});
      Bytes index = headrace::testing::index_of(file, 1 + i % 3);
      const auto damage = [&engine](Bytes& bytes, std::size_t from, std::size_t end) {
        bytes[from + engine() % (end - from)] = static_cast<std::byte>(engine() & 0xFF);
      };
      for (int k = 0; k <= i % 3; ++k) {
        if (i % 4 == 0) damage(file, 160, file.size());              // tables or codes
        if (i % 4 == 1) damage(file, file.size() / 2, file.size());  // codes
        if (i % 4 == 2) damage(index, 24, index.size() - 4);         // parameters and all else
        if (i % 4 == 3) damage(index, index.size() / 2, index.size() - 4);
      }
      sign_index(file, index);
      stored.add(file, index);
    }
    const LoadCounts counts = compare(stored, {.shape = {9, 8}}).report.counts;
    by_gpu += counts.gpu;
    by_cpu += sum_of(counts) - counts.gpu;
  }
  EXPECT_GT(by_gpu, 0U);
  EXPECT_GT(by_cpu, by_gpu / 8);
}

TEST_P(GpuLoaders, CropsThatStickOut) {
  Stored stored = plain_pictures(4);
  add_raw(stored);
  const std::int32_t crops[][2] = {{-3, -4}, {20, 30}, {3, 2}, {100, 100}, {-2, 25}};
  stored.crops.clear();
  for (const auto& [top, left] : crops)
    stored.crops.insert(stored.crops.end(), {top, left, 10, 12});
  const LoadOptions options{.shape = {12, 10}, .fill = Colour{200, 100, 50}};
  EXPECT_EQ(compare(stored, options).report.counts.gpu, 3U);
}

TEST_P(GpuLoaders, StepsAreDoneToThePicturesOfBoth) {
  Stored stored = mixture();
  for (std::size_t i = 0; i < stored.offsets.size(); ++i) {
    stored.brightness.push_back(0.5F + 0.1F * static_cast<float>(i));
    const auto place = static_cast<float>(i % 5);
    stored.cutout.insert(stored.cutout.end(), {place, 1, 3, place, 10 * place, 20, 30});
  }
  stored.steps = {{StepKind::brightness, stored.brightness}, {StepKind::cutout, stored.cutout}};
  compare(stored, {.shape = {9, 8}});
}

TEST_P(GpuLoaders, WhatTheGpuCannotDoTheCpuDoes) {
  const Stored stored = mixture();
  const LoadOptions options{.shape = {9, 8}, .jpeg = JpegDecoder::libjpeg};
  EXPECT_FALSE(GpuLoader::is_possible(options, {}));
  EXPECT_TRUE(GpuLoader::is_possible({.shape = {9, 8}}, {}));
  EXPECT_EQ(compare(stored, options).report.counts.gpu, 0U);
}

TEST_P(GpuLoaders, WrongArguments) {
  const Stored stored = plain_pictures(1);
  LoadReport report;
  const LoadOptions options{.shape = {8, 8}};
  const auto out = loader_->allocate(192);
  ASSERT_TRUE(out.is_ok());
  expect_code(loader_->load(stored.base, stored.batch(), options, out.value(), 191, report),
              Code::invalid_argument);
  LoadBatch batch = stored.batch();
  batch.flips = {};
  batch.widths = {};
  expect_code(loader_->load(stored.base, batch, options, out.value(), 192, report),
              Code::invalid_argument);
  expect_ok(loader_->load({}, {}, options, out.value(), 0, report));
  loader_->release(out.value(), 192);
}

TEST_P(GpuLoaders, ManyCallersAtOnce) {
  const Stored large = mixture(), small = plain_pictures(3);
  const LoadOptions options{.shape = {9, 8}}, other{.shape = {12, 9}, .type = OutputType::float32};
  const Loaded expected[] = {load_on_cpu(*cpu_, large, options), load_on_cpu(*cpu_, small, other)};
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < 6; ++i) {
    callers.emplace_back([&, i] {
      for (std::size_t round = i; round < i + 2; ++round) {
        Loaded found;
        expect_ok(round % 2 == 0 ? load(large, options, found) : load(small, other, found));
        expect_same(found, expected[round % 2],
                    round % 2 == 0 ? large.offsets.size() : small.offsets.size());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  if (fake_ == nullptr) return;
  EXPECT_LE(fake_->most_streams(), Slots::kMost);
}

// A batch by copies; when slots are in use most of the time, by a kernel.
TEST_P(GpuLoaders, TwoWaysToFetch) {
  if (fake_ == nullptr) GTEST_SKIP() << "the same for every device";
  const Stored stored = mixture();
  const LoadOptions options{.shape = {9, 8}};
  compare(stored, options);
  EXPECT_FALSE(fake_->has_launched("fetch_pictures"));
  if (!std::string(GetParam()).ends_with("fetching")) return;
  const Loaded expected = load_on_cpu(*cpu_, stored, options);
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int round = 0; round < 1000 && !fake_->has_launched("fetch_pictures"); ++round) {
        Loaded found;
        expect_ok(load(stored, options, found));
        expect_same(found, expected, stored.offsets.size());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(fake_->has_launched("fetch_pictures"));
}

TEST_P(GpuLoaders, LargeBatchesAreCopiedInParts) {
  if (fake_ == nullptr) GTEST_SKIP() << "the same for every device";
  const Stored stored = mixture();
  const LoadOptions options{.shape = {9, 8}};
  for (const std::size_t bytes : {6000U, 100U}) {
    renew(bytes);
    const Loaded found = compare(stored, options);
    EXPECT_EQ(found.report.counts.gpu == 0, bytes == 100);
  }
}

TEST_P(GpuLoaders, OutputsAreUsedAgain) {
  const auto first = loader_->allocate(5000), second = loader_->allocate(5000);
  ASSERT_TRUE(first.is_ok() && second.is_ok());
  EXPECT_EQ(first.value() % 256, 0U);
  loader_->release(first.value(), 5000);
  const auto other = loader_->allocate(6000), third = loader_->allocate(5000);
  ASSERT_TRUE(other.is_ok() && third.is_ok());
  EXPECT_EQ(third.value(), first.value());
  EXPECT_NE(other.value(), first.value());
  loader_->release(second.value(), 5000);
  loader_->release(third.value(), 5000);
  loader_->release(other.value(), 6000);
  if (fake_ == nullptr) return;
  const std::size_t used = fake_->used();
  std::vector<DevicePointer> many;
  for (int i = 0; i < 40; ++i) many.push_back(loader_->allocate(1000).value());
  for (const DevicePointer memory : many) loader_->release(memory, 1000);
  EXPECT_LE(fake_->used(), used + 16 * 1000U);  // the rest went back
}

TEST_P(GpuLoaders, TooLittleMemoryIsSaid) {
  if (fake_ == nullptr) GTEST_SKIP() << "the same for every device";
  const Stored stored = plain_pictures(8);
  const LoadOptions options{.shape = {9, 8}};
  const Loaded expected = load_on_cpu(*cpu_, stored, options);
  Loaded found;
  expect_ok(load(stored, options, found));
  const std::size_t needed = loader_->device_bytes();
  renew(GpuLoader::kMaxCopyBytes);
  fake_->set_total(fake_->used() + batch_bytes(stored, options) + needed / 2);
  const Status status = load(stored, options, found);
  expect_code(status, Code::out_of_memory);
  const std::string detail(status.detail());
  EXPECT_NE(detail.find("a batch of 8 pictures: decoding it takes "), std::string::npos) << detail;
  EXPECT_NE(detail.find(" are free"), std::string::npos) << detail;
  // What is there is enough for fewer of them.
  EXPECT_GE(loader_->room_bytes(), batch_bytes(stored, options) + needed / 2 - needed / 8);
  expect_ok(load(plain_pictures(2), options, found));
  EXPECT_LE(loader_->room_bytes(), batch_bytes(stored, options) + needed / 2);
  const auto output = loader_->allocate(std::size_t{1} << 29);
  expect_code(output.status(), Code::out_of_memory);
  EXPECT_TRUE(output.status().detail().starts_with(
      "the GPU has too little memory: a batch takes 536870912 bytes, and "))
      << output.status().detail();
  fake_->set_total(std::size_t{1} << 30);
  expect_ok(load(stored, options, found));
  expect_same(found, expected, stored.offsets.size());
}

TEST_P(GpuLoaders, MemoryThatNobodyUsesIsGivenUp) {
  if (fake_ == nullptr) GTEST_SKIP() << "the same for every device";
  const Stored stored = plain_pictures(4), larger = plain_pictures(8);
  const LoadOptions options{.shape = {9, 8}};
  Loaded found;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      Loaded loaded;
      expect_ok(load(stored, options, loaded));
    });
  }
  for (std::thread& caller : callers) caller.join();
  const auto unused = loader_->allocate(100000);
  ASSERT_TRUE(unused.is_ok());
  loader_->release(unused.value(), 100000);
  fake_->set_total(fake_->used() + batch_bytes(larger, options));
  expect_ok(load(larger, options, found));
}

// Every call of the device fails once, or from then on.
TEST_P(GpuLoaders, FailuresOfTheDeviceAreReported) {
  if (fake_ == nullptr) GTEST_SKIP() << "needs a device that fails when it is asked to";
  Stored stored = plain_pictures(2);
  add_damaged(stored, 1);
  stored.add(headrace::testing::make_jpeg({.shape = kShape}), {});
  stored.add_jpeg({.shape = kShape});
  stored.checksums.back() ^= 1;
  const LoadOptions options{.shape = {4, 4}};
  const Loaded expected = load_on_cpu(*cpu_, stored, options);
  const ByteSpan base = base_of(stored);
  const auto last = static_cast<int>(DeviceCall::wait);
  for (const bool is_for_good : {false, true}) {
    for (int call = 0; call <= last; ++call) {
      for (std::size_t n = 0, has_failed = 1; has_failed != 0; ++n) {
        renew(GpuLoader::kMaxCopyBytes);
        const auto out = loader_->allocate(expected.values.size());
        ASSERT_TRUE(out.is_ok());
        if (base.data() != stored.base.data()) expect_ok(loader_->pin(base));
        fake_->fail(static_cast<DeviceCall>(call), n, Code::io_error, is_for_good);
        Loaded found;
        found.values.resize(expected.values.size());
        const auto run = [&] {
          return loader_->load(base, stored.batch(), options, out.value(), found.values.size(),
                               found.report);
        };
        Status status = run();
        has_failed = fake_->has_failed() ? 1 : 0;
        EXPECT_EQ(status.is_ok(), has_failed == 0) << call << " " << n;
        if (has_failed != 0 && !is_for_good) {
          status = run();
          expect_ok(status);
        }
        if (status.is_ok()) {
          fetch(out.value(), found.values);
          expect_same(found, expected, stored.offsets.size());
        } else {
          expect_code(run(), Code::io_error);
        }
        loader_->release(out.value(), expected.values.size());
      }
    }
  }
}

TEST_P(GpuLoaders, ADeviceThatFailsAtTheStart) {
  if (fake_ == nullptr) GTEST_SKIP() << "needs a device that fails when it is asked to";
  for (const DeviceCall call : {DeviceCall::allocate, DeviceCall::allocate_pinned,
                                DeviceCall::make_stream, DeviceCall::copy_in, DeviceCall::wait}) {
    auto device = std::make_unique<CpuDevice>();
    device->fail(call, 0, Code::io_error);
    expect_code(GpuLoader::create(std::move(device), *cpu_).status(), Code::io_error);
  }
}

TEST_P(GpuLoaders, AForkedChildLeavesTheDeviceAlone) {
  const Stored stored = plain_pictures(1);
  const LoadOptions options{.shape = {4, 4}};
  Loaded found;
  expect_ok(load(stored, options, found));
  const pid_t child = fork();
  if (child == 0) {
    LoadReport report;
    const Status status = loader_->load(stored.base, stored.batch(), options, 0, 48, report);
    const bool is_refused = status.code() == Code::unsupported &&
                            loader_->allocate(10).status().code() == Code::unsupported;
    loader_->release(256, 10);
    loader_.reset();
    _exit(is_refused ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  compare(stored, options);
}

}  // namespace
}  // namespace headrace::gpu
