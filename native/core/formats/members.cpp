#include "headrace/formats/members.hpp"

#include <algorithm>
#include <new>
#include <unordered_map>
#include <unordered_set>

namespace headrace {
namespace member_names {
namespace {

constexpr std::string_view kMacFolder = "__MACOSX";

struct Parts {
  std::string_view key;
  std::string_view ending;
};

bool is_hidden(std::string_view name) noexcept {
  if (name.front() == '.' || name.find("/.") != std::string_view::npos) return true;
  const std::size_t slash = name.rfind('/');
  const std::string_view last = slash == std::string_view::npos ? name : name.substr(slash + 1);
  return last.starts_with("__") || name.substr(0, name.find('/')) == kMacFolder;
}

// An empty ending stands for a file that is in no sample.
Parts split(std::string_view name) noexcept {
  if (name.empty() || is_hidden(name)) return {name, {}};
  const std::size_t slash = name.rfind('/');
  const std::size_t dot = name.find('.', slash == std::string_view::npos ? 0 : slash + 1);
  if (dot == std::string_view::npos) return {name, {}};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

class Grouping {
 public:
  explicit Grouping(const TextList& names) : names_(names) {
    found_.groups.reserve(names.size());
    found_.columns.reserve(names.size());
    keys_.reserve(names.size());
  }

  Status add(std::size_t member) {
    const Parts parts = split(names_[member]);
    if (parts.ending.empty()) {
      found_.groups.push_back(0);
      found_.columns.push_back(kLeftOut);
      return {};
    }
    const std::size_t column = column_of(parts.ending);
    if (column >= kMaxEndings) {
      return {Code::too_large, Detail("more than ") << kMaxEndings << " different endings",
              static_cast<std::int64_t>(member)};
    }
    if (found_.keys.size() == 0 || parts.key != key_) begin_group(parts.key, member);
    if (seen_.size() <= column) seen_.resize(column + 1, 0);
    if (seen_[column] == found_.keys.size() && found_.repeated < 0) {
      found_.repeated = static_cast<std::int64_t>(member);
    }
    seen_[column] = found_.keys.size();
    found_.groups.push_back(static_cast<std::uint32_t>(found_.keys.size() - 1));
    found_.columns.push_back(static_cast<std::uint16_t>(column));
    return {};
  }

  MemberGroups take() { return std::move(found_); }

 private:
  void begin_group(std::string_view key, std::size_t member) {
    key_ = key;
    if (!keys_.insert(key).second && found_.apart < 0) {
      found_.apart = static_cast<std::int64_t>(member);
    }
    found_.keys.add(key);
  }

  std::size_t column_of(std::string_view ending) {
    // Members of one sample after the other have the same endings in the same order, mostly.
    if (next_ < written_.size() && written_[next_] == ending) return columns_[take_next()];
    for (std::size_t i = 0; i < std::min<std::size_t>(written_.size(), kFew); ++i) {
      if (written_[i] == ending) {
        next_ = i;
        return columns_[take_next()];
      }
    }
    const auto [place, is_new] = numbers_.try_emplace(lower(ending), numbers_.size());
    if (is_new && place->second < kMaxEndings) found_.endings.add(place->first);
    if (written_.size() < kFew) {
      written_.push_back(ending);
      columns_.push_back(place->second);
    }
    return place->second;
  }

  std::size_t take_next() noexcept {
    const std::size_t here = next_;
    next_ = here + 1 < written_.size() ? here + 1 : 0;
    return here;
  }

  static constexpr std::size_t kFew = 16;

  const TextList& names_;
  MemberGroups found_;
  std::string_view key_;
  std::unordered_set<std::string_view> keys_;  // views of names_
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::string_view> written_;  // endings as they are written, and their columns
  std::vector<std::size_t> columns_;
  std::size_t next_ = 0;
  std::vector<std::uint64_t> seen_;  // the number of the last group that had a column
};

}  // namespace
}  // namespace member_names

void TextList::add(std::string_view one) {
  text.append(one);
  ends.push_back(text.size());
}

NameProblem clean_member_name(std::string_view name, std::string& out) {
  out.clear();
  if (name.find('\0') != std::string_view::npos) return NameProblem::has_nul;
  if (name.starts_with('/')) return NameProblem::absolute;
  if (name.size() > kMaxMemberName) return NameProblem::too_long;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t slash = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, slash - start);
    if (part == "..") return NameProblem::leads_out;
    if (!part.empty() && part != ".") {
      if (!out.empty()) out += '/';
      out += part;
    }
    start = slash + 1;
  }
  return out.empty() ? NameProblem::empty : NameProblem::none;
}

std::string_view words_of(NameProblem problem) noexcept {
  switch (problem) {
    case NameProblem::none:
      return "nothing is wrong with the name";
    case NameProblem::empty:
      return "a file has no name";
    case NameProblem::absolute:
      return "the name of a file is an absolute path; it is refused";
    case NameProblem::leads_out:
      return "the name of a file leads out of the archive ('..'); it is refused";
    case NameProblem::has_nul:
      return "the name of a file has a NUL in it";
    case NameProblem::too_long:
      return "the name of a file has more than 4096 bytes";
  }
  return "";
}

Result<MemberGroups> group_members(const TextList& names) noexcept {
  try {
    member_names::Grouping grouping(names);
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (Status status = grouping.add(i); !status.is_ok()) return status;
    }
    return grouping.take();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the names of the files");
  } catch (const std::exception&) {
    return Status(Code::too_large, "too many names of files");
  }
}

}  // namespace headrace
