#include "headrace/sqlite/file_table.hpp"

#include <string>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

constexpr std::size_t kPage = 512;
constexpr FileTableLayout kLayout = {2, 3, {0, 1, 2, 3, 4, 5, 6, 7, 8}};

// A database of empty pages.
class Database {
 public:
  explicit Database(std::size_t pages) : bytes_(pages * kPage) {
    put(0, std::string_view("SQLite format 3\0", 16));
    bytes_[16] = std::byte{2};  // 512
    bytes_[59] = std::byte{1};  // UTF-8
  }

  void put(std::size_t at, std::string_view text) {
    for (const char c : text) bytes_[at++] = static_cast<std::byte>(c);
  }
  void set(std::size_t page, std::size_t at, unsigned value) {
    bytes_[(page - 1) * kPage + at] = static_cast<std::byte>(value);
  }

  // An entry at the end of a leaf that has no other.
  void add_only_entry(std::size_t page, unsigned kind, std::string_view entry) {
    const std::size_t at = kPage - entry.size();
    set(page, 0, kind);
    set(page, 4, 1);
    set(page, 8, static_cast<unsigned>(at >> 8U));
    set(page, 9, static_cast<unsigned>(at & 0xffU));
    put((page - 1) * kPage + at, entry);
  }

  // One file: a/b in shard 1 at 300, 5 bytes, no checksum.
  void add_file() {
    add_only_entry(3, 10,
                   std::string_view("\x07\x03\x13\x01"
                                    "a/b"
                                    "\x09",
                                    8));
    add_only_entry(2, 13,
                   std::string_view("\x10\x09"
                                    "\x0a\x13\x09\x02\x01\x00\x00\x08\x08\x00"
                                    "a/b"
                                    "\x01\x2c"
                                    "\x05",
                                    18));
  }

  [[nodiscard]] ByteSpan bytes() const noexcept { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

TEST(FileTable, FindsAFileAndReadsItsRow) {
  Database database(3);
  database.add_file();
  auto table = FileTable::open(database.bytes(), kLayout);
  expect_ok(table.status());
  FilePlace place{};
  ASSERT_TRUE(table.value().find("a/b", place));
  EXPECT_EQ(place.shard, 1);
  EXPECT_EQ(place.offset, 300);
  EXPECT_EQ(place.size, 5);
  EXPECT_EQ(place.crc32c, kNoChecksum);
  for (const char* missing : {"", "a", "a/a", "a/c", "a/bb"}) {
    EXPECT_FALSE(table.value().find(missing, place)) << missing;
  }
  FileTable::Rows rows(table.value());
  FileRow row;
  auto more = rows.next(row);
  ASSERT_TRUE(more.is_ok() && more.value());
  EXPECT_EQ(row.path, "a/b");
  EXPECT_EQ(row.at(FileColumn::uid), 0);
  EXPECT_EQ(row.at(FileColumn::mtime_ns), std::nullopt);
  more = rows.next(row);
  EXPECT_TRUE(more.is_ok() && !more.value());
}

TEST(FileTable, APlaceThatCannotBeIsNotFound) {
  Database database(3);
  database.add_file();
  database.set(2, kPage - 4, 0);       // the serial types and the body stay whole
  database.set(2, kPage - 18 + 4, 7);  // the shard is a real number now
  auto table = FileTable::open(database.bytes(), kLayout);
  expect_ok(table.status());
  FilePlace place{};
  EXPECT_FALSE(table.value().find("a/b", place));
}

TEST(FileTable, RefusesWhatIsNoDatabase) {
  expect_code(FileTable::open({}, kLayout).status(), Code::unsupported);
  Database utf16(3);
  utf16.set(1, 59, 2);
  expect_code(FileTable::open(utf16.bytes(), kLayout).status(), Code::unsupported);
  Database pages(3);
  pages.set(1, 16, 3);
  expect_code(FileTable::open(pages.bytes(), kLayout).status(), Code::unsupported);
  FileTableLayout twice = kLayout;
  twice.columns[1] = 0;
  expect_code(FileTable::open(Database(3).bytes(), twice).status(), Code::invalid_argument);
}

TEST(FileTable, NamesThatNoFileCanHaveAreLeftToSqlite) {
  using namespace std::string_view_literals;
  for (const std::string_view name :
       {"../"sv, "a/."sv, "./a"sv, "a//"sv, "/ab"sv, "a\0b"sv, "a.b"sv}) {
    Database database(3);
    database.add_file();
    database.put(2 * kPage - 6, name);
    auto table = FileTable::open(database.bytes(), kLayout);
    expect_ok(table.status());
    FileTable::Rows rows(table.value());
    FileRow row;
    EXPECT_EQ(rows.next(row).is_ok(), name == "a.b") << name;
  }
}

TEST(FileTable, PagesThatLeadToThemselvesEnd) {
  Database database(4);
  for (const unsigned page : {2U, 3U}) {
    database.set(page, 0, page == 2 ? 5 : 2);
    database.set(page, 11, page);  // the last child
  }
  auto table = FileTable::open(database.bytes(), kLayout);
  expect_ok(table.status());
  FilePlace place{};
  EXPECT_FALSE(table.value().find("a", place));
  FileTable::Rows rows(table.value());
  FileRow row;
  EXPECT_FALSE(rows.next(row).is_ok());
  EXPECT_FALSE(rows.next(row).is_ok());
}

TEST(FileTable, MissingPagesAndCutEntries) {
  Database database(3);
  database.add_file();
  for (const FileTableLayout layout :
       {FileTableLayout{0, 0, kLayout.columns}, FileTableLayout{9, 9, kLayout.columns},
        FileTableLayout{3, 2, kLayout.columns}}) {
    auto table = FileTable::open(database.bytes(), layout);
    expect_ok(table.status());
    FilePlace place{};
    EXPECT_FALSE(table.value().find("a/b", place));
    FileTable::Rows rows(table.value());
    FileRow row;
    EXPECT_FALSE(rows.next(row).is_ok());
  }
  database.set(2, kPage - 18, 0x50);  // longer than what is left of the page
  database.set(3, kPage - 8, 0x50);
  auto table = FileTable::open(database.bytes(), kLayout);
  expect_ok(table.status());
  FilePlace place{};
  EXPECT_FALSE(table.value().find("a/b", place));
}

}  // namespace
}  // namespace headrace
