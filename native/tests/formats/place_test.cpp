#include <algorithm>

#include "tests/formats/beton_support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::table_bytes;

constexpr std::uint64_t kMax = UINT64_MAX;

struct Placed {
  Result<std::uint64_t> end;
  std::vector<std::uint64_t> pointers;
};

Placed place_all(const std::vector<std::uint64_t>& sizes, std::size_t values,
                 const PagePosition& position) {
  std::vector<std::uint64_t> pointers(sizes.size());
  auto end = place(sizes, values, position, pointers);
  return {end, pointers};
}

TEST(Place, FillsPagesInOrder) {
  const auto placed = place_all({3, 4, 2, 1, 5, 5}, 2, {100, 10, 100});
  expect_ok(placed.end.status());
  // 7 and 3 bytes fill the first page exactly, 10 the second.
  EXPECT_EQ(placed.pointers, (std::vector<std::uint64_t>{100, 103, 107, 109, 110, 115}));
  EXPECT_EQ(placed.end.value(), 120U);
}

TEST(Place, GoesToTheNextPage) {
  const auto placed = place_all({7, 4}, 1, {100, 10, 100});
  EXPECT_EQ(placed.pointers, (std::vector<std::uint64_t>{100, 110}));
  EXPECT_EQ(placed.end.value(), 114U);
}

TEST(Place, EmptyValuesTakeOneByte) {
  const auto placed = place_all({0, 0, 5}, 3, {0, 10, 0});
  EXPECT_EQ(placed.pointers, (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(placed.end.value(), 7U);
}

TEST(Place, ContinuesAtTheCursor) {
  const auto whole = place_all({3, 3, 3, 3, 3}, 1, {64, 8, 64});
  const auto head = place_all({3, 3}, 1, {64, 8, 64});
  const auto tail = place_all({3, 3, 3}, 1, {head.end.value(), 8, 64});
  auto joined = head.pointers;
  joined.insert(joined.end(), tail.pointers.begin(), tail.pointers.end());
  EXPECT_EQ(joined, whole.pointers);
  EXPECT_EQ(tail.end.value(), whole.end.value());
}

TEST(Place, TooLargeSampleIsNamed) {
  for (const std::uint64_t size : {std::uint64_t{11}, kMax, kMax - 3}) {
    const auto placed = place_all({1, 1, 1, size}, 2, {0, 10, 0});
    expect_code(placed.end.status(), Code::too_large);
    EXPECT_EQ(placed.end.status().offset(), 1);
  }
  // The sum overflows, no single size does.
  expect_code(place_all({kMax - 1, kMax - 1}, 2, {0, kMax, 0}).end.status(), Code::too_large);
}

TEST(Place, OffsetsBeyond64BitsAreErrors) {
  expect_code(place_all({5}, 1, {kMax - 3, 10, kMax - 3}).end.status(), Code::too_large);
  expect_code(place_all({9}, 1, {kMax - 3, 10, kMax - 6}).end.status(), Code::too_large);
  expect_code(place_all({10, 10}, 1, {kMax - 15, 10, kMax - 15}).end.status(), Code::too_large);
}

TEST(Place, WrongArgumentsAreErrors) {
  expect_code(place_all({1}, 1, {0, 0, 0}).end.status(), Code::invalid_argument);
  expect_code(place_all({1}, 1, {9, 10, 10}).end.status(), Code::invalid_argument);
  expect_code(place_all({1, 2, 3}, 2, {0, 10, 0}).end.status(), Code::invalid_argument);
  expect_code(place_all({1}, 0, {0, 10, 0}).end.status(), Code::invalid_argument);
  std::vector<std::uint64_t> pointers(1);
  expect_code(place(std::vector<std::uint64_t>{1, 2}, 1, {0, 10, 0}, pointers).status(),
              Code::invalid_argument);
}

TEST(Place, NothingToPlace) {
  EXPECT_EQ(place_all({}, 3, {7, 10, 0}).end.value(), 7U);
  EXPECT_EQ(place_all({}, 0, {7, 10, 0}).end.value(), 7U);
}

// What place() writes, AllocationTable::check() finds sound.
TEST(Place, ResultsAreSoundTables) {
  std::mt19937_64 engine(11);
  for (int round = 0; round < 50; ++round) {
    constexpr std::uint64_t kPage = 256;
    constexpr std::uint64_t kStart = 4 * kPage;
    const std::size_t values = 1 + engine() % 4;
    const std::size_t samples = engine() % 60;
    std::vector<std::uint64_t> sizes(samples * values);
    for (auto& size : sizes) size = engine() % (kPage / values + 1);
    const auto placed = place_all(sizes, values, {kStart, kPage, kStart});
    expect_ok(placed.end.status());
    std::vector<TableRow> rows;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      rows.push_back({i / values, placed.pointers[i], std::max<std::uint64_t>(sizes[i], 1)});
    }
    EXPECT_TRUE(std::is_sorted(placed.pointers.begin(), placed.pointers.end()));
    const Bytes bytes = table_bytes(rows, 0);
    const AllocationTable table(bytes);
    const auto problems = table.check({kStart, placed.end.value(), kPage, samples}, 10);
    EXPECT_TRUE(problems.is_ok() && problems.value().empty());
  }
}

}  // namespace
}  // namespace headrace
