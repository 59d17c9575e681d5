#include "headrace/counter_random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace headrace {
namespace {

__extension__ typedef unsigned __int128 Product;  // of two numbers of 64 bits

constexpr std::size_t kRounds = 5;
constexpr std::size_t kAtOnce = 8;
constexpr std::uint64_t kMostNumbers = std::uint64_t{1} << 63;

// The remainder by a number that stays the same, without a division.
class Modulus {
 public:
  explicit Modulus(std::uint64_t value) noexcept : value_(value), inverse_(UINT64_MAX / value) {}

  struct Parts {
    std::uint64_t quotient;
    std::uint64_t remainder;
  };

  [[nodiscard]] Parts divide(std::uint64_t number) const noexcept {
    // The inverse is cut, so the quotient may be too small, by one at most.
    const Product product = static_cast<Product>(number) * inverse_;
    auto quotient = static_cast<std::uint64_t>(product >> 64);
    std::uint64_t remainder = number - quotient * value_;
    if (remainder >= value_) {
      remainder -= value_;
      ++quotient;
    }
    return {quotient, remainder};
  }

  // Of a number below the modulus and any other one.
  [[nodiscard]] std::uint64_t add(std::uint64_t small, std::uint64_t number) const noexcept {
    const std::uint64_t sum = small + divide(number).remainder;
    return sum >= value_ ? sum - value_ : sum;
  }

 private:
  std::uint64_t value_;
  std::uint64_t inverse_;
};

// Largest number whose square is not above the other.
std::uint64_t square_root(std::uint64_t number) noexcept {
  auto root = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(number)));
  while (root * root > number) --root;
  while ((root + 1) * (root + 1) <= number) ++root;
  return root;
}

// A Feistel network over the pairs (high, low) that numbers are written as.
class Network {
 public:
  // For 2 to kMostNumbers numbers.
  Network(std::uint64_t n, std::span<const std::uint64_t> key) noexcept
      : Network(n, square_root(n - 1) + 1, hash_words(key)) {}

  [[nodiscard]] std::uint64_t send(std::uint64_t number) const noexcept {
    send_all<1>(&number);
    return number;
  }

  // Several side by side: the steps of one number wait for each other, those of others do not.
  template <std::size_t kCount>
  void send_all(std::uint64_t* numbers) const noexcept {
    std::array<std::uint64_t, kCount> high;
    std::array<std::uint64_t, kCount> low;
    for (std::size_t j = 0; j < kCount; ++j) {
      const auto [quotient, remainder] = low_.divide(numbers[j]);
      high[j] = quotient;
      low[j] = remainder;
    }
    for (std::size_t i = 0; i < 2 * kRounds; i += 2) {
      for (std::size_t j = 0; j < kCount; ++j) {
        high[j] = high_.add(high[j], hash_word(keys_[i], low[j]));
      }
      for (std::size_t j = 0; j < kCount; ++j) {
        low[j] = low_.add(low[j], hash_word(keys_[i + 1], high[j]));
      }
    }
    for (std::size_t j = 0; j < kCount; ++j) numbers[j] = high[j] * low_count_ + low[j];
  }

 private:
  Network(std::uint64_t n, std::uint64_t high_count, std::uint64_t key) noexcept
      : low_count_((n + high_count - 1) / high_count), high_(high_count), low_(low_count_) {
    for (std::size_t i = 0; i < keys_.size(); ++i) keys_[i] = hash_word(key, i);
  }

  std::uint64_t low_count_;
  Modulus high_;
  Modulus low_;
  std::array<std::uint64_t, 2 * kRounds> keys_;
};

}  // namespace

std::uint64_t hash_words(std::span<const std::uint64_t> words) noexcept {
  std::uint64_t state = 0;
  for (const std::uint64_t word : words) state = hash_word(state, word);
  return state;
}

Status draw_uniforms(std::span<const std::uint64_t> words, std::span<const std::int64_t> samples,
                     std::uint64_t first_draw, std::span<double> out) noexcept {
  const std::size_t n = samples.size();
  if (n == 0 ? !out.empty() : out.size() % n != 0) {
    return Status(Code::invalid_argument, Detail() << out.size() << " numbers are not rows of " << n
                                                   << ", one for each sample");
  }
  const std::uint64_t prefix = hash_words(words);
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t named = hash_word(prefix, static_cast<std::uint64_t>(samples[i]));
    std::uint64_t draw = first_draw;
    for (std::size_t at = i; at < out.size(); at += n) {
      out[at] = uniform_of(named, draw++);
    }
  }
  return {};
}

Status permute(std::span<const std::int64_t> positions, std::uint64_t n,
               std::span<const std::uint64_t> key, std::span<std::int64_t> out) noexcept {
  if (positions.size() != out.size() || n > kMostNumbers) {
    return Status(Code::invalid_argument,
                  "a permutation has room for all results, and is of at "
                  "most 2**63 numbers");
  }
  for (const std::int64_t position : positions) {
    if (position < 0 || static_cast<std::uint64_t>(position) >= n) {
      return Status(Code::invalid_argument, Detail("a position is not below the ")
                                                << n << " that are permuted");
    }
  }
  if (n < 2) {
    std::copy(positions.begin(), positions.end(), out.begin());
    return {};
  }
  const Network network(n, key);
  std::array<std::uint64_t, kAtOnce> numbers{};
  for (std::size_t begin = 0; begin < out.size(); begin += kAtOnce) {
    const std::size_t count = std::min(kAtOnce, out.size() - begin);
    for (std::size_t j = 0; j < count; ++j) {
      numbers[j] = static_cast<std::uint64_t>(positions[begin + j]);
    }
    network.send_all<kAtOnce>(numbers.data());
    for (std::size_t j = 0; j < count; ++j) {
      std::uint64_t number = numbers[j];
      while (number >= n) number = network.send(number);  // some results are beyond n, but few
      out[begin + j] = static_cast<std::int64_t>(number);
    }
  }
  return {};
}

}  // namespace headrace
