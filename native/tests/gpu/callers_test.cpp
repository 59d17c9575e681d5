// Many callers of one GpuLoader, and loaders that share memory, for TSan: kernels are left out,
// which it cannot follow.
#include <array>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/loader.hpp"
#include "gpu/pins.hpp"
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

TEST(GpuPins, AreSharedAndEndWithTheLastThatUsesThem) {
  const auto device = std::make_shared<testing::CpuDevice>();
  const std::array<std::byte, 100> bytes{};
  const ByteSpan memory(bytes);
  Pins pins(device);
  {
    const auto other_device = std::make_shared<testing::CpuDevice>();
    Pins other(other_device);
    expect_ok(other.add(memory));
    EXPECT_EQ(pins.fetchable(memory), 0U);  // it may end at any time
    EXPECT_EQ(pins.fetchable(memory.subspan(10)), 0U);
    expect_ok(pins.add(memory));
    expect_ok(pins.add(memory));  // counts once
    EXPECT_EQ(pins.fetchable(memory), memory.size());
    EXPECT_EQ(pins.add(memory.first(50)).code(), Code::unsupported);
    other.release();
  }
  EXPECT_EQ(device->pinned_bytes(memory), memory.size());
  EXPECT_EQ(pins.fetchable(memory), memory.size());
  EXPECT_EQ(pins.bytes(), memory.size());
  pins.release();
  EXPECT_EQ(device->pinned_bytes(memory), 0U);
  EXPECT_EQ(pins.fetchable(memory), 0U);
}

TEST(GpuPins, MemoryThatNoLoaderHasPinnedIsFetchedAsWell) {
  const auto device = std::make_shared<testing::CpuDevice>();
  const std::array<std::byte, 100> bytes{};
  Pins pins(device);
  expect_ok(device->pin(bytes));
  EXPECT_EQ(pins.fetchable(bytes), bytes.size());
  EXPECT_EQ(pins.copyable(bytes), bytes.size());
  device->unpin(bytes);
}

TEST(GpuPins, WhatCannotBePinnedIsTriedAgain) {
  const auto device = std::make_shared<testing::CpuDevice>();
  const std::array<std::byte, 100> bytes{};
  Pins pins(device);
  device->fail(testing::DeviceCall::pin, 0, Code::unsupported);
  EXPECT_EQ(pins.add(bytes).code(), Code::unsupported);
  EXPECT_EQ(pins.fetchable(bytes), 0U);
  expect_ok(pins.add(bytes));
  EXPECT_EQ(pins.fetchable(bytes), bytes.size());
  pins.release();
}

TEST(GpuPins, LoadersComeAndGo) {
  const std::array<std::byte, 100> bytes{};
  const ByteSpan memory(bytes);
  const auto device = std::make_shared<testing::CpuDevice>();
  Pins first(device), none(device);
  expect_ok(first.add(memory));
  std::vector<std::thread> others;
  for (int i = 0; i < 3; ++i) {
    others.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        Pins pins(std::make_shared<testing::CpuDevice>());
        expect_ok(pins.add(memory));
        EXPECT_EQ(pins.fetchable(memory), memory.size());
        EXPECT_EQ(none.fetchable(memory), 0U);
        pins.release();
      }
    });
  }
  first.release();
  for (std::thread& other : others) other.join();
  EXPECT_EQ(device->pinned_bytes(memory), 0U);
}

}  // namespace
}  // namespace headrace::gpu
