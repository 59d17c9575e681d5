// Many callers of one GpuLoader, for TSan: kernels are left out, which it cannot follow.
#include <thread>

#include "gpu/loader.hpp"
#include "gpu/slots.hpp"
#include "tests/gpu/machine.hpp"
#include "tests/gpu/stored_pictures.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace::gpu {
namespace {

using headrace::testing::Bytes;
using headrace::testing::expect_ok;

constexpr ImageShape kShape{34, 27};

// One picture, again and again: with its tile index on the GPU, without it on the CPU.
testing::StoredPictures repeated(std::size_t count) {
  const Bytes jpeg = headrace::testing::make_jpeg({.shape = kShape});
  const Bytes index = headrace::testing::index_of(jpeg, 2);
  testing::StoredPictures pictures;
  for (std::size_t i = 0; i < count; ++i) {
    pictures.add_picture(jpeg, i % 4 == 0 ? Bytes{} : index, StoredMode::jpeg, kShape,
                         {0, 0, kShape.width, kShape.height}, false);
  }
  return pictures;
}

TEST(GpuLoaderCallers, ShareSlotsAndMemory) {
  auto cpu = ImageLoader::create(2);
  ASSERT_TRUE(cpu.is_ok());
  auto device = std::make_unique<testing::CpuDevice>();
  testing::CpuDevice& fake = *device;
  fake.leave_out_kernels();
  auto made = GpuLoader::create(std::move(device), *cpu.value());
  expect_ok(made.status());
  GpuLoader& loader = *made.value();
  const testing::StoredPictures large = repeated(40), small = repeated(8);
  const auto load = [&](const testing::StoredPictures& pictures) {
    const LoadOptions options{.shape = {9, 8}};
    const std::size_t size = pictures.offsets.size() * 9 * 8 * 3;
    const auto out = loader.allocate(size);
    ASSERT_TRUE(out.is_ok());
    LoadReport report;
    expect_ok(loader.load(pictures.base, pictures.batch(), options, out.value(), size, report));
    EXPECT_EQ(report.counts.gpu, pictures.offsets.size() * 3 / 4);
    EXPECT_TRUE(report.failures.empty());
    loader.release(out.value(), size);
    EXPECT_GT(loader.device_bytes(), 0U);
  };
  std::vector<std::thread> callers;
  for (std::size_t i = 0; i < 7; ++i) {
    callers.emplace_back([&, i] {
      for (std::size_t round = i; round < i + 6; ++round) load(round % 3 == 0 ? large : small);
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_LE(fake.most_streams(), Slots::kMost);
  EXPECT_GE(fake.most_streams(), 1U);
}

}  // namespace
}  // namespace headrace::gpu
