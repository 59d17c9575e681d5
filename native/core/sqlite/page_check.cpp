#include "headrace/sqlite/page_check.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <vector>

#include "core/sqlite/tree_search.hpp"

namespace headrace {
namespace {

using sqlite::File;
using sqlite::Page;
using sqlite::Payload;

constexpr std::size_t kPendingByte = std::size_t{1} << 30;  // the page around it is never used

// Numbers of which each may be taken once.
class Taken {
 public:
  explicit Taken(std::size_t count) : bits_((count + 63) / 64) {}

  // False when one of these is taken already.
  [[nodiscard]] bool take(std::size_t first, std::size_t count = 1) noexcept {
    bool is_new = true;
    while (count > 0) {
      const std::size_t shift = first % 64;
      const std::size_t here = std::min<std::size_t>(64 - shift, count);
      const std::uint64_t mask = (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1)
                                 << shift;
      std::uint64_t& word = bits_[first / 64];
      is_new = is_new && (word & mask) == 0;
      word |= mask;
      first += here;
      count -= here;
    }
    return is_new;
  }
  void clear() noexcept { std::fill(bits_.begin(), bits_.end(), 0); }

 private:
  std::vector<std::uint64_t> bits_;
};

class Check {
 public:
  explicit Check(const File& file)
      : file_(file), pages_(std::size_t{file.page_count()} + 1), bytes_(1 << 16) {}

  [[nodiscard]] bool all(std::span<const std::uint32_t> roots) {
    if (!header() || !free_pages()) return false;
    const std::size_t pending = kPendingByte / file_.page_size() + 1;
    if (pending <= file_.page_count() && !take_page(static_cast<std::uint32_t>(pending))) {
      return false;
    }
    for (const std::uint32_t root : roots) {
      leaf_depth_.reset();
      last_row_.reset();
      if (!tree(root, 0)) return false;
    }
    return taken_ == file_.page_count();
  }

 private:
  [[nodiscard]] bool header() const noexcept {
    const std::byte* first = file_.bytes().data();
    const bool is_counted = load_u32_be(first + 28) == file_.page_count() &&
                            load_u32_be(first + 24) == load_u32_be(first + 92);
    const bool vacuums_itself = load_u32_be(first + 52) != 0;
    return is_counted && !vacuums_itself &&
           file_.bytes().size() == file_.page_size() * std::size_t{file_.page_count()};
  }

  [[nodiscard]] bool take_page(std::uint32_t number) noexcept {
    if (number == 0 || number > file_.page_count() || !pages_.take(number)) return false;
    ++taken_;
    return true;
  }

  // Pages that list further free ones.
  [[nodiscard]] bool free_pages() noexcept {
    const std::byte* first = file_.bytes().data();
    const std::uint32_t expected = load_u32_be(first + 36);
    std::uint32_t count = 0;
    for (std::uint32_t number = load_u32_be(first + 32); number != 0;) {
      if (!take_page(number)) return false;
      const ByteSpan page = file_.page_bytes(number);
      const std::size_t listed = load_u32_be(page.data() + 4);
      if (listed > page.size() / 4 - 2) return false;
      for (std::size_t i = 0; i < listed; ++i) {
        if (!take_page(load_u32_be(page.data() + 8 + 4 * i))) return false;
      }
      count += 1 + static_cast<std::uint32_t>(listed);
      number = load_u32_be(page.data());
    }
    return count == expected;
  }

  // A page and all below it. Every page is taken once, so this ends.
  [[nodiscard]] bool tree(std::uint32_t number, std::size_t depth) {
    Page page{};
    if (depth == kMaxTreeDepth || !take_page(number) || !file_.page(number, page)) return false;
    const bool is_table = page.kind == sqlite::kTableInner || page.kind == sqlite::kTableLeaf;
    const bool is_inner = sqlite::is_inner(page);
    if (!is_table && page.kind != sqlite::kIndexInner && page.kind != sqlite::kIndexLeaf) {
      return false;
    }
    if (!is_inner && leaf_depth_.value_or(depth) != depth) return false;
    if (!is_inner) leaf_depth_ = depth;
    if (!space(page)) return false;
    for (std::size_t i = 0; i < page.count; ++i) {
      if (is_inner && !tree(sqlite::child_before(page, i), depth + 1)) return false;
      if (is_table && !row_follows(page, i)) return false;
    }
    return !is_inner || tree(sqlite::last_child(page), depth + 1);
  }

  // Rows ascend; the number in an inner page is at least that of the last row before it.
  [[nodiscard]] bool row_follows(const Page& page, std::size_t i) noexcept {
    std::int64_t row = 0;
    if (!sqlite::read_row_number(page, i, row)) return false;
    const bool is_same_allowed = sqlite::is_inner(page);
    if (last_row_ && (is_same_allowed ? row < *last_row_ : row <= *last_row_)) return false;
    last_row_ = row;
    return true;
  }

  // The bytes of a page: each belongs to the header, to one entry, to a free block or to nobody,
  // and the page knows of how many that is true.
  [[nodiscard]] bool space(const Page& page) {
    bytes_.clear();
    const std::byte* header = page.bytes.data() + page.header;
    const std::size_t stored = load_u16_be(header + 5);
    const std::size_t begin = stored == 0 ? 65536 : stored;
    const std::size_t list_end = page.entries + 2 * std::size_t{page.count};
    if (begin < list_end || begin > page.bytes.size()) return false;
    std::size_t used = 0;
    for (std::size_t i = 0; i < page.count; ++i) {
      const std::size_t at = load_u16_be(page.bytes.data() + page.entries + 2 * i);
      const auto size = entry_size(page, i);
      if (!size || at < begin || *size > page.bytes.size() - at || !bytes_.take(at, *size)) {
        return false;
      }
      used += *size;
    }
    std::size_t at = load_u16_be(header + 1);
    while (at != 0) {
      if (at < begin || at + 4 > page.bytes.size()) return false;
      const std::size_t next = load_u16_be(page.bytes.data() + at);
      const std::size_t size = load_u16_be(page.bytes.data() + at + 2);
      if (size < 4 || size > page.bytes.size() - at || !bytes_.take(at, size)) return false;
      if (next != 0 && next <= at) return false;
      used += size;
      at = next;
    }
    return page.bytes.size() - begin - used == std::to_integer<std::size_t>(header[7]);
  }

  // Bytes of an entry in its page; those of a long one that are elsewhere are followed.
  [[nodiscard]] std::optional<std::size_t> entry_size(const Page& page, std::size_t i) {
    const ByteSpan whole = File::entry(page, i);
    ByteSpan rest = whole;
    if (sqlite::is_inner(page)) {
      if (rest.size() < 4) return std::nullopt;
      rest = rest.subspan(4);
    }
    std::uint64_t size = 0;
    if (!sqlite::take_varint(rest, size)) return std::nullopt;
    if (page.kind == sqlite::kTableInner) return whole.size() - rest.size();  // it was the row
    std::uint64_t row = 0;
    if (page.kind == sqlite::kTableLeaf && !sqlite::take_varint(rest, row)) return std::nullopt;
    Payload payload{};
    if (!file_.payload(page, rest, size, payload) || !overflow(payload)) return std::nullopt;
    const std::size_t link = payload.local.size() == payload.size ? 0 : 4;
    constexpr std::size_t kSmallest = 4;
    return std::max(kSmallest, whole.size() - rest.size() + payload.local.size() + link);
  }

  [[nodiscard]] bool overflow(const Payload& payload) noexcept {
    std::uint64_t left = payload.size - payload.local.size();
    std::uint32_t number = payload.overflow;
    while (left > 0) {
      if (!take_page(number)) return false;
      const ByteSpan page = file_.page_bytes(number);
      left -= std::min<std::uint64_t>(left, page.size() - 4);
      number = load_u32_be(page.data());
    }
    return number == 0 || payload.local.size() == payload.size;
  }

  const File& file_;
  Taken pages_;
  Taken bytes_;
  std::uint32_t taken_ = 0;
  std::optional<std::size_t> leaf_depth_;
  std::optional<std::int64_t> last_row_;
};

}  // namespace

bool pages_are_sound(const File& file, std::span<const std::uint32_t> roots) noexcept {
  try {
    return Check(file).all(roots);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace headrace
