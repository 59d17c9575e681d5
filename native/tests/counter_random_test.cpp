#include "headrace/counter_random.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

constexpr std::array<std::uint64_t, 3> kKey{7, 2, 0x6F01};

std::vector<std::int64_t> first_numbers(std::size_t n) {
  std::vector<std::int64_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

TEST(CounterRandom, PermutationsHaveEveryNumberOnce) {
  for (const std::size_t n : {0U, 1U, 2U, 3U, 4U, 5U, 16U, 17U, 99U, 100U, 101U, 1000U, 65537U}) {
    const std::vector<std::int64_t> positions = first_numbers(n);
    std::vector<std::int64_t> out(n);
    expect_ok(permute(positions, n, kKey, out));
    std::sort(out.begin(), out.end());
    EXPECT_EQ(out, positions) << n;
  }
}

TEST(CounterRandom, PermutationsOfManyNumbersStayBelowThem) {
  for (const std::uint64_t n : {std::uint64_t{1} << 63, (std::uint64_t{1} << 63) - 1,
                                (std::uint64_t{1} << 62) + 12345, std::uint64_t{0xFFFFFFFF}}) {
    const std::vector<std::int64_t> positions{0, 1, 77, static_cast<std::int64_t>(n - 1)};
    std::vector<std::int64_t> out(4);
    expect_ok(permute(positions, n, kKey, out));
    for (const std::int64_t number : out) {
      EXPECT_GE(number, 0);
      EXPECT_LT(static_cast<std::uint64_t>(number), n);
    }
    std::sort(out.begin(), out.end());
    EXPECT_EQ(std::unique(out.begin(), out.end()), out.end());
  }
}

TEST(CounterRandom, WrongPositionsAreErrors) {
  std::array<std::int64_t, 1> out{};
  for (const std::int64_t position : {std::int64_t{-1}, std::int64_t{10}, INT64_MAX, INT64_MIN}) {
    expect_code(permute({{position}}, 10, kKey, out), Code::invalid_argument);
  }
  expect_code(permute({{std::int64_t{0}}}, 0, kKey, out), Code::invalid_argument);
  expect_code(permute({{std::int64_t{0}}}, UINT64_MAX, kKey, out), Code::invalid_argument);
  expect_code(permute({{std::int64_t{0}}}, 10, kKey, {}), Code::invalid_argument);
}

TEST(CounterRandom, EveryDrawIsNamedByItsWords) {
  const std::vector<std::int64_t> samples{5, -1, 0, INT64_MAX};
  std::vector<double> out(12);
  expect_ok(draw_uniforms(kKey, samples, 9, out));
  for (std::size_t draw = 0; draw < 3; ++draw) {
    for (std::size_t i = 0; i < 4; ++i) {
      std::uint64_t state = 0;
      for (const std::uint64_t word : kKey) state = hash_word(state, word);
      state = hash_word(hash_word(state, static_cast<std::uint64_t>(samples[i])), 9 + draw);
      EXPECT_EQ(out[draw * 4 + i], static_cast<double>(state >> 11) / 9007199254740992.0);
    }
  }
}

TEST(CounterRandom, NumbersFillWholeRows) {
  std::vector<double> out(7);
  expect_code(draw_uniforms(kKey, {{std::int64_t{1}, std::int64_t{2}}}, 0, out),
              Code::invalid_argument);
  expect_code(draw_uniforms(kKey, {}, 0, out), Code::invalid_argument);
  expect_ok(draw_uniforms(kKey, {}, 0, {}));
}

}  // namespace
}  // namespace headrace
