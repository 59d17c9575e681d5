#include "headrace/sqlite/index_check.hpp"

#include <string_view>

#include "tests/sqlite/stored_database.hpp"

namespace headrace {
namespace {

using testing::expect_ok;
using testing::StoredDatabase;

std::vector<FileIndex> indexes_of(const StoredDatabase& database) {
  return {{database.roots()[1], IndexKey::path},
          {database.roots()[2], IndexKey::parent},
          {database.roots()[3], IndexKey::address}};
}

bool agree(StoredDatabase& database, const std::vector<FileIndex>& indexes) {
  const auto table = FileTable::open(
      database.bytes(), {database.roots()[0], database.roots()[1], {0, 1, 2, 3, 4, 5, 6, 7, 8}});
  expect_ok(table.status());
  return table.is_ok() && indexes_agree(table.value(), indexes);
}

bool agree(StoredDatabase& database) { return agree(database, indexes_of(database)); }

TEST(IndexCheck, WhatSqliteMadeAgrees) {
  for (const char* name : testing::kStoredDatabases) {
    StoredDatabase database(name);
    EXPECT_TRUE(agree(database)) << name;
    EXPECT_TRUE(agree(database, {})) << name;
    for (const FileIndex& index : indexes_of(database)) EXPECT_TRUE(agree(database, {index}));
  }
}

TEST(IndexCheck, AnIndexOfAnotherKeyDisagrees) {
  for (const char* name : testing::kStoredDatabases) {
    StoredDatabase database(name);
    for (const std::size_t root : {1U, 2U, 3U}) {
      for (const IndexKey key : {IndexKey::path, IndexKey::parent, IndexKey::address}) {
        const bool is_right = static_cast<std::size_t>(key) + 1 == root;
        EXPECT_EQ(agree(database, {{database.roots()[root], key}}), is_right) << name << root;
      }
    }
    EXPECT_FALSE(agree(database, {{database.roots()[0], IndexKey::path}})) << "the table itself";
    EXPECT_FALSE(agree(database, {{0, IndexKey::path}}));
    EXPECT_FALSE(agree(database, {{999, IndexKey::path}}));
  }
}

// Entry 1 of each page of few_512 is of b/c, row 2: shard 0, offset 1.
struct Change {
  std::size_t page;
  std::size_t offset;  // in the entry
  unsigned before;
  unsigned after;
  const char* what;
};

constexpr Change kChanges[] = {
    {3, 4, 'b', 'c', "the path in its index"},
    {3, 6, 'c', 'd', "the end of the path in its index"},
    {3, 7, 2, 5, "the row in the index of paths"},
    {4, 4, 'b', 'c', "the parent in its index"},
    {4, 5, 2, 5, "the row in the index of parents"},
    {5, 2, 8, 9, "the shard in its index, by its type: 1"},
    {5, 3, 8, 9, "the offset in its index, by its type: 1"},
    {5, 5, 2, 5, "the row in the index of addresses"},
    {2, 12, 'b', 'c', "the parent in the table"},
    {2, 14, 'c', 'd', "the name in the table"},
    {2, 1, 2, 5, "the row in the table"},
    {2, 4, 8, 9, "the shard in the table, by its type: 1"},
    {2, 4, 8, 0, "no shard in the table"},
    {2, 5, 8, 9, "the offset in the table, by its type: 1"},
    {2, 5, 8, 0, "no offset in the table"},
    {2, 3, 0x13, 0x12, "bytes instead of a text as the path in the table"},
    {3, 2, 0x13, 0x12, "bytes instead of a text in the index of paths"},
    {4, 2, 0x0f, 0x0e, "bytes instead of a text in the index of parents"},
    {5, 2, 8, 0, "no shard in the index"},
    {5, 3, 8, 0, "no offset in the index"},
    {3, 0, 7, 6, "an entry that is shorter than its values"},
    {3, 1, 3, 9, "a header that is longer than the entry"},
};

TEST(IndexCheck, EveryChangeOfAnEntryIsFound) {
  for (const Change& change : kChanges) {
    StoredDatabase database("few_512");
    const std::size_t at = database.u16(change.page, StoredDatabase::leaf_list(1)) + change.offset;
    ASSERT_EQ(database.u8(change.page, at), change.before) << change.what;
    database.set(change.page, at, change.after);
    EXPECT_FALSE(agree(database)) << change.what;
  }
}

TEST(IndexCheck, EntriesAreInOrder) {
  for (const std::size_t page : {3U, 4U, 5U}) {
    StoredDatabase database("few_512");
    database.swap_leaf_entries(page, 1, 2);
    EXPECT_FALSE(agree(database)) << page;
  }
}

TEST(IndexCheck, APathTwiceIsFound) {
  StoredDatabase database("few_512");
  for (const std::size_t page : {2U, 3U, 4U, 5U}) {  // in all of them: only the order can tell
    database.set_u16(page, StoredDatabase::leaf_list(2),
                     database.u16(page, StoredDatabase::leaf_list(1)));
  }
  EXPECT_FALSE(agree(database, {{database.roots()[1], IndexKey::path}}));
}

TEST(IndexCheck, AMissingEntryIsFound) {
  for (const std::size_t page : {2U, 3U, 4U, 5U}) {
    StoredDatabase database("few_512");
    database.set_u16(page, 3, 3);
    EXPECT_FALSE(agree(database)) << page;
  }
  StoredDatabase inner("many_512");  // the entry between two leaves, and all before it
  inner.set_u16(3, 3, 0);
  EXPECT_FALSE(agree(inner));
}

TEST(IndexCheck, PagesOfTheIndexThatCannotBe) {
  for (const std::size_t root : {3U, 5U}) {
    for (const std::size_t child : {0U, 3U, 5U, 7U, 99U}) {
      StoredDatabase database("many_512");
      database.set_u32(root, 8, child);
      EXPECT_FALSE(agree(database)) << root << " leads to " << child;
    }
    StoredDatabase database("many_512");  // the first leaf twice
    database.set_u32(root, 8, database.u32(root, database.u16(root, 12)));
    EXPECT_FALSE(agree(database)) << root;
  }
}

TEST(IndexCheck, ATableThatCannotBeReadToItsEnd) {
  for (const std::size_t child : {0U, 2U, 10U, 99U}) {
    StoredDatabase database("many_512");
    database.set_u32(2, 8, child);
    EXPECT_FALSE(agree(database)) << child;
    EXPECT_FALSE(agree(database, {})) << child;
  }
}

TEST(IndexCheck, LongPathsAreComparedToTheirEnd) {
  StoredDatabase sound("long_512");
  for (std::size_t page = 7; page <= sound.page_count(); ++page) {
    if (sound.u8(page, 0) != 0) continue;
    StoredDatabase changed("long_512");  // a byte of a path, in the table or in an index
    changed.set(page, 4, static_cast<unsigned>(changed.u8(page, 4) ^ 1U));
    EXPECT_FALSE(agree(changed)) << page;
    if (sound.u32(page, 0) == 0) continue;
    StoredDatabase cut("long_512");
    cut.set_u32(page, 0, 0);
    EXPECT_FALSE(agree(cut)) << page;
  }
}

// Whatever is changed, nothing outside of the file is read, and it ends.
TEST(HostileIndex, EveryByteOfEveryPage) {
  for (const char* name : {"few_512", "long_512", "deleted_512"}) {
    StoredDatabase database(name);
    for (std::size_t i = 512; i < database.bytes().size(); ++i) {
      const std::byte before = database.bytes()[i];
      for (const unsigned change : {0x01U, 0x80U, 0xFFU}) {
        database.bytes()[i] = before ^ static_cast<std::byte>(change);
        static_cast<void>(agree(database));
      }
      database.bytes()[i] = before;
    }
    EXPECT_TRUE(agree(database));
  }
}

}  // namespace
}  // namespace headrace
