#include "headrace/images/mix.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::available_levels;
using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::LevelGuard;
using testing::random_bytes;

constexpr OutputType kTypes[] = {OutputType::uint8, OutputType::float16, OutputType::float32};

Bytes mixed(OutputType type, const Bytes& values, const std::vector<float>& weights) {
  Bytes out(values.size(), std::byte{0xEE});
  expect_ok(mix(type, values, weights, out));
  return out;
}

// Without infinities and values that are not numbers, whose bits nobody promises.
Bytes random_values(OutputType type, std::size_t count, std::uint64_t seed) {
  Bytes bytes = random_bytes(count * size_bytes_of(type), seed);
  if (type == OutputType::uint8) return bytes;
  for (std::size_t i = size_bytes_of(type) - 1; i < bytes.size(); i += size_bytes_of(type)) {
    bytes[i] &= std::byte{0xBF};  // the top bit of the exponent
  }
  return bytes;
}

TEST(Mix, AllLevelsAgree) {
  const std::vector<float> weights = {0, 1, 0.3F, 0.777F, 0.5F};
  for (const OutputType type : kTypes) {
    for (const std::size_t size : {1U, 7U, 8U, 31U, 160U, 1003U}) {
      const Bytes values = random_values(type, weights.size() * size, size);
      Bytes expected;
      for (const SimdLevel level : available_levels()) {
        const LevelGuard guard(level);
        const Bytes out = mixed(type, values, weights);
        if (level == SimdLevel::scalar) expected = out;
        ASSERT_EQ(out, expected) << simd_level_name(level) << " " << size;
      }
    }
  }
}

TEST(Mix, BytesAreCut) {
  const std::vector<float> weights = {0.25F, 0.9F, 0.61F};
  const Bytes values = random_bytes(3 * 50, 1);
  const Bytes out = mixed(OutputType::uint8, values, weights);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t before = (i + 100) % 150;
    const float weight = weights[i / 50];
    const float own = weight * static_cast<float>(values[i]);
    const float other = (1 - weight) * static_cast<float>(values[before]);
    ASSERT_EQ(static_cast<int>(out[i]), static_cast<int>(own + other));
  }
}

TEST(Mix, EndsOfTheRange) {
  for (const OutputType type : kTypes) {
    const Bytes values = random_values(type, 40, 3);
    const std::size_t half = values.size() / 2;
    Bytes swapped(values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
    swapped.insert(swapped.end(), values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(half));
    EXPECT_EQ(mixed(type, values, {1, 1}), values);
    EXPECT_EQ(mixed(type, values, {0, 0}), swapped);
    EXPECT_EQ(mixed(type, values, {1}), values);  // one sample is its own neighbour
  }
  EXPECT_EQ(mixed(OutputType::uint8, Bytes(64, std::byte{255}), {0.3F, 0.1F}),
            Bytes(64, std::byte{255}));
  EXPECT_TRUE(mixed(OutputType::float32, {}, {}).empty());
  EXPECT_TRUE(mixed(OutputType::float32, {}, {0.5F}).empty());
}

TEST(Mix, WrongArgumentsAreErrors) {
  Bytes values(64);
  Bytes out(64);
  const std::vector<float> weights = {0.5F, 0.5F};
  const auto run = [&](ByteSpan from, MutableByteSpan to, const std::vector<float>& w) {
    return mix(OutputType::float32, from, w, to);
  };
  expect_ok(run(values, out, weights));
  const std::span to(out);
  const std::span from(values);
  expect_code(run(from, to.first(60), weights), Code::invalid_argument);
  expect_code(run(from, to, {}), Code::invalid_argument);
  expect_code(run(from, to, {0.5F, 0.5F, 0.5F}), Code::invalid_argument);
  expect_code(run(from.subspan(1, 16), to.first(16), weights), Code::invalid_argument);
  expect_code(run(from.first(16), to.subspan(2, 16), weights), Code::invalid_argument);
  expect_code(run(from.first(32), from.subspan(16, 32), weights), Code::invalid_argument);
  for (const float wrong : {-0.1F, 1.1F, std::numeric_limits<float>::quiet_NaN()}) {
    expect_code(run(from, to, {0.5F, wrong}), Code::invalid_argument);
  }
}

}  // namespace
}  // namespace headrace
