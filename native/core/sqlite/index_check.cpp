#include "headrace/sqlite/index_check.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <new>
#include <string>

#include "core/sqlite/tree_search.hpp"

namespace headrace {
namespace {

using sqlite::Page;
using sqlite::Payload;
using sqlite::Values;

__extension__ using Wide = unsigned __int128;

// What an entry says, in a number; order of the calls counts.
class Digest {
 public:
  void add(std::uint64_t number) noexcept {
    const Wide product = static_cast<Wide>(state_ ^ number) * 0x9e3779b97f4a7c15U;
    state_ = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U) ^
             0xd1b54a32d192ed03U;
  }
  void add(std::int64_t number) noexcept { add(static_cast<std::uint64_t>(number)); }
  void add(std::string_view text) noexcept {
    add(std::uint64_t{text.size()});
    while (!text.empty()) {
      std::uint64_t word = 0;
      const std::size_t size = std::min(text.size(), sizeof word);
      std::copy_n(text.data(), size, reinterpret_cast<char*>(&word));
      add(word);
      text.remove_prefix(size);
    }
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0x8ebc6af09c88c6e3U;
};

// Of many entries, in any order.
struct Total {
  std::uint64_t count = 0;
  std::uint64_t sum = 0;

  void add(const Digest& digest) noexcept {
    ++count;
    sum += digest.value();
  }
  friend bool operator==(const Total&, const Total&) = default;
};

constexpr std::size_t kKeys = 3;
using Totals = std::array<Total, kKeys>;

std::string_view parent_of(std::string_view path) noexcept {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return {};
  path = path.substr(0, slash);
  const std::size_t last = path.find_last_not_of('/');
  return last == std::string_view::npos ? std::string_view() : path.substr(0, last + 1);
}

bool add_row(const FileRow& row, Totals& totals) noexcept {
  const auto& shard = row.at(FileColumn::shard);
  const auto& offset = row.at(FileColumn::offset);
  if (!shard || !offset) return false;
  Digest path;
  path.add(row.path);
  path.add(row.number);
  Digest parent;
  parent.add(parent_of(row.path));
  parent.add(row.number);
  Digest address;
  address.add(*shard);
  address.add(*offset);
  address.add(row.number);
  totals[static_cast<std::size_t>(IndexKey::path)].add(path);
  totals[static_cast<std::size_t>(IndexKey::parent)].add(parent);
  totals[static_cast<std::size_t>(IndexKey::address)].add(address);
  return true;
}

// An entry of an index: text or two numbers, and the row. Texts are copied: pages that follow use
// the same memory for them.
struct Entry {
  std::string text;
  std::int64_t shard = 0;
  std::int64_t offset = 0;
  std::int64_t row = 0;

  [[nodiscard]] bool read(IndexKey key, ByteSpan bytes) {
    Values values;
    if (!values.open(bytes) || !values.next()) return false;
    if (key == IndexKey::address) {
      if (!values.is_integer()) return false;
      shard = values.integer();
      if (!values.next() || !values.is_integer()) return false;
      offset = values.integer();
    } else {
      if (!values.is_text()) return false;
      text.assign(values.text());
    }
    if (!values.next() || !values.is_integer()) return false;
    row = values.integer();
    return true;
  }

  [[nodiscard]] bool is_before(const Entry& next, IndexKey key) const noexcept {
    if (key == IndexKey::path) return text < next.text;  // the same one twice is wrong
    const auto order = key == IndexKey::parent
                           ? text <=> next.text
                           : std::pair(shard, offset) <=> std::pair(next.shard, next.offset);
    return order < 0 || (order == 0 && row < next.row);
  }

  [[nodiscard]] Digest digest(IndexKey key) const noexcept {
    Digest digest;
    if (key == IndexKey::address) {
      digest.add(shard);
      digest.add(offset);
    } else {
      digest.add(std::string_view(text));
    }
    digest.add(row);
    return digest;
  }
};

// Goes through an index in order: a child, an entry, a child, an entry and so on.
class IndexWalk {
 public:
  IndexWalk(const sqlite::File& file, const FileIndex& index) noexcept
      : file_(file), index_(index), pages_left_(file.page_count()) {}

  // Nothing when the index is damaged or not in order.
  [[nodiscard]] std::optional<Total> total() {
    return page(index_.root, 0) ? std::optional(total_) : std::nullopt;
  }

 private:
  [[nodiscard]] bool page(std::uint32_t number, std::size_t depth) {
    Page page{};
    if (depth == kMaxTreeDepth || pages_left_ == 0 || !file_.page(number, page)) return false;
    --pages_left_;  // a tree has every page once: one that comes back would never end
    const bool has_children = page.kind == sqlite::kIndexInner;
    if (!has_children && page.kind != sqlite::kIndexLeaf) return false;
    for (std::size_t i = 0; i < page.count; ++i) {
      if (has_children && !this->page(sqlite::child_before(page, i), depth + 1)) return false;
      if (!entry(page, File::entry(page, i))) return false;
    }
    return !has_children || this->page(sqlite::last_child(page), depth + 1);
  }

  [[nodiscard]] bool entry(const Page& page, ByteSpan bytes) {
    const std::size_t skipped = sqlite::is_inner(page) ? 4 : 0;
    if (bytes.size() < skipped) return false;
    bytes = bytes.subspan(skipped);
    std::uint64_t size = 0;
    Payload payload{};
    ByteSpan row;
    if (!sqlite::take_varint(bytes, size) || !file_.payload(page, bytes, size, payload) ||
        !file_.join(payload, scratch_, row) || !entry_.read(index_.key, row)) {
      return false;
    }
    if (total_.count > 0 && !last_.is_before(entry_, index_.key)) return false;
    total_.add(entry_.digest(index_.key));
    std::swap(last_, entry_);
    return true;
  }

  using File = sqlite::File;

  const File& file_;
  FileIndex index_;
  std::uint32_t pages_left_;
  std::vector<std::byte> scratch_;
  Entry last_;
  Entry entry_;
  Total total_;
};

}  // namespace

bool indexes_agree(const FileTable& table, std::span<const FileIndex> indexes) noexcept {
  Totals totals;
  FileTable::Rows rows(table);
  FileRow row;
  for (;;) {
    const auto more = rows.next(row);
    if (!more.is_ok()) return false;
    if (!more.value()) break;
    if (!add_row(row, totals)) return false;
  }
  try {
    return std::ranges::all_of(indexes, [&](const FileIndex& index) {
      return IndexWalk(table.file(), index).total() == totals[static_cast<std::size_t>(index.key)];
    });
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace headrace
