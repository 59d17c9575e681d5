// Things in one row, in proportions that hold in every beginning of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/status.hpp"

namespace headrace {

// One of the things: when its next item may come, and before when it must have come. Both are
// advanced by the sum of all shares over its own, without a division for each item.
struct Turn {
  std::uint64_t share = 0;
  std::uint64_t release = 0;    // floor(item * total / share)
  std::uint64_t remainder = 0;  // item * total % share
  std::uint64_t deadline = 0;   // ceil((item + 1) * total / share)
};

// Fills `out` with the numbers of things so that of the first n the count of each is less than one
// away from n * share / total. At each place comes the item that may come and whose time ends
// first; of several, that of the lowest number. `turns`, `waiting` and `ready` are memory to work
// in, as long as `shares`. Fails with `invalid_argument` when all shares are zero, when their sum
// is above 2^62, or when there are more than 65535.
Status interleave(std::span<const std::uint64_t> shares, std::span<Turn> turns,
                  std::span<std::uint16_t> waiting, std::span<std::uint16_t> ready,
                  std::span<std::uint16_t> out) noexcept;

// A row that is repeated without end after `period` places, in blocks, the last one filled up with
// numbers of no thing. `before` says for each thing how often it comes before each block and, last,
// in the whole row.
struct RepeatedRow {
  static constexpr std::size_t kBlock = 64;

  std::span<const std::uint16_t> places;
  std::span<const std::int64_t> before;
  std::uint64_t period = 1;
};

// What comes at each place, and how often it came before. Fails with `invalid_argument` when the
// row is not what it should be, or a place is negative.
Status locate_in_row(const RepeatedRow& row, std::span<const std::int64_t> places,
                     std::span<std::int64_t> things, std::span<std::int64_t> counts) noexcept;

// Where a thing comes for the first time (number 0), the second, and so on. Fails as above.
Status find_in_row(const RepeatedRow& row, std::uint16_t thing,
                   std::span<const std::int64_t> numbers, std::span<std::int64_t> out) noexcept;

}  // namespace headrace
