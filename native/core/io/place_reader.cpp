#include "headrace/io/place_reader.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "headrace/checksum.hpp"

namespace headrace {
namespace {

bool is_before(const FilePlace& a, const FilePlace& b) noexcept {
  return a.shard != b.shard ? a.shard < b.shard : a.offset < b.offset;
}

}  // namespace

Status PlaceReader::check(std::span<const FilePlace> places) const noexcept {
  for (std::size_t i = 0; i < places.size(); ++i) {
    const FilePlace& place = places[i];
    if (place.size == 0) continue;
    const bool is_there = place.shard >= 0 &&
                          static_cast<std::uint64_t>(place.shard) < shards_.size() &&
                          shards_[static_cast<std::size_t>(place.shard)].data() != nullptr;
    if (!is_there || place.offset < 0 || place.size < 0 ||
        !is_inside(static_cast<std::uint64_t>(place.offset), static_cast<std::uint64_t>(place.size),
                   shards_[static_cast<std::size_t>(place.shard)].size())) {
      return Status(Code::out_of_bounds, Detail("file ") << i << " is not inside a mapped shard",
                    static_cast<std::int64_t>(i));
    }
  }
  return {};
}

Status PlaceReader::copy(std::span<const FilePlace> places,
                         std::span<std::byte* const> destinations, bool is_checked,
                         std::vector<std::int64_t>& used) const noexcept {
  if (destinations.size() != places.size()) {
    return Status(Code::invalid_argument, "as many destinations as places are needed");
  }
  if (Status status = check(places); !status.is_ok()) return status;
  std::vector<std::uint32_t> order;
  try {
    order.reserve(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i].size != 0) order.push_back(static_cast<std::uint32_t>(i));
    }
    std::ranges::sort(
        order, [&](std::uint32_t a, std::uint32_t b) { return is_before(places[a], places[b]); });
    for (const std::uint32_t i : order) {
      if (used.empty() || used.back() != places[i].shard) used.push_back(places[i].shard);
    }
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, Detail("no memory for ") << places.size() << " places");
  }
  std::size_t bad = places.size();
  std::uint32_t found = 0;
  for (const std::uint32_t i : order) {
    const FilePlace& place = places[i];
    const ByteSpan source = shards_[static_cast<std::size_t>(place.shard)].subspan(
        static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.size));
    if (!is_checked || place.crc32c == kNoChecksum) {
      std::memcpy(destinations[i], source.data(), source.size());
      continue;
    }
    const std::uint32_t sum = copy_with_checksum(ChecksumKind::crc32c, source, destinations[i]);
    if (sum != place.crc32c && i < bad) {
      bad = i;
      found = sum;
    }
  }
  if (bad == places.size()) return {};
  return wrong_checksum(static_cast<std::uint32_t>(places[bad].crc32c), found,
                        static_cast<std::int64_t>(bad));
}

}  // namespace headrace
