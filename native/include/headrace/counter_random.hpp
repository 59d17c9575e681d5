// Random numbers as a pure function of integers, number for number those of the Python module of
// this name: each is a hash of the words that name it.
#pragma once

#include <cstdint>
#include <span>

#include "headrace/status.hpp"

namespace headrace {

// The hash of one more word; it begins with 0.
[[nodiscard]] constexpr std::uint64_t hash_word(std::uint64_t state, std::uint64_t word) noexcept {
  state = (state ^ word) + 0x9E3779B97F4A7C15;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EB;
  return state ^ (state >> 31);
}

// The number in [0, 1) with 53 random bits that a draw has after the words hashed so far.
[[nodiscard]] constexpr double uniform_of(std::uint64_t state, std::uint64_t draw) noexcept {
  return static_cast<double>(hash_word(state, draw) >> 11) * 0x1p-53;
}

[[nodiscard]] std::uint64_t hash_words(std::span<const std::uint64_t> words) noexcept;

// Numbers in [0, 1) with 53 random bits, named by (words, sample, draw): one row of
// `samples.size()` for each draw from `first_draw` on, as many rows as `out` has room for.
Status draw_uniforms(std::span<const std::uint64_t> words, std::span<const std::int64_t> samples,
                     std::uint64_t first_draw, std::span<double> out) noexcept;

// Where the permutation of the numbers below n under a key sends each position. Fails with
// `invalid_argument` when a position is not below n.
Status permute(std::span<const std::int64_t> positions, std::uint64_t n,
               std::span<const std::uint64_t> key, std::span<std::int64_t> out) noexcept;

}  // namespace headrace
