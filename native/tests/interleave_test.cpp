#include "headrace/interleave.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

Status fill(const std::vector<std::uint64_t>& shares, std::vector<std::uint16_t>& out) {
  std::vector<Turn> turns(shares.size());
  std::vector<std::uint16_t> waiting(shares.size());
  std::vector<std::uint16_t> ready(shares.size());
  return interleave(shares, turns, waiting, ready, out);
}

TEST(Interleave, EveryBeginningKeepsTheProportions) {
  const std::vector<std::vector<std::uint64_t>> cases{{1},
                                                      {1, 1},
                                                      {7, 2, 1},
                                                      {0, 3, 0, 5},
                                                      {1, 1000, 1000},
                                                      {1, 2, 4, 8, 16, 32, 64},
                                                      {97, 89, 83, 79, 3, 2, 1}};
  for (const auto& shares : cases) {
    std::vector<std::uint16_t> row(3000);
    expect_ok(fill(shares, row));
    const auto total =
        static_cast<double>(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}));
    std::vector<double> counts(shares.size());
    for (std::size_t n = 1; n <= row.size(); ++n) {
      counts[row[n - 1]] += 1;
      for (std::size_t i = 0; i < shares.size(); ++i) {
        const double meant = static_cast<double>(n) * static_cast<double>(shares[i]) / total;
        EXPECT_LT(std::abs(counts[i] - meant), 1.0) << n;
      }
    }
  }
}

TEST(Interleave, RefusesSharesThatMakeNoSense) {
  std::vector<std::uint16_t> row(3);
  expect_code(fill({0, 0}, row), Code::invalid_argument);
  expect_code(fill({}, row), Code::invalid_argument);
  expect_code(fill({UINT64_MAX, 1}, row), Code::invalid_argument);
  expect_code(fill(std::vector<std::uint64_t>(70000, 1), row), Code::invalid_argument);
}

// A row of 70 places in two blocks, the second filled up, and what is before each block.
struct Counted {
  std::vector<std::uint16_t> places = std::vector<std::uint16_t>(128, 3);
  std::vector<std::int64_t> before;

  Counted() {
    std::vector<std::uint16_t> row(70);
    expect_ok(fill({4, 2, 1}, row));
    std::copy(row.begin(), row.end(), places.begin());
    for (std::uint16_t thing = 0; thing < 3; ++thing) {
      const auto first = std::count(row.begin(), row.begin() + 64, thing);
      before.insert(before.end(), {0, first, std::count(row.begin(), row.end(), thing)});
    }
  }

  [[nodiscard]] RepeatedRow row() const { return {places, before, 70}; }
};

TEST(RepeatedRow, PlacesAndNumbersAreFoundBothWays) {
  const Counted counted;
  std::vector<std::int64_t> places(500);
  std::iota(places.begin(), places.end(), 0);
  std::vector<std::int64_t> things(500);
  std::vector<std::int64_t> counts(500);
  expect_ok(locate_in_row(counted.row(), places, things, counts));
  std::vector<std::int64_t> seen(3);
  for (std::size_t i = 0; i < places.size(); ++i) {
    ASSERT_EQ(things[i], counted.places[i % 70]);
    ASSERT_EQ(counts[i], seen[static_cast<std::size_t>(things[i])]++);
    std::int64_t place = -1;
    expect_ok(find_in_row(counted.row(), static_cast<std::uint16_t>(things[i]), {&counts[i], 1},
                          {&place, 1}));
    ASSERT_EQ(place, places[i]);
  }
}

TEST(RepeatedRow, RefusesWhatMakesNoSense) {
  Counted counted;
  std::int64_t number = -1;
  std::int64_t thing = 0;
  std::int64_t out = 0;
  const auto locate = [&](const RepeatedRow& row) {
    return locate_in_row(row, {&number, 1}, {&thing, 1}, {&out, 1});
  };
  const auto find = [&](std::uint16_t wanted) {
    return find_in_row(counted.row(), wanted, {&number, 1}, {&out, 1});
  };
  expect_code(locate(counted.row()), Code::invalid_argument);  // a negative place
  expect_code(find(0), Code::invalid_argument);
  number = 69;
  expect_ok(locate(counted.row()));
  expect_code(locate({counted.places, counted.before, 0}), Code::invalid_argument);
  expect_code(locate({counted.places, counted.before, 129}), Code::invalid_argument);
  expect_code(locate({counted.places, std::span(counted.before).first(8), 70}),
              Code::invalid_argument);
  expect_code(locate({std::span(counted.places).first(100), counted.before, 70}),
              Code::invalid_argument);
  expect_code(locate({counted.places, std::span(counted.before).first(3), 70}),
              Code::invalid_argument);  // things that are not counted
  expect_code(find(3), Code::invalid_argument);
  counted.before[1] = 70;  // counts that are not true
  counted.before[2] = 100;
  expect_code(find(0), Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
