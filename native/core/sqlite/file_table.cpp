#include "headrace/sqlite/file_table.hpp"

#include <algorithm>
#include <limits>

#include "core/sqlite/tree_search.hpp"

namespace headrace {
namespace {

using sqlite::File;
using sqlite::Page;
using sqlite::Payload;
using sqlite::Values;

// Names with an empty part, with . or .. as a part, or with a NUL are left to SQLite and to who
// asks it: no file can have them, and following them may lead anywhere.
bool is_usual_name(std::string_view name) noexcept {
  if (name.find('\0') != std::string_view::npos) return false;
  for (;;) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
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
  row.number = static_cast<std::int64_t>(number);
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
  std::vector<std::byte> scratch;
  sqlite::Descent descent;
  find_together(std::span(&path, 1), std::span(&place, 1), std::span(&descent, 1), scratch);
  return place.shard >= 0;
}

void FileTable::find_many(std::span<const std::string_view> paths,
                          std::span<FilePlace> places) const noexcept {
  std::vector<std::byte> scratch;
  std::array<sqlite::Descent, sqlite::kSearchesAtOnce> descents;
  for (std::size_t done = 0; done < paths.size(); done += descents.size()) {
    const std::size_t count = std::min(descents.size(), paths.size() - done);
    find_together(paths.subspan(done, count), places.subspan(done, count),
                  std::span(descents).first(count), scratch);
  }
}

void FileTable::find_together(std::span<const std::string_view> paths, std::span<FilePlace> places,
                              std::span<sqlite::Descent> descents,
                              std::vector<std::byte>& scratch) const noexcept {
  std::array<std::int64_t, sqlite::kSearchesAtOnce> memory;
  const std::span<std::int64_t> rows = std::span(memory).first(paths.size());
  sqlite::find_paths(file_, layout_.path_index_root, paths, rows, descents, scratch);
  sqlite::find_rows(file_, layout_.table_root, rows, descents);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    FileRow row;
    std::optional<FilePlace> found;
    if (descents[i].is_found && read_row(descents[i].page, descents[i].low, row, scratch) &&
        row.path == paths[i]) {
      found = place_of(row);
    }
    places[i] = found.value_or(FilePlace{-1, 0, 0, kNoChecksum});
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
        is_failed_ =
            !table_->read_row(step.page, step.next++, row, scratch_) || !is_usual_name(row.path);
        if (!is_failed_) return true;
        break;
      }
      --depth_;
    } else if (step.next <= step.page.count) {
      is_failed_ = !enter(sqlite::child_before(step.page, step.next++));
    } else {
      --depth_;
    }
  }
  if (is_failed_) return Status(Code::corrupt, "the table of files cannot be read to its end");
  return false;
}

}  // namespace headrace
