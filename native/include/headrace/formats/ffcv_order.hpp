// The quasi-random order that FFCV draws, number for number, for those who go on with its seeds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "headrace/status.hpp"

namespace headrace {

// Page p has samples[page_starts[p]] to samples[page_starts[p + 1] - 1]. Shuffles the samples of
// every page in place, and fills `order`, of the size of `samples`: from `pool` open pages one is
// chosen at random for every sample; a page that is empty makes room for the next one. Both streams
// of random numbers are Mersenne twisters, seeded as numpy's RandomState(seed) is.
Status quasi_random_order_ffcv(std::span<std::int64_t> samples,
                               std::span<const std::int64_t> page_starts, std::uint32_t seed,
                               std::size_t pool, std::span<std::int64_t> order) noexcept;

}  // namespace headrace
