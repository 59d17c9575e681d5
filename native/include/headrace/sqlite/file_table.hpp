// The table of files of an archive, read straight from the SQLite file that holds it.
//
// A look-up goes down the index of paths and then the table, in mapped memory: no system call, no
// lock, no statement, any number of threads. Only for a file that nobody writes to. Whatever is not
// as it should be, from a damaged page to text where a number belongs, is a failure or "not found",
// and SQLite is asked instead.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/formats/path_index.hpp"
#include "headrace/status.hpp"

namespace headrace {

enum class FileColumn : std::uint8_t {
  path,
  shard,
  offset,
  size,
  crc32c,
  mode,
  uid,
  gid,
  mtime_ns
};
inline constexpr std::size_t kFileColumns = 9;
inline constexpr std::size_t kMaxTreeDepth = 20;  // SQLite's own limit

// Where things are in the SQLite file; its own tables say so.
struct FileTableLayout {
  std::uint32_t table_root;
  std::uint32_t path_index_root;  // of an index on the path alone, compared byte by byte
  std::array<std::uint8_t, kFileColumns> columns;  // place of each column in a stored row
};

struct FileRow {
  std::int64_t number = 0;
  std::string_view path;  // valid until the next row is read
  std::array<std::optional<std::int64_t>, kFileColumns> numbers;

  [[nodiscard]] const std::optional<std::int64_t>& at(FileColumn column) const noexcept {
    return numbers[static_cast<std::size_t>(column)];
  }
};

namespace sqlite {

// A page of a tree: entries that are sorted, and in the inner ones the pages between them.
struct Page {
  ByteSpan bytes;  // without the part that SQLite leaves unused
  std::size_t header;
  std::size_t entries;  // where their places are listed
  std::uint8_t kind;
  std::uint16_t count;
};

// What is stored in an entry; what does not fit into the page goes on in others.
struct Payload {
  ByteSpan local;
  std::uint64_t size;
  std::uint32_t overflow;
};

// The pages of a file; every number in them is checked.
class File {
 public:
  [[nodiscard]] static Result<File> open(ByteSpan bytes) noexcept;

  [[nodiscard]] ByteSpan bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::size_t page_size() const noexcept { return page_size_; }
  [[nodiscard]] std::uint32_t page_count() const noexcept { return page_count_; }
  // Of what an entry of an index stores, at most so many bytes are in its page.
  [[nodiscard]] std::size_t local_limit() const noexcept { return (usable_ - 12) * 64 / 255 - 23; }
  // Empty when there is no such page.
  [[nodiscard]] ByteSpan page_bytes(std::uint32_t number) const noexcept;
  [[nodiscard]] bool page(std::uint32_t number, Page& out) const noexcept;
  // An entry from its first byte to the end of the page; empty when it is not in the page.
  [[nodiscard]] static ByteSpan entry(const Page& page, std::size_t i) noexcept {
    const std::size_t at = load_u16_be(page.bytes.data() + page.entries + 2 * i);
    return at < page.bytes.size() ? page.bytes.subspan(at) : ByteSpan();
  }
  [[nodiscard]] bool payload(const Page& page, ByteSpan from, std::uint64_t size,
                             Payload& out) const noexcept;
  // All of it: in place, or put together in `scratch`.
  [[nodiscard]] bool join(const Payload& payload, std::vector<std::byte>& scratch,
                          ByteSpan& out) const noexcept;

 private:
  ByteSpan bytes_;
  std::size_t page_size_ = 0;
  std::size_t usable_ = 0;
  std::uint32_t page_count_ = 0;
};

struct Descent;

}  // namespace sqlite

class FileTable {
 public:
  // The bytes must stay as long as the table does.
  [[nodiscard]] static Result<FileTable> open(ByteSpan file,
                                              const FileTableLayout& layout) noexcept;

  // False also where the place is not made of numbers that a place can have.
  [[nodiscard]] bool find(std::string_view path, FilePlace& place) const noexcept;

  // Fills places[i] for paths[i]; shard is -1 where there is no such file.
  void find_many(std::span<const std::string_view> paths,
                 std::span<FilePlace> places) const noexcept;

  [[nodiscard]] const sqlite::File& file() const noexcept { return file_; }

  // Goes through all rows as they are stored. The table must stay.
  class Rows {
   public:
    explicit Rows(const FileTable& table) noexcept;

    // False at the end. A failure is final.
    [[nodiscard]] Result<bool> next(FileRow& row) noexcept;

   private:
    struct Step {
      sqlite::Page page;
      std::size_t next;
    };

    [[nodiscard]] bool enter(std::uint32_t page) noexcept;

    const FileTable* table_;
    std::vector<std::byte> scratch_;
    std::array<Step, kMaxTreeDepth> steps_;
    std::size_t depth_ = 0;
    std::uint32_t pages_left_;
    bool is_failed_;
  };

 private:
  FileTable(const sqlite::File& file, const FileTableLayout& layout) noexcept;

  void find_together(std::span<const std::string_view> paths, std::span<FilePlace> places,
                     std::span<sqlite::Descent> descents,
                     std::vector<std::byte>& scratch) const noexcept;
  [[nodiscard]] bool read_row(const sqlite::Page& page, std::size_t i, FileRow& row,
                              std::vector<std::byte>& scratch) const noexcept;

  static constexpr std::size_t kMaxColumns = 32;
  static constexpr std::uint8_t kUnused = 0xff;

  sqlite::File file_;
  FileTableLayout layout_;
  std::array<std::uint8_t, kMaxColumns> meanings_;  // FileColumn of each stored column, or kUnused
  std::size_t column_count_ = 0;
};

// The place of a row's file; nothing where it is not made of numbers that a place can have.
[[nodiscard]] std::optional<FilePlace> place_of(const FileRow& row) noexcept;

}  // namespace headrace
