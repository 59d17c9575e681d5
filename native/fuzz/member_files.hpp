// What the fuzz targets of tar and zip share: what must hold for files inside a file.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/formats/members.hpp"

namespace headrace::fuzz {

// Neither absolute nor leading upwards.
inline bool is_safe(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t slash = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, slash - start);
    if (part.empty() || part == "." || part == "..") return false;
    start = slash + 1;
  }
  return true;
}

// They lie inside the data, their names stay inside a folder, and groups fit them.
inline void check_files(ByteSpan data, const TextList& names,
                        const std::vector<std::uint64_t>& offsets,
                        const std::vector<std::uint64_t>& sizes) {
  if (names.size() != offsets.size() || names.size() != sizes.size()) std::abort();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_inside(offsets[i], sizes[i], data.size()) || !is_safe(names[i])) std::abort();
  }
  auto found = group_members(names);
  if (!found.is_ok()) return;
  const MemberGroups& groups = found.value();
  if (groups.columns.size() != names.size()) std::abort();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (groups.columns[i] == kLeftOut) continue;
    if (groups.columns[i] >= groups.endings.size() || groups.groups[i] >= groups.keys.size()) {
      std::abort();
    }
  }
}

}  // namespace headrace::fuzz
