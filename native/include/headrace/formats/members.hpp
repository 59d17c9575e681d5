// Files inside one file, such as a tar or a zip, and how files make up samples by their names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::size_t kMaxMemberName = 4096;
inline constexpr std::size_t kMaxEndings = 1024;
inline constexpr std::uint16_t kLeftOut = 0xffff;  // a column, of files that are in no sample

// Texts one after the other; text i ends at ends[i].
struct TextList {
  std::string text;
  std::vector<std::uint64_t> ends;

  [[nodiscard]] std::size_t size() const noexcept { return ends.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t i) const noexcept {
    const std::size_t start = i == 0 ? 0 : ends[i - 1];
    return std::string_view(text).substr(start, ends[i] - start);
  }
  void add(std::string_view one);
};

enum class NameProblem : std::uint8_t { none, empty, absolute, leads_out, has_nul, too_long };

// Writes a name without "." and empty parts. Names that lead out of a folder are a problem.
[[nodiscard]] NameProblem clean_member_name(std::string_view name, std::string& out);

[[nodiscard]] std::string_view words_of(NameProblem problem) noexcept;

// Samples as WebDataset makes them: neighbours whose paths are the same up to the first dot of the
// last part. What follows that dot, in lower case, is the column.
struct MemberGroups {
  std::vector<std::uint32_t> groups;   // of each member
  std::vector<std::uint16_t> columns;  // of each member, or kLeftOut
  TextList endings;                    // of each column
  TextList keys;                       // of each group
  std::int64_t repeated = -1;          // the first member whose group has its column already
  std::int64_t apart = -1;             // the first member whose key was that of an earlier group
};

// Left out are members without an ending, hidden ones, and those whose last part begins with "__".
// too_large where there are more than kMaxEndings different endings; the offset is the member.
[[nodiscard]] Result<MemberGroups> group_members(const TextList& names) noexcept;

}  // namespace headrace
