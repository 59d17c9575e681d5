// Where the files of an archive are, by path: an open hash table without the paths themselves.
//
// A path is known by 128 bits of a keyed hash, so an entry has 40 bytes and a file about 50 with
// the free places. Two paths of one archive share all bits with a chance of about n^2 / 2^129; who
// does not know the key cannot make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::int64_t kNoChecksum = -1;

// Shard, offset and size as the index has them, not checked; crc32c is kNoChecksum if not known.
struct FilePlace {
  std::int64_t shard;
  std::int64_t offset;
  std::int64_t size;
  std::int64_t crc32c;
};

// Filled by one thread; after that any number may look up.
class PathIndex {
 public:
  static constexpr std::size_t kLongLookups = 1024;  // so many take long

  // Room for `capacity` files. Out of memory is a failure of the first add.
  PathIndex(std::size_t capacity, std::uint64_t key) noexcept;

  // Adds a file; a path that is there already is replaced. Shards are below 2^31.
  [[nodiscard]] Status add(std::string_view path, const FilePlace& place) noexcept;

  [[nodiscard]] bool find(std::string_view path, FilePlace& place) const noexcept;

  // Fills places[i] for paths[i]; shard is -1 where there is no such file.
  void find_many(std::span<const std::string_view> paths,
                 std::span<FilePlace> places) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept { return slots_.size() * sizeof(Slot); }

 private:
  struct Hash {
    std::uint64_t low;
    std::uint64_t high;
  };
  struct Slot {
    std::uint64_t low;
    std::uint64_t high;
    std::int64_t offset;
    std::int64_t size;
    std::uint32_t crc32c;
    std::uint32_t shard;  // kFree, or the number with kHasChecksum
  };
  static constexpr std::uint32_t kHasChecksum = 0x80000000U;
  static constexpr std::uint32_t kFree = 0x7fffffffU;

  [[nodiscard]] Hash hash(std::string_view path) const noexcept;
  [[nodiscard]] std::size_t first_slot(const Hash& hash) const noexcept;
  [[nodiscard]] const Slot* lookup(const Hash& hash) const noexcept;
  [[nodiscard]] Status grow() noexcept;
  void insert(const Slot& slot) noexcept;

  std::uint64_t key_;
  std::size_t wanted_;
  std::size_t size_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace headrace
