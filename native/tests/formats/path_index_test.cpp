#include "headrace/formats/path_index.hpp"

#include <string>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

std::string name_of(std::int64_t i) {
  return "dir" + std::to_string(i % 7) + "/" + std::to_string(i);
}

TEST(PathIndex, FindsWhatWasAddedAndNothingElse) {
  PathIndex index(0, 42);
  FilePlace place{};
  EXPECT_FALSE(index.find("x", place));
  for (std::int64_t i = 0; i < 20'000; ++i) {
    expect_ok(index.add(name_of(i), {i % 5, i * 10, i, i % 3 == 0 ? kNoChecksum : i}));
  }
  EXPECT_EQ(index.size(), 20'000U);
  for (std::int64_t i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(index.find(name_of(i), place));
    EXPECT_EQ(place.shard, i % 5);
    EXPECT_EQ(place.offset, i * 10);
    EXPECT_EQ(place.size, i);
    EXPECT_EQ(place.crc32c, i % 3 == 0 ? kNoChecksum : i);
  }
  EXPECT_FALSE(index.find("dir0/1", place));
  EXPECT_FALSE(index.find("", place));
}

TEST(PathIndex, ReplacesAndTellsLengthsApart) {
  PathIndex index(4, 1);
  expect_ok(index.add(std::string_view("a\0", 2), {1, 0, 0, 0}));
  expect_ok(index.add("a", {2, 0, 0, 0xffffffff}));
  expect_ok(index.add("a", {3, 0, 0, 0xffffffff}));
  FilePlace place{};
  ASSERT_TRUE(index.find("a", place));
  EXPECT_EQ(place.shard, 3);
  EXPECT_EQ(place.crc32c, 0xffffffff);
  EXPECT_EQ(index.size(), 2U);
}

TEST(PathIndex, ManyAtOnceAndAboutFiftyBytes) {
  constexpr std::size_t kCount = 1000;
  PathIndex index(kCount, 7);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kCount; ++i) {
    names.push_back(name_of(static_cast<std::int64_t>(i)));
    expect_ok(index.add(names.back(), {0, static_cast<std::int64_t>(i), 1, 2}));
  }
  EXPECT_LE(index.memory_bytes(), kCount * 51);
  names.emplace_back("missing");
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::vector<FilePlace> places(views.size());
  index.find_many(views, places);
  for (std::size_t i = 0; i < kCount; ++i)
    EXPECT_EQ(places[i].offset, static_cast<std::int64_t>(i));
  EXPECT_EQ(places.back().shard, -1);
}

TEST(PathIndex, RefusesShardsThatCannotBe) {
  PathIndex index(1, 0);
  expect_code(index.add("a", {-1, 0, 0, 0}), Code::invalid_argument);
  expect_code(index.add("a", {0x7fffffff, 0, 0, 0}), Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
