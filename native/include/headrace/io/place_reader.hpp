// Whole files at places in mapped shards, copied and checked in the order in which they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/formats/path_index.hpp"
#include "headrace/status.hpp"

namespace headrace {

// Shards by number; those that are not there have no address. The bytes must stay.
class PlaceReader {
 public:
  explicit PlaceReader(std::vector<ByteSpan> shards) noexcept : shards_(std::move(shards)) {}

  // `out_of_bounds` for a place that is not inside its shard; the offset is its position. Empty
  // files are nowhere.
  [[nodiscard]] Status check(std::span<const FilePlace> places) const noexcept;

  // Copies file i to destinations[i], all of them, and adds to `used` the numbers of the shards
  // that were read. With `is_checked`, `corrupt` for the first in the order of places whose bytes
  // do not have the checksum that is known.
  [[nodiscard]] Status copy(std::span<const FilePlace> places,
                            std::span<std::byte* const> destinations, bool is_checked,
                            std::vector<std::int64_t>& used) const noexcept;

 private:
  std::vector<ByteSpan> shards_;
};

}  // namespace headrace
