// Whether the pages of a SQLite file fit together.
#pragma once

#include <cstdint>
#include <span>

#include "headrace/sqlite/file_table.hpp"

namespace headrace {

// True when every page belongs to exactly one of the trees that begin at these pages, to one of
// their long entries, or to the list of free pages; when the entries of a page do not overlap and
// what is free in it is known to it; and when rows are in order. False also for what this does not
// know, such as a file that vacuums itself: then SQLite has to look. What is in the entries is not
// looked at beyond their sizes.
[[nodiscard]] bool pages_are_sound(const sqlite::File& file,
                                   std::span<const std::uint32_t> roots) noexcept;

}  // namespace headrace
