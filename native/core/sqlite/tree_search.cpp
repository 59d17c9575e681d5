#include "core/sqlite/tree_search.hpp"

#include <algorithm>
#include <bit>
#include <compare>

namespace headrace::sqlite {
namespace {

constexpr std::size_t kLineSize = 64;
constexpr std::size_t kUsualEntry = 32;

void fetch(ByteSpan bytes, std::size_t size) noexcept {
  size = std::min(bytes.size(), size);
  for (std::size_t at = 0; at < size; at += kLineSize) __builtin_prefetch(bytes.data() + at);
}

struct PathEntry {
  std::string_view path;
  std::int64_t row;
};

// An entry of an index of paths; false when it is damaged.
bool read_path_entry(const File& file, const Page& page, std::size_t i,
                     std::vector<std::byte>& scratch, PathEntry& out) noexcept {
  ByteSpan entry = File::entry(page, i);
  if (is_inner(page)) {
    if (entry.size() < 4) return false;
    entry = entry.subspan(4);
  }
  std::uint64_t size = 0;
  Payload payload{};
  ByteSpan row;
  Values values;
  if (!take_varint(entry, size) || !file.payload(page, entry, size, payload) ||
      !file.join(payload, scratch, row) || !values.open(row) || !values.next() ||
      !values.is_text()) {
    return false;
  }
  out.path = values.text();
  if (!values.next() || !values.is_integer()) return false;
  out.row = values.integer();
  return true;
}

// The path of an entry whose sizes are numbers of one byte and which lies in its page as a whole:
// nearly all. Otherwise nothing.
std::string_view short_path(const File& file, const Page& page, std::size_t i) noexcept {
  constexpr std::size_t kHeader = 3;  // its own size and the types of path and row
  constexpr unsigned kFirstText = 13;
  ByteSpan entry = File::entry(page, i);
  const std::size_t skipped = is_inner(page) ? 4 : 0;
  if (entry.size() < skipped + 1 + kHeader) return {};
  entry = entry.subspan(skipped);
  const auto size = std::to_integer<std::size_t>(entry[0]);
  const auto header = std::to_integer<std::size_t>(entry[1]);
  const auto type = std::to_integer<unsigned>(entry[2]);
  const std::size_t text = (type - kFirstText) / 2;
  const bool is_usual = size < 128 && size <= file.local_limit() && size < entry.size() &&
                        header == kHeader && type > kFirstText && type < 128 && type % 2 == 1 &&
                        kHeader + text <= size;
  if (!is_usual) return {};
  return {reinterpret_cast<const char*>(entry.data()) + 1 + kHeader, text};
}

bool enter(const File& file, Descent& descent, std::uint8_t inner, std::uint8_t leaf) noexcept {
  Page& page = descent.page;
  if (!file.page(descent.next_page, page)) return false;
  if (page.kind != inner && page.kind != leaf) return false;
  descent.low = 0;
  descent.left = page.count;
  fetch(page.bytes.subspan(page.entries), 2 * std::size_t{page.count});
  return true;
}

void fetch_next(const Descent& descent) noexcept {
  if (descent.left == 0) return;
  fetch(File::entry(descent.page, descent.low + descent.left / 2), kUsualEntry);
}

// One step of a search by halves, without a branch that depends on its outcome.
template <typename IsBefore>
void narrow(Descent& descent, const IsBefore& is_before) noexcept {
  if (descent.left == 0) return;
  const std::size_t half = descent.left / 2;
  const std::size_t all = 0 - std::size_t{is_before(descent.low + half)};  // every bit, or none
  descent.low += all & (half + 1);
  descent.left = half - (all & (2 * half + 1 - descent.left));
  fetch_next(descent);
}

void go_down(const File& file, Descent& descent) noexcept {
  descent.next_page = child_before(descent.page, descent.low);
  fetch(file.page_bytes(descent.next_page), kLineSize);
}

// `Seek` knows how entries are read: order(search, place) compares an entry with what is looked
// for.
template <typename Seek>
void find_all(const File& file, std::uint8_t inner, std::uint8_t leaf, std::span<Descent> descents,
              Seek& seek) noexcept {
  std::array<std::uint8_t, kSearchesAtOnce> going{};
  std::size_t count = 0;
  for (std::size_t i = 0; i < descents.size(); ++i) {
    if (descents[i].next_page != 0) going[count++] = static_cast<std::uint8_t>(i);
  }
  for (std::size_t depth = 0; depth < kMaxTreeDepth && count > 0; ++depth) {
    std::size_t entered = 0;
    std::size_t largest = 0;
    for (const std::size_t i : std::span(going).first(count)) {
      if (!enter(file, descents[i], inner, leaf)) continue;
      largest = std::max(largest, descents[i].left);
      going[entered++] = static_cast<std::uint8_t>(i);
    }
    for (const std::size_t i : std::span(going).first(entered)) {
      seek.jump(i);
      fetch_next(descents[i]);
    }
    for (auto step = static_cast<std::size_t>(std::bit_width(largest)); step > 0; --step) {
      for (const std::size_t i : std::span(going).first(entered)) {
        narrow(descents[i], [&](std::size_t place) { return seek.is_before(i, place); });
      }
    }
    count = 0;
    for (const std::size_t i : std::span(going).first(entered)) {
      Descent& descent = descents[i];
      if (seek.is_at(i)) {
        descent.is_found = true;
      } else if (is_inner(descent.page)) {
        go_down(file, descent);
        going[count++] = static_cast<std::uint8_t>(i);
      }
    }
  }
}

// A damaged entry comes before nothing and is nothing: the search ends somewhere and finds nothing.
struct SeekPaths {
  const File& file;
  std::span<const std::string_view> paths;
  std::span<std::int64_t> rows;
  std::span<Descent> descents;
  std::vector<std::byte>& scratch;

  void jump(std::size_t) noexcept {}
  bool is_before(std::size_t i, std::size_t place) noexcept {
    const Page& page = descents[i].page;
    std::string_view path = short_path(file, page, place);
    if (path.empty()) {
      PathEntry entry{};
      if (!read_path_entry(file, page, place, scratch, entry)) return false;
      path = entry.path;
    }
    return path < paths[i];
  }
  bool is_at(std::size_t i) noexcept {
    const Descent& descent = descents[i];
    PathEntry entry{};
    if (descent.low == descent.page.count ||
        !read_path_entry(file, descent.page, descent.low, scratch, entry) ||
        entry.path != paths[i]) {
      return false;
    }
    rows[i] = entry.row;
    return true;
  }
};

struct SeekRows {
  std::span<const std::int64_t> rows;
  std::span<Descent> descents;

  // Most rows are numbered without gaps: in a leaf, the first one tells where all others are.
  void jump(std::size_t i) noexcept {
    Descent& descent = descents[i];
    std::int64_t first = 0;
    if (is_inner(descent.page) || descent.left == 0 || !read_row_number(descent.page, 0, first)) {
      return;
    }
    const auto place = static_cast<std::uint64_t>(rows[i]) - static_cast<std::uint64_t>(first);
    std::int64_t row = 0;
    if (place < descent.left && read_row_number(descent.page, place, row) && row == rows[i]) {
      descent.low = place;
      descent.left = 0;
    }
  }
  bool is_before(std::size_t i, std::size_t place) noexcept {
    std::int64_t row = 0;
    return read_row_number(descents[i].page, place, row) && row < rows[i];
  }
  bool is_at(std::size_t i) noexcept {
    const Descent& descent = descents[i];
    std::int64_t row = 0;
    return !is_inner(descent.page) && descent.low < descent.page.count &&
           read_row_number(descent.page, descent.low, row) && row == rows[i];
  }
};

}  // namespace

bool read_row_number(const Page& page, std::size_t i, std::int64_t& out) noexcept {
  ByteSpan entry = File::entry(page, i);
  std::uint64_t number = 0;
  if (is_inner(page)) {
    if (entry.size() < 4) return false;
    entry = entry.subspan(4);
  } else if (!take_varint(entry, number)) {  // the size comes first
    return false;
  }
  if (!take_varint(entry, number)) return false;
  out = static_cast<std::int64_t>(number);
  return true;
}

std::uint32_t child_before(const Page& page, std::size_t i) noexcept {
  if (i == page.count) return last_child(page);
  const ByteSpan entry = File::entry(page, i);
  return entry.size() < 4 ? 0 : load_u32_be(entry.data());
}

void find_paths(const File& file, std::uint32_t root, std::span<const std::string_view> paths,
                std::span<std::int64_t> rows, std::span<Descent> descents,
                std::vector<std::byte>& scratch) noexcept {
  for (Descent& descent : descents) {
    descent.next_page = root;
    descent.is_found = false;  // it may have been used for other paths before
  }
  SeekPaths seek{file, paths, rows, descents, scratch};
  find_all(file, kIndexInner, kIndexLeaf, descents, seek);
}

void find_rows(const File& file, std::uint32_t root, std::span<const std::int64_t> rows,
               std::span<Descent> descents) noexcept {
  for (Descent& descent : descents) {
    descent.next_page = descent.is_found ? root : 0;
    descent.is_found = false;
  }
  SeekRows seek{rows, descents};
  find_all(file, kTableInner, kTableLeaf, descents, seek);
}

}  // namespace headrace::sqlite
