#include "penstock/file_table.hpp"

#include <algorithm>
#include <limits>

#include "core/sqlite_values.hpp"

namespace penstock {
namespace {

using sqlite::File;
using sqlite::Page;
using sqlite::Payload;
using sqlite::Values;

// Index of the first entry for which `is_before` does not hold; nothing when an entry is damaged.
template <typename IsBefore>
std::optional<std::size_t> lower_bound(std::size_t count, const IsBefore& is_before) noexcept {
  std::size_t low = 0;
  std::size_t high = count;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const std::optional<bool> answer = is_before(middle);
    if (!answer) return std::nullopt;
    (*answer ? low : high) = *answer ? middle + 1 : middle;
  }
  return low;
}

// The page before entry i of an inner page, 0 when there is none.
std::uint32_t child_before(const Page& page, std::size_t i) noexcept {
  if (i == page.count) return sqlite::last_child(page);
  const ByteSpan entry = File::entry(page, i);
  return entry.size() < 4 ? 0 : load_u32_be(entry.data());
}

struct PathEntry {
  std::string_view path;
  std::int64_t row;
};

// An entry of the index of paths.
bool read_path_entry(const File& file, const Page& page, std::size_t i,
                     std::vector<std::byte>& scratch, PathEntry& out) noexcept {
  ByteSpan entry = File::entry(page, i);
  if (sqlite::is_inner(page)) {
    if (entry.size() < 4) return false;
    entry = entry.subspan(4);
  }
  std::uint64_t size = 0;
  Payload payload{};
  ByteSpan row;
  Values values;
  if (!sqlite::take_varint(entry, size) || !file.payload(page, entry, size, payload) ||
      !file.join(payload, scratch, row) || !values.open(row) || !values.next() ||
      !values.is_text()) {
    return false;
  }
  out.path = values.text();
  if (!values.next() || !values.is_integer()) return false;
  out.row = values.integer();
  return true;
}

// The number of row i of a page of the table.
std::optional<std::int64_t> row_number(const Page& page, std::size_t i) noexcept {
  ByteSpan entry = File::entry(page, i);
  std::uint64_t number = 0;
  if (sqlite::is_inner(page)) {
    if (entry.size() < 4) return std::nullopt;
    entry = entry.subspan(4);
  } else if (!sqlite::take_varint(entry, number)) {  // the size comes first
    return std::nullopt;
  }
  if (!sqlite::take_varint(entry, number)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

}  // namespace

std::optional<FilePlace> place_of(const FileRow& row) noexcept {
  const auto& shard = row.at(FileColumn::shard);
  const auto& offset = row.at(FileColumn::offset);
  const auto& size = row.at(FileColumn::size);
  const auto& crc32c = row.at(FileColumn::crc32c);
  if (!shard || !offset || !size || *shard < 0 ||
      *shard >= std::numeric_limits<std::int32_t>::max()) {
    return std::nullopt;
  }
  if (crc32c && (*crc32c < 0 || *crc32c > std::numeric_limits<std::uint32_t>::max())) {
    return std::nullopt;
  }
  return FilePlace{*shard, *offset, *size, crc32c ? *crc32c : kNoChecksum};
}

Result<FileTable> FileTable::open(ByteSpan file, const FileTableLayout& layout) noexcept {
  auto pages = File::open(file);
  if (!pages.is_ok()) return pages.status();
  FileTable table(pages.value(), layout);
  for (std::size_t i = 0; i < kFileColumns; ++i) {
    const std::size_t at = layout.columns[i];
    if (at >= kMaxColumns || table.meanings_[at] != kUnused) {
      return Status(Code::invalid_argument, Detail("column ") << i << " cannot be at place " << at);
    }
    table.meanings_[at] = static_cast<std::uint8_t>(i);
    table.column_count_ = std::max(table.column_count_, at + 1);
  }
  return table;
}

FileTable::FileTable(const File& file, const FileTableLayout& layout) noexcept
    : file_(file), layout_(layout) {
  meanings_.fill(kUnused);
}

std::optional<std::int64_t> FileTable::find_row_number(std::string_view path) const noexcept {
  std::vector<std::byte> scratch;
  std::uint32_t number = layout_.path_index_root;
  for (std::size_t depth = 0; depth < kMaxTreeDepth; ++depth) {
    Page page{};
    if (!file_.page(number, page)) return std::nullopt;
    if (page.kind != sqlite::kIndexInner && page.kind != sqlite::kIndexLeaf) return std::nullopt;
    std::optional<std::int64_t> found;
    const auto is_before = [&](std::size_t i) -> std::optional<bool> {
      PathEntry entry{};
      if (!read_path_entry(file_, page, i, scratch, entry)) return std::nullopt;
      const int order = entry.path.compare(path);
      if (order == 0) found = entry.row;
      return order < 0;
    };
    const auto at = lower_bound(page.count, is_before);
    if (found) return found;
    if (!at) return std::nullopt;
    if (page.kind == sqlite::kIndexLeaf) return std::nullopt;
    number = child_before(page, *at);
  }
  return std::nullopt;
}

bool FileTable::find_row(std::int64_t wanted, FileRow& row,
                         std::vector<std::byte>& scratch) const noexcept {
  std::uint32_t number = layout_.table_root;
  for (std::size_t depth = 0; depth < kMaxTreeDepth; ++depth) {
    Page page{};
    if (!file_.page(number, page)) return false;
    if (page.kind != sqlite::kTableInner && page.kind != sqlite::kTableLeaf) return false;
    const auto is_before = [&](std::size_t i) -> std::optional<bool> {
      const auto found = row_number(page, i);
      return found ? std::optional(*found < wanted) : std::nullopt;
    };
    const auto at = lower_bound(page.count, is_before);
    if (!at) return false;
    if (page.kind == sqlite::kTableLeaf) {
      return *at < page.count && row_number(page, *at) == wanted &&
             read_row(page, *at, row, scratch);
    }
    number = child_before(page, *at);
  }
  return false;
}

bool FileTable::read_row(const Page& page, std::size_t i, FileRow& row,
                         std::vector<std::byte>& scratch) const noexcept {
  ByteSpan entry = File::entry(page, i);
  std::uint64_t size = 0;
  std::uint64_t number = 0;
  Payload payload{};
  ByteSpan bytes;
  Values values;
  if (!sqlite::take_varint(entry, size) || !sqlite::take_varint(entry, number) ||
      !file_.payload(page, entry, size, payload) || !file_.join(payload, scratch, bytes) ||
      !values.open(bytes)) {
    return false;
  }
  for (std::size_t column = 0; column < column_count_; ++column) {
    if (!values.next()) return false;
    const std::uint8_t meaning = meanings_[column];
    if (meaning == kUnused) continue;
    if (meaning == static_cast<std::uint8_t>(FileColumn::path)) {
      if (!values.is_text()) return false;
      row.path = values.text();
    } else if (values.is_integer()) {
      row.numbers[meaning] = values.integer();
    } else if (values.is_null()) {
      row.numbers[meaning] = std::nullopt;
    } else {
      return false;
    }
  }
  return true;
}

bool FileTable::find(std::string_view path, FilePlace& place) const noexcept {
  const auto number = find_row_number(path);
  if (!number) return false;
  FileRow row;
  std::vector<std::byte> scratch;
  if (!find_row(*number, row, scratch) || row.path != path) return false;
  const auto found = place_of(row);
  if (!found) return false;
  place = *found;
  return true;
}

void FileTable::find_many(std::span<const std::string_view> paths,
                          std::span<FilePlace> places) const noexcept {
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (!find(paths[i], places[i])) places[i] = {-1, 0, 0, kNoChecksum};
  }
}

FileTable::Rows::Rows(const FileTable& table) noexcept
    : table_(&table), pages_left_(table.file_.page_count()) {
  is_failed_ = !enter(table.layout_.table_root);
}

// A tree has every page once: one that comes back would never end.
bool FileTable::Rows::enter(std::uint32_t number) noexcept {
  if (depth_ == kMaxTreeDepth || pages_left_ == 0) return false;
  --pages_left_;
  Step& step = steps_[depth_];
  if (!table_->file_.page(number, step.page)) return false;
  if (step.page.kind != sqlite::kTableInner && step.page.kind != sqlite::kTableLeaf) return false;
  step.next = 0;
  ++depth_;
  return true;
}

Result<bool> FileTable::Rows::next(FileRow& row) noexcept {
  while (!is_failed_ && depth_ > 0) {
    Step& step = steps_[depth_ - 1];
    if (step.page.kind == sqlite::kTableLeaf) {
      if (step.next < step.page.count) {
        is_failed_ = !table_->read_row(step.page, step.next++, row, scratch_);
        if (!is_failed_) return true;
        break;
      }
      --depth_;
    } else if (step.next <= step.page.count) {
      is_failed_ = !enter(child_before(step.page, step.next++));
    } else {
      --depth_;
    }
  }
  if (is_failed_) return Status(Code::corrupt, "the table of files cannot be read to its end");
  return false;
}

}  // namespace penstock
