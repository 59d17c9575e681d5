#include "headrace/formats/beton.hpp"

#include <algorithm>
#include <thread>

#include "tests/formats/beton_support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::table_bytes;

constexpr std::uint64_t kMax = UINT64_MAX;
constexpr TableLimits kLimits{
    .data_start = 1000 * 1024, .data_end = 1010 * 1024, .page_size = 1024, .num_samples = 10};
constexpr std::uint64_t kStart = kLimits.data_start;

std::vector<std::uint64_t> find(const AllocationTable& table,
                                const std::vector<std::uint64_t>& pointers,
                                const std::vector<std::uint64_t>& guesses) {
  std::vector<std::uint64_t> sizes(pointers.size());
  expect_ok(table.find_sizes(pointers, guesses, sizes));
  return sizes;
}

std::vector<TableProblem> check(const std::vector<TableRow>& rows, std::size_t limit = 100) {
  const Bytes bytes = table_bytes(rows, 3);
  const AllocationTable table(ByteSpan(bytes).subspan(3));
  auto problems = table.check(kLimits, limit);
  expect_ok(problems.status());
  return problems.value();
}

void expect_problems(const std::vector<TableRow>& rows, const std::vector<TableProblem>& expected) {
  const auto found = check(rows);
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].row, expected[i].row);
    EXPECT_EQ(problem_name(found[i].kind), problem_name(expected[i].kind));
    EXPECT_EQ(found[i].other_row, expected[i].other_row);
  }
}

TEST(AllocationTable, EmptyAndPartialRows) {
  EXPECT_EQ(AllocationTable({}).rows(), 0U);
  EXPECT_EQ(find(AllocationTable({}), {0, 5}, {0, 1}), (std::vector<std::uint64_t>{kMax, kMax}));
  const Bytes bytes(47);
  EXPECT_EQ(AllocationTable(bytes).rows(), 1U);
}

TEST(AllocationTable, GuessesAndSearchAgree) {
  const Bytes bytes = table_bytes({{2, 500, 7}, {0, 100, 3}, {1, 300, 9}, {5, 0, 1}}, 1);
  const AllocationTable table(ByteSpan(bytes).subspan(1));
  const std::vector<std::uint64_t> pointers = {500, 100, 300, 0, 101, kMax};
  const std::vector<std::uint64_t> expected = {7, 3, 9, 1, kMax, kMax};
  EXPECT_EQ(find(table, pointers, {0, 1, 2, 3, 0, 0}), expected);
  EXPECT_EQ(find(table, pointers, {kMax, 4, 0, 0, 3, kMax}), expected);
}

TEST(AllocationTable, EmptyRowsNeverCount) {
  // An empty value shares its pointer with the next allocation.
  const Bytes bytes = table_bytes({{0, 100, 0}, {0, 100, 5}, {1, 200, 0}}, 5);
  const AllocationTable table(ByteSpan(bytes).subspan(5));
  EXPECT_EQ(find(table, {100, 100, 200}, {0, 1, 2}), (std::vector<std::uint64_t>{5, 5, kMax}));
}

TEST(AllocationTable, FirstOfSeveralRowsCounts) {
  const Bytes bytes = table_bytes({{0, 900, 1}, {1, 100, 8}, {2, 100, 6}, {3, 100, 7}}, 0);
  const AllocationTable table(bytes);
  EXPECT_EQ(find(table, {100}, {kMax}), std::vector<std::uint64_t>{8});
}

TEST(AllocationTable, CountsMustAgree) {
  const AllocationTable table({});
  const std::vector<std::uint64_t> two(2);
  std::vector<std::uint64_t> sizes(2);
  expect_code(table.find_sizes(two, std::span(two).first(1), sizes), Code::invalid_argument);
  expect_code(table.find_sizes(two, two, std::span(sizes).first(1)), Code::invalid_argument);
}

TEST(AllocationTable, ThreadsShareTheIndex) {
  std::vector<TableRow> rows;
  for (std::uint64_t i = 0; i < 5000; ++i) rows.push_back({i, (i * 7919) % 5000 * 10, i + 1});
  const Bytes bytes = table_bytes(rows, 1);
  const AllocationTable table(ByteSpan(bytes).subspan(1));
  std::vector<int> wrong(8, -1);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::uint64_t> pointers;
      for (const TableRow& row : rows) pointers.push_back(row.ptr);
      const std::vector<std::uint64_t> guesses(pointers.size(), kMax);
      std::vector<std::uint64_t> sizes(pointers.size());
      int bad = table.find_sizes(pointers, guesses, sizes).is_ok() ? 0 : 1;
      for (std::size_t i = 0; i < rows.size(); ++i) bad += sizes[i] != rows[i].size;
      wrong[t] = bad;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(8, 0));
}

TEST(TableCheck, SoundTableHasNoProblems) {
  EXPECT_TRUE(check({}).empty());
  EXPECT_TRUE(check({{1, kStart + 1024, 1024},
                     {0, kStart, 100},
                     {0, kStart + 100, 924},
                     {9, kStart + 9 * 1024 + 1023, 1},
                     {9, 0, 0},
                     {3, kMax, 0}})
                  .empty());
}

TEST(TableCheck, SampleIds) {
  constexpr auto kind = TableProblemKind::sample_id_out_of_range;
  expect_problems({{10, kStart, 0}, {9, kStart, 1}, {kMax, kStart + 5, 1}},
                  {{0, kind, kNoRow}, {2, kind, kNoRow}});
}

TEST(TableCheck, Bounds) {
  constexpr auto kind = TableProblemKind::out_of_bounds;
  expect_problems({{0, kStart - 1, 1},
                   {1, kLimits.data_end, 1},
                   {2, kLimits.data_end - 1, 2},
                   {3, kMax, 1},
                   {4, kMax - 1, kMax},
                   {5, kStart, kMax},
                   {6, 0, kMax}},
                  {{0, kind, kNoRow},
                   {1, kind, kNoRow},
                   {2, kind, kNoRow},
                   {3, kind, kNoRow},
                   {4, kind, kNoRow},
                   {5, kind, kNoRow},
                   {6, kind, kNoRow}});
}

TEST(TableCheck, PagesAreNotCrossed) {
  expect_problems({{0, kStart + 1023, 2}, {1, kStart + 1025, 1023}},
                  {{0, TableProblemKind::crosses_page, kNoRow}});
}

TEST(TableCheck, Overlaps) {
  constexpr auto kind = TableProblemKind::overlap;
  // Rows 1 and 3 lie inside row 2; row 0 touches it without overlapping.
  expect_problems(
      {{0, kStart + 500, 10}, {1, kStart + 100, 10}, {2, kStart, 500}, {3, kStart + 499, 1}},
      {{1, kind, 2}, {3, kind, 2}});
  expect_problems({{0, kStart, 5}, {1, kStart, 5}}, {{1, kind, 0}});
}

TEST(TableCheck, SamplesStayOnOnePage) {
  constexpr auto kind = TableProblemKind::sample_on_several_pages;
  expect_problems({{4, kStart + 2048, 1},
                   {5, kStart + 10, 1},
                   {4, kStart, 1},
                   {4, kStart + 2050, 1},
                   {4, kStart + 5000, 0}},
                  {{2, kind, 0}});
}

TEST(TableCheck, LimitIsKept) {
  const std::vector<TableRow> rows(1000, {kMax, kMax, kMax});
  EXPECT_EQ(check(rows, 0).size(), 0U);
  EXPECT_EQ(check(rows, 7).size(), 7U);
  EXPECT_EQ(check(rows, 5000).size(), 2000U);
  const std::vector<TableRow> same(1000, {0, kStart, 4});
  EXPECT_EQ(check(same, 5).size(), 5U);
}

TEST(TableCheck, PageSizeMustBeAPowerOfTwo) {
  const AllocationTable table({});
  for (const std::uint64_t page_size : {std::uint64_t{0}, std::uint64_t{3}, kMax}) {
    expect_code(table.check({0, 10, page_size, 1}, 10).status(), Code::invalid_argument);
  }
  expect_ok(table.check({0, kMax, 1ULL << 63, kMax}, 10).status());
}

}  // namespace
}  // namespace headrace
