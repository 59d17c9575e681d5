#include "headrace/formats/tar_scan.hpp"

#include <string>

#include "headrace/checksum.hpp"
#include "headrace/formats/tar.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

constexpr std::size_t kAll = 1000;

std::string member(const std::string& name, const std::string& content) {
  TarPart part(false);
  expect_ok(part.add({name, false, 0644, 0, 0, 0, 0}, std::as_bytes(std::span(content))));
  const ByteSpan bytes = part.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string with_checksum(std::string header) {
  header.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < kTarBlockSize; ++i) sum += static_cast<unsigned char>(header[i]);
  char text[9];
  std::snprintf(text, sizeof text, "%06o", sum);
  header.replace(148, 7, text, 7);
  return header;
}

std::string of_type(char type, const std::string& name, const std::string& content) {
  std::string all = member(name, content);
  all[156] = type;
  return with_checksum(all);
}

const std::string kEnd(1024, '\0');

Status scan(const std::string& tar, TarScanner& scanner) {
  static_cast<void>(tar);
  return scanner.advance(kAll);
}

TarScanner scanner_of(const std::string& tar) { return TarScanner(std::as_bytes(std::span(tar))); }

TEST(TarScan, FilesAndWhereTheyAre) {
  const std::string tar = member("a/b.txt", "hello") + member("./c//d", "") + kEnd;
  TarScanner scanner = scanner_of(tar);
  expect_ok(scan(tar, scanner));
  EXPECT_TRUE(scanner.is_done());
  ASSERT_EQ(scanner.names().size(), 2U);
  EXPECT_EQ(scanner.names()[0], "a/b.txt");
  EXPECT_EQ(scanner.names()[1], "c/d");
  EXPECT_EQ(scanner.offsets(), (std::vector<std::uint64_t>{512, 1536}));
  EXPECT_EQ(scanner.sizes(), (std::vector<std::uint64_t>{5, 0}));
}

TEST(TarScan, StepsGoOnWhereTheyStopped) {
  const std::string tar = member("a", "1") + member("b", "2") + kEnd;
  TarScanner scanner = scanner_of(tar);
  expect_ok(scanner.advance(1));
  EXPECT_FALSE(scanner.is_done());
  EXPECT_EQ(scanner.position(), 1024U);
  expect_ok(scanner.advance(kAll));
  EXPECT_EQ(scanner.names().size(), 2U);
}

TEST(TarScan, ChecksumsInTheSamePass) {
  const std::string large(5000, 'x');
  const std::string tar =
      member("a", "hello") + of_type('2', "link", "") + member("b", "") + member("c", large) + kEnd;
  TarScanner scanner(std::as_bytes(std::span(tar)), true);
  expect_ok(scanner.advance(2));
  expect_ok(scanner.advance(kAll));
  EXPECT_EQ(scanner.checksums(),
            (std::vector<std::uint32_t>{0x9A71BB4CU, 0, crc32c(std::as_bytes(std::span(large)))}));
  // The last file has no room to be filled up in.
  const std::string cut = member("c", large).substr(0, 512 + large.size());
  TarScanner at_end(std::as_bytes(std::span(cut)), true);
  expect_code(at_end.advance(kAll), Code::truncated);
  EXPECT_EQ(at_end.checksums().size(), 1U);
  EXPECT_TRUE(scanner_of(tar).checksums().empty());
}

// Some old programs add bytes as signed numbers.
TEST(TarScan, HeadersWithSignedSums) {
  std::string tar = member("abc", "hello") + kEnd;
  tar.replace(0, 2, "\xff\x80");
  const auto sum_with = [&](int high) {
    tar.replace(148, 8, 8, ' ');
    int sum = 0;
    for (std::size_t i = 0; i < kTarBlockSize; ++i) {
      const int byte = static_cast<unsigned char>(tar[i]);
      sum += byte >= 128 ? byte - high : byte;
    }
    char text[9];
    std::snprintf(text, sizeof text, "%06o", static_cast<unsigned>(sum));
    tar.replace(148, 7, text, 7);
    TarScanner scanner = scanner_of(tar);
    return scan(tar, scanner).is_ok();
  };
  EXPECT_TRUE(sum_with(0));
  EXPECT_TRUE(sum_with(256));
  EXPECT_FALSE(sum_with(128));
  EXPECT_FALSE(sum_with(1));
}

TEST(TarScan, LongNames) {
  const std::string deep = std::string(120, 'd') + "/" + std::string(130, 'f');
  const std::string gnu = of_type('L', "././@LongLink", deep + '\0') + member("short", "x");
  const std::string tar = member(deep, "pax") + gnu + kEnd;
  TarScanner scanner = scanner_of(tar);
  expect_ok(scan(tar, scanner));
  ASSERT_EQ(scanner.names().size(), 2U);
  EXPECT_EQ(scanner.names()[0], deep);
  EXPECT_EQ(scanner.names()[1], deep);
}

TEST(TarScan, SizesThatHaveNoRoom) {
  std::string base256 = member("a", "hello");
  base256.replace(124, 12, std::string("\x80\0\0\0\0\0\0\0\0\0\0\5", 12));
  const std::string pax = of_type('x', "p", "9 size=5\n") + [] {
    std::string zero = member("b", "world");
    zero.replace(124, 12, "00000000000\0");
    return with_checksum(zero);
  }();
  const std::string tar = with_checksum(base256) + pax + kEnd;
  TarScanner scanner = scanner_of(tar);
  expect_ok(scan(tar, scanner));
  EXPECT_EQ(scanner.sizes(), (std::vector<std::uint64_t>{5, 5}));
}

TEST(TarScan, WhatIsNoFileIsNoted) {
  const std::string tar = of_type('2', "l", "") + of_type('1', "h", "") + of_type('5', "d/", "") +
                          of_type('S', "s", "xx") + of_type('x', "p", "22 GNU.sparse.major=1\n") +
                          member("t", "yy") + of_type('?', "u", "z") + member("a", "1") + kEnd;
  TarScanner scanner = scanner_of(tar);
  expect_ok(scan(tar, scanner));
  EXPECT_EQ(scanner.names().size(), 1U);
  ASSERT_EQ(scanner.notes().size(), 3U);
  EXPECT_EQ(scanner.notes()[0].count, 2U);
  EXPECT_EQ(scanner.notes()[1].reason, "sparse");
  EXPECT_EQ(scanner.notes()[1].count, 2U);
}

void expect_failure(const std::string& tar, Code code, std::int64_t offset) {
  TarScanner scanner = scanner_of(tar);
  const Status status = scan(tar, scanner);
  expect_code(status, code);
  EXPECT_EQ(status.offset(), offset);
}

TEST(TarScan, Hostile) {
  const std::string one = member("a", "hello");
  expect_failure(one.substr(0, 514), Code::truncated, 514);
  expect_failure(one, Code::truncated, 1024);
  expect_failure("", Code::truncated, 0);
  std::string wrong = one + kEnd;
  wrong[2] = 'x';
  expect_failure(wrong, Code::wrong_checksum, 0);
  expect_failure(member("a/../b", "x") + kEnd, Code::corrupt, 0);
  expect_failure(member("/b", "x") + kEnd, Code::corrupt, 0);
  std::string huge = one;
  huge.replace(124, 12, std::string("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12));
  expect_failure(with_checksum(huge) + kEnd, Code::corrupt, 0);
  expect_failure(of_type('x', "p", "99 path=x\n") + one + kEnd, Code::corrupt, 512);
  expect_failure(of_type('x', "p", "9 size=x\n") + one + kEnd, Code::corrupt, 512);
  expect_failure(of_type('L', "l", "name") + kEnd, Code::corrupt, 1024);
}

TextList list_of(std::initializer_list<std::string_view> names) {
  TextList list;
  for (const std::string_view name : names) list.add(name);
  return list;
}

TEST(MemberGroups, AsWebDatasetMakesThem) {
  const TextList names = list_of({"d.x/1.jpg", "d.x/1.Box.npy", ".h/2.jpg", "__meta.json", "README",
                                  "d.x/2.jpg", "d.x/2.box.NPY"});
  auto found = group_members(names);
  ASSERT_TRUE(found.is_ok());
  const MemberGroups& groups = found.value();
  ASSERT_EQ(groups.keys.size(), 2U);
  EXPECT_EQ(groups.keys[1], "d.x/2");
  ASSERT_EQ(groups.endings.size(), 2U);
  EXPECT_EQ(groups.endings[1], "box.npy");
  EXPECT_EQ(groups.columns, (std::vector<std::uint16_t>{0, 1, kLeftOut, kLeftOut, kLeftOut, 0, 1}));
  EXPECT_EQ(groups.groups, (std::vector<std::uint32_t>{0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(groups.repeated, -1);
  EXPECT_EQ(groups.apart, -1);
}

TEST(MemberGroups, RepeatedAndApart) {
  EXPECT_EQ(group_members(list_of({"a.x", "a.X"})).value().repeated, 1);
  EXPECT_EQ(group_members(list_of({"a.x", "b.x", "a.y"})).value().apart, 2);
}

TEST(MemberGroups, TooManyEndings) {
  TextList names;
  for (std::size_t i = 0; i <= kMaxEndings; ++i) names.add("a." + std::to_string(i));
  const auto found = group_members(names);
  expect_code(found.status(), Code::too_large);
  EXPECT_EQ(found.status().offset(), static_cast<std::int64_t>(kMaxEndings));
}

}  // namespace
}  // namespace headrace
