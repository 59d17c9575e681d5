#include "headrace/formats/path_index.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace headrace {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kFirst = 0x9e3779b97f4a7c15U;
constexpr std::uint64_t kSecond = 0xd1b54a32d192ed03U;
constexpr std::size_t kAhead = 8;

std::uint64_t fold(std::uint64_t a, std::uint64_t b) noexcept {
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

std::uint64_t load_tail(const char* data, std::size_t size) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, data, size);
  return word;
}

// Four fifths of the places at most are taken.
std::size_t slots_for(std::size_t files) noexcept { return files + files / 4 + 8; }

FilePlace place_of(std::uint32_t shard, std::int64_t offset, std::int64_t size,
                   std::uint32_t crc32c, bool has_checksum) noexcept {
  return {static_cast<std::int64_t>(shard), offset, size,
          has_checksum ? static_cast<std::int64_t>(crc32c) : kNoChecksum};
}

}  // namespace

PathIndex::PathIndex(std::size_t capacity, std::uint64_t key) noexcept
    : key_(key), wanted_(capacity) {}

PathIndex::Hash PathIndex::hash(std::string_view path) const noexcept {
  std::uint64_t low = key_ ^ kFirst;
  std::uint64_t high = fold(key_ ^ kSecond, path.size() + kFirst);
  const char* data = path.data();
  std::size_t left = path.size();
  for (; left >= 8; data += 8, left -= 8) {
    const std::uint64_t word = load_tail(data, 8);
    low = fold(low ^ word, kSecond ^ key_);
    high = fold(high + word, kFirst ^ (key_ << 1U | 1U)) ^ word;
  }
  const std::uint64_t word = load_tail(data, left);
  low = fold(low ^ word, kFirst + path.size());
  high = fold(high + word, kSecond + key_) ^ word;
  return {fold(low ^ kSecond, high ^ kFirst), fold(high ^ key_, kSecond) ^ low};
}

std::size_t PathIndex::first_slot(const Hash& hash) const noexcept {
  return static_cast<std::size_t>((static_cast<Wide>(hash.low) * slots_.size()) >> 64U);
}

const PathIndex::Slot* PathIndex::lookup(const Hash& hash) const noexcept {
  if (slots_.empty()) return nullptr;
  for (std::size_t i = first_slot(hash);; i = i + 1 == slots_.size() ? 0 : i + 1) {
    const Slot& slot = slots_[i];
    if (slot.shard == kFree) return nullptr;
    if (slot.low == hash.low && slot.high == hash.high) return &slot;
  }
}

Status PathIndex::grow() noexcept {
  const std::size_t count = slots_for(std::max(wanted_, size_ * 2));
  std::vector<Slot> old;
  try {
    old.resize(count, Slot{0, 0, 0, 0, 0, kFree});
  } catch (const std::bad_alloc&) {
    return {Code::out_of_memory, Detail("no memory for ") << count << " places of a path index"};
  }
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.shard != kFree) insert(slot);
  }
  return {};
}

void PathIndex::insert(const Slot& slot) noexcept {
  std::size_t i = first_slot({slot.low, slot.high});
  while (slots_[i].shard != kFree) i = i + 1 == slots_.size() ? 0 : i + 1;
  slots_[i] = slot;
}

Status PathIndex::add(std::string_view path, const FilePlace& place) noexcept {
  if (place.shard < 0 || place.shard >= static_cast<std::int64_t>(kFree)) {
    return {Code::invalid_argument, "the number of a shard must be from 0 to 2147483646"};
  }
  if (slots_for(size_ + 1) > slots_.size()) {
    if (Status status = grow(); !status.is_ok()) return status;
  }
  const Hash key = hash(path);
  const bool has_checksum = place.crc32c >= 0;
  const Slot slot{key.low,
                  key.high,
                  place.offset,
                  place.size,
                  has_checksum ? static_cast<std::uint32_t>(place.crc32c) : 0U,
                  static_cast<std::uint32_t>(place.shard) | (has_checksum ? kHasChecksum : 0U)};
  if (const Slot* found = lookup(key); found != nullptr) {
    slots_[static_cast<std::size_t>(found - slots_.data())] = slot;
    return {};
  }
  insert(slot);
  ++size_;
  return {};
}

bool PathIndex::find(std::string_view path, FilePlace& place) const noexcept {
  const Slot* slot = lookup(hash(path));
  if (slot == nullptr) return false;
  place = place_of(slot->shard & ~kHasChecksum, slot->offset, slot->size, slot->crc32c,
                   (slot->shard & kHasChecksum) != 0);
  return true;
}

void PathIndex::find_many(std::span<const std::string_view> paths,
                          std::span<FilePlace> places) const noexcept {
  Hash ahead[kAhead];
  const auto prepare = [&](std::size_t i) {
    const Hash key = hash(paths[i]);
    ahead[i % kAhead] = key;
    if (!slots_.empty()) __builtin_prefetch(&slots_[first_slot(key)]);
  };
  for (std::size_t i = 0; i < std::min(kAhead, paths.size()); ++i) prepare(i);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const Slot* slot = lookup(ahead[i % kAhead]);
    if (i + kAhead < paths.size()) prepare(i + kAhead);
    places[i] = slot == nullptr ? FilePlace{-1, 0, 0, kNoChecksum}
                                : place_of(slot->shard & ~kHasChecksum, slot->offset, slot->size,
                                           slot->crc32c, (slot->shard & kHasChecksum) != 0);
  }
}

}  // namespace headrace
