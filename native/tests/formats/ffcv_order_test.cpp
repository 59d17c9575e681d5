#include "headrace/formats/ffcv_order.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;
using Numbers = std::vector<std::int64_t>;

Numbers whole_numbers(std::size_t size) {
  Numbers numbers(size);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Numbers order_of(Numbers& samples, const Numbers& page_starts, std::uint32_t seed,
                 std::size_t pool) {
  Numbers order(samples.size());
  expect_ok(quasi_random_order_ffcv(samples, page_starts, seed, pool, order));
  return order;
}

TEST(FfcvOrder, EverySampleOnce) {
  const Numbers starts{0, 3, 3, 4, 40, 40, 64};
  for (const std::size_t pool : {1U, 2U, 5U, 100U}) {
    Numbers samples = whole_numbers(64);
    Numbers order = order_of(samples, starts, 7, pool);
    for (std::size_t p = 0; p + 1 < starts.size(); ++p) {
      std::sort(samples.begin() + starts[p], samples.begin() + starts[p + 1]);
    }
    EXPECT_EQ(samples, whole_numbers(64));  // they stay in their pages
    std::sort(order.begin(), order.end());
    EXPECT_EQ(order, whole_numbers(64));
  }
}

TEST(FfcvOrder, OnePageAtATime) {
  Numbers samples = whole_numbers(30);
  const Numbers order = order_of(samples, {0, 10, 20, 30}, 3, 1);
  for (std::size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i] / 10, order[i / 10 * 10] / 10);
}

TEST(FfcvOrder, NothingToDraw) {
  Numbers samples;
  EXPECT_EQ(order_of(samples, {0}, 1, 4), Numbers{});
  EXPECT_EQ(order_of(samples, {0, 0, 0}, 1, 4), Numbers{});
}

TEST(FfcvOrder, WrongArgumentsAreErrors) {
  Numbers samples = whole_numbers(4);
  Numbers order(4);
  const auto draw = [&](const Numbers& starts, std::size_t pool) {
    return quasi_random_order_ffcv(samples, starts, 0, pool, order);
  };
  expect_code(draw({0, 4}, 0), Code::invalid_argument);
  for (const Numbers& starts :
       {Numbers{}, {4}, {0, 3}, {0, 5}, {1, 4}, {0, 3, 2, 4}, {0, -1, 4}, {0, 9, 4}}) {
    expect_code(draw(starts, 2), Code::invalid_argument);
  }
  order.resize(3);
  expect_code(draw({0, 4}, 2), Code::invalid_argument);
  EXPECT_EQ(samples, whole_numbers(4));
}

}  // namespace
}  // namespace headrace
