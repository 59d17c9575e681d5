#include "headrace/io/sparse_mapping.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_ok;

const std::size_t kPage = static_cast<std::size_t>(getpagesize());
constexpr std::size_t kLarge = std::size_t{4} << 20;

SparseMapping mapping_of(std::uint64_t size) {
  auto mapping = SparseMapping::create(size);
  expect_ok(mapping.status());
  return std::move(mapping.value());
}

bool is_all(ByteSpan bytes, int value) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [value](std::byte byte) { return std::to_integer<int>(byte) == value; });
}

TEST(SparseMapping, HasWhatWasFilled) {
  SparseMapping mapping = mapping_of(10 * kPage + 5);
  ASSERT_EQ(mapping.bytes().size(), 10 * kPage + 5);
  expect_ok(mapping.fill(2 * kPage, Bytes(3 * kPage, std::byte{7})));
  expect_ok(mapping.fill(10 * kPage, Bytes(5, std::byte{9})));
  EXPECT_TRUE(is_all(mapping.bytes().subspan(2 * kPage, 3 * kPage), 7));
  EXPECT_TRUE(is_all(mapping.bytes().last(5), 9));
  EXPECT_EQ(mapping.faults(), 0U);
}

TEST(SparseMapping, CountsWhatIsNotThere) {
  SparseMapping mapping = mapping_of(10 * kPage);
  expect_ok(mapping.fill(0, Bytes(kPage, std::byte{7})));
  EXPECT_TRUE(is_all(mapping.bytes().subspan(kPage, 2 * kPage), 0));
  EXPECT_EQ(mapping.faults(), 2U);
  expect_ok(mapping.fill(kPage, Bytes(kPage, std::byte{8})));
  EXPECT_TRUE(is_all(mapping.bytes().subspan(kPage, kPage), 8));
  EXPECT_EQ(mapping.faults(), 2U);
}

TEST(SparseMapping, AdoptsMemoryOfOtherParts) {
  SparseMapping one = mapping_of(3 * kLarge);
  SparseMapping other = mapping_of(2 * kLarge);
  expect_ok(one.fill(kLarge, Bytes(kLarge, std::byte{7})));
  const auto adopted = other.adopt(0, kLarge, one, kLarge);
  expect_ok(adopted.status());
  if (!adopted.value()) GTEST_SKIP() << "the system cannot move memory";
  EXPECT_TRUE(is_all(other.bytes().first(kLarge), 7));
  expect_ok(other.overwrite(0, Bytes(kLarge, std::byte{8})));
  EXPECT_TRUE(is_all(other.bytes().first(kLarge), 8));
  EXPECT_EQ(other.faults(), 0U);
  EXPECT_TRUE(is_all(one.bytes().subspan(kLarge, kPage), 0));  // it is not there any more
  EXPECT_EQ(one.faults(), 1U);
  expect_ok(one.fill(kLarge, Bytes(kLarge, std::byte{9})));
  EXPECT_TRUE(is_all(one.bytes().subspan(kLarge, kLarge), 9));
}

TEST(SparseMapping, AdoptsNothingFromItsOwnPlaceOrFromOutside) {
  SparseMapping mapping = mapping_of(2 * kLarge);
  expect_ok(mapping.fill(0, Bytes(kLarge, std::byte{7})));
  const auto same = mapping.adopt(0, kLarge, mapping, 0);
  expect_ok(same.status());
  EXPECT_FALSE(same.value());
  EXPECT_TRUE(is_all(mapping.bytes().first(kLarge), 7));
  EXPECT_FALSE(mapping.adopt(0, kLarge, mapping, 2 * kLarge).is_ok());
  EXPECT_FALSE(mapping.adopt(2 * kLarge, kLarge, mapping, 0).is_ok());
}

TEST(SparseMapping, DropsAndFillsAgain) {
  SparseMapping mapping = mapping_of(3 * kLarge + 1);
  for (int round = 1; round <= 3; ++round) {
    for (const std::size_t start : {std::size_t{0}, kLarge, 2 * kLarge}) {
      expect_ok(mapping.fill(start, Bytes(kLarge, static_cast<std::byte>(round))));
    }
    EXPECT_TRUE(is_all(mapping.bytes().first(3 * kLarge), round));
    EXPECT_EQ(mapping.faults(), static_cast<std::uint64_t>(round - 1));
    expect_ok(mapping.drop(kLarge, kLarge));
    EXPECT_TRUE(is_all(mapping.bytes().subspan(kLarge + 5, 3), 0));
    EXPECT_EQ(mapping.faults(), static_cast<std::uint64_t>(round));
    EXPECT_TRUE(is_all(mapping.bytes().subspan(2 * kLarge, kLarge), round));
  }
}

TEST(SparseMapping, PartsAreWrittenInPlace) {
  SparseMapping mapping = mapping_of(2 * kPage + 3);
  auto part = mapping.writable(kPage, kPage + 3);
  ASSERT_TRUE(part.is_ok());
  ASSERT_EQ(part.value().size(), kPage + 3);
  std::fill(part.value().begin(), part.value().end(), std::byte{5});
  expect_ok(mapping.seal(kPage, kPage + 3));
  EXPECT_TRUE(is_all(mapping.bytes().subspan(kPage), 5));
}

TEST(SparseMapping, ArgumentsAreChecked) {
  SparseMapping mapping = mapping_of(4 * kPage + 7);
  const Bytes page(kPage, std::byte{1});
  EXPECT_EQ(mapping.fill(1, page).code(), Code::invalid_argument);
  EXPECT_EQ(mapping.fill(0, Bytes(5)).code(), Code::invalid_argument);
  EXPECT_EQ(mapping.fill(4 * kPage, page).code(), Code::out_of_bounds);
  EXPECT_EQ(mapping.drop(5 * kPage, 0).code(), Code::out_of_bounds);
  EXPECT_EQ(mapping.drop(kPage, ~std::uint64_t{0}).code(), Code::out_of_bounds);
  EXPECT_EQ(mapping.drop(kPage, kPage + 1).code(), Code::invalid_argument);
  EXPECT_EQ(mapping.seal(3, kPage).code(), Code::invalid_argument);
  EXPECT_EQ(mapping.writable(0, 5 * kPage).status().code(), Code::out_of_bounds);
  expect_ok(mapping.fill(kPage, Bytes()));
  expect_ok(mapping.drop(0, 4 * kPage + 7));
}

TEST(SparseMapping, Sizes) {
  EXPECT_TRUE(mapping_of(0).bytes().empty());
  EXPECT_EQ(mapping_of(std::uint64_t{1} << 36).bytes().size(), std::size_t{1} << 36);
  EXPECT_EQ(SparseMapping::create(std::uint64_t{1} << 60).status().code(), Code::io_error);
  EXPECT_EQ(SparseMapping::create(~std::uint64_t{0}).status().code(), Code::io_error);
}

TEST(SparseMapping, ManyThreadsFillAndDrop) {
  SparseMapping mapping = mapping_of(8 * kLarge);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 20; ++round) {
        const std::size_t start = (2 * i) * kLarge;
        const Bytes data(kPage * 4, static_cast<std::byte>(i + 1));
        if (!mapping.fill(start, data).is_ok()) ++wrong;
        if (!is_all(mapping.bytes().subspan(start, data.size()), static_cast<int>(i + 1))) ++wrong;
        if (!mapping.drop(start, data.size()).is_ok()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(mapping.faults(), 0U);
}

TEST(SparseMapping, AChildHasWhatWasThere) {
  SparseMapping mapping = mapping_of(4 * kPage);
  expect_ok(mapping.fill(0, Bytes(kPage, std::byte{3})));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool is_there = is_all(mapping.bytes().first(kPage), 3);
    const bool is_counted = is_all(mapping.bytes().last(kPage), 0) && mapping.faults() == 1;
    _exit(is_there && is_counted ? 5 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_EQ(mapping.faults(), 0U);
}

}  // namespace
}  // namespace headrace
