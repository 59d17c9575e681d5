#include "headrace/formats/zip_scan.hpp"

#include <string>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

std::string number(std::uint64_t value, int size) {
  std::string out;
  for (int i = 0; i < size; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

struct File {
  std::string name;
  std::string content;
  std::uint64_t flags = 0;
  std::uint64_t method = 0;
  std::uint64_t mode = 0100644;
};

std::string zip_of(const std::vector<File>& files) {
  std::string out, list;
  for (const File& file : files) {
    const std::string facts = number(20, 2) + number(file.flags, 2) + number(file.method, 2) +
                              number(0, 4) + number(7, 4) + number(file.content.size(), 4) +
                              number(file.content.size(), 4) + number(file.name.size(), 2) +
                              number(0, 2);
    list += "PK\1\2" + number(20, 2) + facts + number(0, 6) + number(file.mode << 16U, 4) +
            number(out.size(), 4) + file.name;
    out += "PK\3\4" + facts + file.name + file.content;
  }
  const std::string end = "PK\5\6" + number(0, 4) + number(files.size(), 2) +
                          number(files.size(), 2) + number(list.size(), 4) + number(out.size(), 4) +
                          number(0, 2);
  return out + list + end;
}

Status scan(const std::string& zip, ZipFiles& files) {
  return scan_zip(std::as_bytes(std::span(zip)), files);
}

TEST(ZipScan, FilesAndWhereTheyAre) {
  ZipFiles files;
  expect_ok(scan(zip_of({{"a.txt", "hello"}, {"d/", ""}, {"l", "x", 0, 0, 0120777}, {"b", "yy"}}),
                 files));
  EXPECT_EQ(files.offsets, (std::vector<std::uint64_t>{35, 135}));
  EXPECT_EQ(files.sizes, (std::vector<std::uint64_t>{5, 2}));
  EXPECT_EQ(files.checksums, (std::vector<std::uint32_t>{7, 7}));
  EXPECT_EQ(files.names[1], "b");
  EXPECT_EQ(files.special, 1U);
}

TEST(ZipScan, BytesBeforeIt) {
  ZipFiles files;
  expect_ok(scan("#!/bin/sh\n" + zip_of({{"a.txt", "hello"}}), files));
  EXPECT_EQ(files.offsets, (std::vector<std::uint64_t>{45}));
}

TEST(ZipScan, OldLetters) {
  ZipFiles files;
  expect_ok(scan(zip_of({{"\x82.txt", ""}, {"\xc3\xa9.txt", "", 1U << 11U}}), files));
  EXPECT_EQ(files.names[0], "\xc3\xa9.txt");
  EXPECT_EQ(files.names[1], "\xc3\xa9.txt");
}

TEST(ZipScan, Hostile) {
  const auto expect_failure = [](const std::string& zip, Code code) {
    ZipFiles files;
    expect_code(scan(zip, files), code);
  };
  expect_failure("", Code::truncated);
  expect_failure(zip_of({{"a", "x"}}).substr(1), Code::corrupt);
  expect_failure(zip_of({{"a", "x"}}) + "y", Code::truncated);
  expect_failure(zip_of({{"../a", "x"}}), Code::corrupt);
  expect_failure(zip_of({{"/a", "x"}}), Code::corrupt);
  expect_failure(zip_of({{"a", "x", 1}}), Code::unsupported);
  expect_failure(zip_of({{"a", "x", 0, 14}}), Code::unsupported);
  std::string wide = zip_of({{"a", "x"}});
  wide.replace(wide.rfind("PK\1\2") + 24, 4, 4, '\xfe');
  expect_failure(wide, Code::corrupt);
}

}  // namespace
}  // namespace headrace
