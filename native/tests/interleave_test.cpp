#include "headrace/interleave.hpp"

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

}  // namespace
}  // namespace headrace
