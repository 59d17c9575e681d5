// Whether the indexes of the table of files say what the table says.
#pragma once

#include <cstdint>
#include <span>

#include "headrace/sqlite/file_table.hpp"

namespace headrace {

// What an index is sorted by. The parent of a path is what comes before its last slashes.
enum class IndexKey : std::uint8_t { path, parent, address };

struct FileIndex {
  std::uint32_t root;
  IndexKey key;
};

// True when each index has one entry for each row, in ascending order, and (by a checksum of all
// entries) with what the row says; every path is there once. False also when something cannot be
// read: then SQLite has to say what is wrong.
[[nodiscard]] bool indexes_agree(const FileTable& table,
                                 std::span<const FileIndex> indexes) noexcept;

}  // namespace headrace
