// Searches in the trees of a SQLite file, several side by side: while memory answers one, the
// others go on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/sqlite/values.hpp"
#include "headrace/sqlite/file_table.hpp"

namespace headrace::sqlite {

// The page before entry i of an inner page, 0 when there is none.
[[nodiscard]] std::uint32_t child_before(const Page& page, std::size_t i) noexcept;

// The number of row i of a page of a table; false when it is damaged.
[[nodiscard]] bool read_row_number(const Page& page, std::size_t i, std::int64_t& out) noexcept;

inline constexpr std::size_t kSearchesAtOnce = 16;

// One search on its way down.
struct Descent {
  std::uint32_t next_page = 0;  // 0 when it has ended
  Page page{};
  std::size_t low = 0;    // the place is one of these in the page
  std::size_t left = 0;   // how many entries from there on may still be before it
  bool is_found = false;  // at `low` of the page
};

// Finds the rows of paths in an index of them; rows[i] is meaningful where descents[i].is_found. At
// most kSearchesAtOnce.
void find_paths(const File& file, std::uint32_t root, std::span<const std::string_view> paths,
                std::span<std::int64_t> rows, std::span<Descent> descents,
                std::vector<std::byte>& scratch) noexcept;

// Finds rows of a table, those with a descent that is_found; afterwards this says where they are.
void find_rows(const File& file, std::uint32_t root, std::span<const std::int64_t> rows,
               std::span<Descent> descents) noexcept;

}  // namespace headrace::sqlite
