#include "headrace/sqlite/page_check.hpp"

#include "tests/sqlite/stored_database.hpp"

namespace headrace {
namespace {

using testing::expect_ok;
using testing::StoredDatabase;

using Roots = std::vector<std::uint32_t>;

// SQLite's own table is in the first page.
Roots roots_of(const StoredDatabase& database) {
  Roots roots = {1};
  roots.insert(roots.end(), database.roots().begin(), database.roots().end());
  return roots;
}

bool is_sound(StoredDatabase& database, const Roots& roots) {
  const auto file = sqlite::File::open(database.bytes());
  expect_ok(file.status());
  return file.is_ok() && pages_are_sound(file.value(), roots);
}

bool is_sound(StoredDatabase& database) { return is_sound(database, roots_of(database)); }

TEST(PageCheck, WhatSqliteMadeIsSound) {
  for (const char* name : testing::kStoredDatabases) {
    StoredDatabase database(name);
    EXPECT_TRUE(is_sound(database)) << name;
  }
}

TEST(PageCheck, NumbersOfTheFilesHeader) {
  for (const std::size_t offset : {
           24U,  // changes, as counted
           28U,  // pages
           52U,  // not 0: the file vacuums itself
           92U,  // changes when the pages were counted
       }) {
    StoredDatabase database("many_512");
    database.set_u32(1, offset, database.u32(1, offset) + 1);
    EXPECT_FALSE(is_sound(database)) << offset;
  }
}

TEST(PageCheck, AFileThatIsCutOrLonger) {
  StoredDatabase longer("many_512");
  longer.bytes().resize(longer.bytes().size() + 100);
  EXPECT_FALSE(is_sound(longer));
  StoredDatabase cut("many_512");
  cut.bytes().pop_back();
  EXPECT_FALSE(is_sound(cut));
  StoredDatabase without_last("many_512");
  std::vector<std::byte>& bytes = without_last.bytes();
  bytes.erase(bytes.end() - static_cast<std::ptrdiff_t>(without_last.page_size()), bytes.end());
  without_last.set_u32(1, 28, without_last.page_count());
  EXPECT_FALSE(is_sound(without_last));
}

TEST(PageCheck, EveryPageBelongsToOneTree) {
  StoredDatabase database("many_512");
  Roots roots = roots_of(database);
  roots.pop_back();
  EXPECT_FALSE(is_sound(database, roots)) << "pages of nobody";
  roots.push_back(roots[1]);
  EXPECT_FALSE(is_sound(database, roots)) << "a tree twice";
  for (const std::uint32_t outside : {0U, 17U, UINT32_MAX}) {
    roots.back() = outside;
    EXPECT_FALSE(is_sound(database, roots)) << outside;
  }
}

TEST(PageCheck, KindsThatNoPageHas) {
  for (const unsigned kind : {0U, 1U, 3U, 14U, 255U}) {
    for (const std::size_t page : {2U, 4U, 16U}) {
      StoredDatabase database("many_512");
      database.set(page, 0, kind);
      EXPECT_FALSE(is_sound(database)) << page << " " << kind;
    }
  }
}

TEST(PageCheck, ChildrenThatCannotBe) {
  for (const std::size_t child : {0U, 2U, 7U, 10U, 17U}) {  // nothing, itself, a sibling, others'
    StoredDatabase last("many_512");
    last.set_u32(2, 8, child);
    EXPECT_FALSE(is_sound(last)) << child;
    StoredDatabase first("many_512");
    first.set_u32(2, first.u16(2, StoredDatabase::inner_list(1)), child);
    EXPECT_FALSE(is_sound(first)) << child;
  }
}

// The last leaf of the table becomes the only child of a page that takes its place.
TEST(PageCheck, LeavesAreEquallyDeep) {
  StoredDatabase database("many_512");
  const std::size_t old = database.u32(2, 8);
  const std::size_t added = database.page_count() + 1;
  database.bytes().resize(added * database.page_size());
  std::copy_n(database.at(old, 0), database.page_size(), database.at(added, 0));
  std::fill_n(database.at(old, 0), database.page_size(), std::byte{0});
  database.set(old, 0, 5);
  database.set_u16(old, 5, database.page_size());
  database.set_u32(old, 8, added);
  database.set_u32(1, 28, added);
  EXPECT_FALSE(is_sound(database));
  database.set_u32(2, 8, added);  // the leaf in its old place again, and a page of nobody
  EXPECT_FALSE(is_sound(database));
  database.set_u32(1, 32, old);  // which is a free one now
  database.set_u32(1, 36, 1);
  std::fill_n(database.at(old, 0), database.page_size(), std::byte{0});
  EXPECT_TRUE(is_sound(database));
}

TEST(PageCheck, RowsAscend) {
  StoredDatabase leaf("many_512");
  leaf.swap_leaf_entries(7, 3, 4);
  EXPECT_FALSE(is_sound(leaf));
  StoredDatabase inner("many_512");
  const std::size_t key = inner.u16(2, StoredDatabase::inner_list(0)) + 4;
  ASSERT_EQ(inner.u8(2, key), 12U);  // the last row of the first leaf
  inner.set(2, key, 11);
  EXPECT_FALSE(is_sound(inner));
  inner.set(2, key, 13);  // the first row of the next one
  EXPECT_FALSE(is_sound(inner));
}

TEST(PageCheck, BytesOfAPageBelongToOneEntry) {
  StoredDatabase twice("few_512");
  twice.set_u16(3, StoredDatabase::leaf_list(1), twice.u16(3, StoredDatabase::leaf_list(0)));
  EXPECT_FALSE(is_sound(twice));
  StoredDatabase outside("few_512");
  outside.set_u16(3, StoredDatabase::leaf_list(0), 512);
  EXPECT_FALSE(is_sound(outside));
  StoredDatabase in_list("few_512");
  in_list.set_u16(3, StoredDatabase::leaf_list(0), 8);
  EXPECT_FALSE(is_sound(in_list));
  StoredDatabase longer("few_512");
  const std::size_t entry = longer.u16(3, StoredDatabase::leaf_list(1));
  longer.set(3, entry, static_cast<unsigned>(longer.u8(3, entry) + 1));
  EXPECT_FALSE(is_sound(longer)) << "it reaches into the next one";
  StoredDatabase shorter("few_512");
  shorter.set(3, entry, static_cast<unsigned>(shorter.u8(3, entry) - 1));
  EXPECT_FALSE(is_sound(shorter)) << "a byte of nobody";
}

TEST(PageCheck, WhereTheEntriesBegin) {
  for (const std::size_t begin : {0U, 12U, 470U, 479U, 513U}) {
    StoredDatabase database("few_512");
    ASSERT_EQ(database.u16(3, 5), 478U);
    database.set_u16(3, 5, begin);
    EXPECT_FALSE(is_sound(database)) << begin;
  }
}

TEST(PageCheck, EntriesThatAreMissingOrTooMany) {
  for (const std::size_t count : {0U, 3U, 5U, 300U}) {
    StoredDatabase database("few_512");
    database.set_u16(3, 3, count);
    EXPECT_FALSE(is_sound(database)) << count;
  }
}

TEST(PageCheck, LostBytesAreCounted) {
  StoredDatabase database("few_512");
  database.set(3, 7, 1);
  EXPECT_FALSE(is_sound(database));
}

TEST(PageCheck, FreeBlocks) {
  constexpr std::size_t kLeaf = 7;
  StoredDatabase sound("deleted_512");
  const std::size_t block = sound.u16(kLeaf, 1);
  ASSERT_NE(block, 0U);
  const auto is_sound_with = [&](std::size_t offset, std::size_t value) {
    StoredDatabase database("deleted_512");
    database.set_u16(kLeaf, offset, value);
    return is_sound(database);
  };
  EXPECT_FALSE(is_sound_with(1, 0)) << "none, but its bytes are nobody's";
  EXPECT_FALSE(is_sound_with(1, 510)) << "at the end of the page";
  EXPECT_FALSE(is_sound_with(1, 60)) << "before the entries";
  EXPECT_FALSE(is_sound_with(block, block)) << "it leads to itself";
  EXPECT_FALSE(is_sound_with(block, block - 8)) << "back";
  EXPECT_FALSE(is_sound_with(block + 2, 3)) << "too small";
  EXPECT_FALSE(is_sound_with(block + 2, 600)) << "too large";
  EXPECT_FALSE(is_sound_with(block + 2, sound.u16(kLeaf, block + 2) - 1)) << "a byte of nobody";
  EXPECT_FALSE(is_sound_with(block + 2, sound.u16(kLeaf, block + 2) + 1)) << "a byte of two";
}

TEST(PageCheck, FreePages) {
  StoredDatabase sound("deleted_512");
  const std::size_t list = sound.u32(1, 32);
  ASSERT_EQ(sound.u32(1, 36), 2U);
  ASSERT_EQ(sound.u32(list, 4), 1U);
  struct Change {
    std::size_t page;
    std::size_t offset;
    std::size_t value;
    const char* what;
  };
  const Change changes[] = {
      {1, 32, 0, "no list"},
      {1, 32, 99, "a list outside the file"},
      {1, 32, 2, "a page of the table as the list"},
      {1, 36, 1, "fewer than listed"},
      {1, 36, 3, "more than listed"},
      {list, 0, list, "a list that leads to itself"},
      {list, 0, 99, "a list that leads out of the file"},
      {list, 4, 0, "a page of nobody"},
      {list, 4, 127, "more than a page can list"},
      {list, 8, list, "the list itself as a free page"},
      {list, 8, 7, "a page of the table as a free one"},
      {list, 8, 0, "no page"},
  };
  for (const Change& change : changes) {
    StoredDatabase database("deleted_512");
    database.set_u32(change.page, change.offset, change.value);
    EXPECT_FALSE(is_sound(database)) << change.what;
  }
}

TEST(PageCheck, EntriesThatGoOnInOtherPages) {
  StoredDatabase sound("long_512");
  std::size_t last = 0;  // the last page of a chain
  for (std::size_t page = 7; page <= sound.page_count(); ++page) {
    if (sound.u8(page, 0) == 0 && sound.u32(page, 0) == 0) last = page;
  }
  ASSERT_NE(last, 0U);
  for (const std::size_t next : {2U, 15U, 99U}) {
    StoredDatabase database("long_512");
    database.set_u32(last, 0, next);
    EXPECT_FALSE(is_sound(database)) << "it goes on to " << next;
  }
  ASSERT_EQ(sound.u8(7, 0), 0U);
  const std::size_t entry = sound.u16(3, StoredDatabase::leaf_list(0));
  for (std::size_t page = 7; page <= sound.page_count(); ++page) {
    if (sound.u8(page, 0) != 0 || sound.u32(page, 0) == 0) continue;
    for (const std::size_t next : {0U, 99U}) {
      StoredDatabase database("long_512");
      database.set_u32(page, 0, next);
      EXPECT_FALSE(is_sound(database)) << "cut after " << page;
    }
  }
  EXPECT_GT(entry, 0U);
}

// Whatever byte of a page's frame is changed, nothing outside of the file is read.
TEST(HostilePages, EveryByteOfEveryPage) {
  for (const char* name : {"few_512", "long_512", "deleted_512"}) {
    StoredDatabase database(name);
    for (std::size_t i = 20; i < database.bytes().size(); ++i) {
      if (i == 56 || i == 57 || i == 58 || i == 59) continue;  // the text's encoding: not opened
      const std::byte before = database.bytes()[i];
      for (const unsigned change : {0x01U, 0x80U, 0xFFU}) {
        database.bytes()[i] = before ^ static_cast<std::byte>(change);
        const auto file = sqlite::File::open(database.bytes());
        if (file.is_ok()) {
          static_cast<void>(pages_are_sound(file.value(), roots_of(database)));
        }
      }
      database.bytes()[i] = before;
    }
    EXPECT_TRUE(is_sound(database));
  }
}

}  // namespace
}  // namespace headrace
