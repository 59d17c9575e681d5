#include "headrace/formats/tar.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

std::string text_of(const TarPart& part) {
  const ByteSpan bytes = part.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string header_of(const TarMember& member, bool has_exact_times = false) {
  TarPart part(has_exact_times);
  expect_ok(part.add_header(member));
  return text_of(part);
}

// A field of a header, without what fills it.
std::string field(const std::string& tar, std::size_t start, std::size_t size) {
  return tar.substr(start, size).c_str();
}

std::uint64_t sum_of(const std::string& header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < kTarBlockSize; ++i) {
    sum += i >= 148 && i < 156 ? ' ' : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

TEST(Tar, PlainHeader) {
  const std::string header =
      header_of({"a/b.txt", false, 0640, 1000, 7, 300, 1'600'000'000'999'999'999});
  ASSERT_EQ(header.size(), kTarBlockSize);
  EXPECT_EQ(field(header, 0, 100), "a/b.txt");
  EXPECT_EQ(field(header, 100, 8), "0000640");
  EXPECT_EQ(field(header, 108, 8), "0001750");
  EXPECT_EQ(field(header, 116, 8), "0000007");
  EXPECT_EQ(field(header, 124, 12), "00000000454");
  EXPECT_EQ(field(header, 136, 12), "13727410000");
  EXPECT_EQ(header[156], '0');
  EXPECT_EQ(header.substr(257, 8), std::string("ustar\00000", 8));
  EXPECT_EQ(std::strtoull(field(header, 148, 7).c_str(), nullptr, 8), sum_of(header));
  EXPECT_EQ(header[155], ' ');
}

TEST(Tar, LongNames) {
  const std::string deep = std::string(80, 'd') + "/" + std::string(90, 'f');
  std::string header = header_of({.name = deep});
  ASSERT_EQ(header.size(), kTarBlockSize);
  EXPECT_EQ(field(header, 345, 155), std::string(80, 'd'));
  EXPECT_EQ(field(header, 0, 100), std::string(90, 'f'));
  const std::string fits(100, 'n');
  EXPECT_EQ(header_of({.name = fits}).size(), kTarBlockSize);
  // With its slash a directory of this name has no room, and there is nowhere to cut it.
  header = header_of({.name = fits, .is_directory = true});
  ASSERT_EQ(header.size(), 3 * kTarBlockSize);
  EXPECT_EQ(header[156], 'x');
  EXPECT_EQ(field(header, 512, 512), "111 path=" + fits + "/\n");
  EXPECT_EQ(header[1024 + 156], '5');
}

TEST(Tar, WhatUstarCannotSay) {
  const auto records = [](const TarMember& member) {
    const std::string tar = header_of(member);
    return tar.size() == kTarBlockSize ? "" : field(tar, 512, 512);
  };
  EXPECT_EQ(records({.name = "x"}), "");
  EXPECT_EQ(records({.name = "\xc3\xa4"}), "11 path=\xc3\xa4\n");
  EXPECT_EQ(records({.name = "x", .uid = 07777777, .gid = 07777777}), "");
  EXPECT_EQ(records({.name = "x", .uid = 010000000}), "15 uid=2097152\n");
  EXPECT_EQ(records({.name = "x", .gid = -1}), "9 gid=-1\n");
  EXPECT_EQ(records({.name = "x", .size = (8ULL << 30) - 1}), "");
  EXPECT_EQ(records({.name = "x", .size = 8ULL << 30}), "19 size=8589934592\n");
  EXPECT_EQ(records({.name = "x", .mtime_ns = -1}), "12 mtime=-1\n");
  EXPECT_EQ(records({.name = "x", .mtime_ns = INT64_MIN}), "21 mtime=-9223372037\n");
}

TEST(Tar, ExactTimes) {
  EXPECT_EQ(header_of({.name = "x", .mtime_ns = 2'000'000'000}, true).size(), kTarBlockSize);
  std::string tar = header_of({.name = "x", .mtime_ns = 2'000'000'001}, true);
  EXPECT_EQ(field(tar, 512, 512), "21 mtime=2.000000001\n");
  EXPECT_EQ(field(tar, 1024 + 136, 12), "00000000002");
  tar = header_of({.name = "x", .mtime_ns = -500'000'000}, true);
  EXPECT_EQ(field(tar, 512, 512), "22 mtime=-0.500000000\n");
}

TEST(Tar, RecordsCountThemselves) {
  for (const std::size_t size : {101U, 991U, 992U, 993U, 9980U}) {
    const std::string name(size, 'n');
    const std::string tar = header_of({.name = name});
    const std::string records = field(tar, 512, tar.size() - 1024);
    EXPECT_EQ(std::strtoull(records.c_str(), nullptr, 10), records.size());
    EXPECT_TRUE(records.ends_with(" path=" + name + "\n"));
    EXPECT_EQ(tar.size() % kTarBlockSize, 0U);
  }
}

TEST(Tar, Contents) {
  TarPart part(false);
  const std::string content(513, 'c');
  expect_ok(part.add({.name = "full", .size = 9}, std::as_bytes(std::span(content))));
  expect_ok(part.add({.name = "empty"}, {}));
  ASSERT_EQ(part.bytes().size(), 4 * kTarBlockSize);
  EXPECT_EQ(text_of(part).substr(512, 513), content);
  EXPECT_EQ(field(text_of(part), 124, 12), "00000001001");
  EXPECT_EQ(part.content_bytes(), 513U);
}

TEST(Tar, FromDisk) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("headrace_tar_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  const std::string file = folder / "f";
  std::ofstream(file) << "hello";
  ASSERT_EQ(chmod(file.c_str(), 0604), 0);
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);

  TarPart part(false);
  expect_ok(part.add_from_disk(file.c_str(), "a/f", 5));
  expect_code(part.add_from_disk(file.c_str(), "a/f", 4), Code::too_large);
  expect_code(part.add_from_disk((folder / "pipe").c_str(), "p", 5), Code::unsupported);
  expect_code(part.add_from_disk((folder / "none").c_str(), "n", 5), Code::io_error);
  ASSERT_EQ(part.bytes().size(), 2 * kTarBlockSize);
  expect_ok(part.add_from_disk(folder.c_str(), "a", 0));
  const std::string tar = text_of(part);
  ASSERT_EQ(tar.size(), 3 * kTarBlockSize);
  EXPECT_EQ(field(tar, 0, 100), "a/f");
  EXPECT_EQ(field(tar, 100, 8), "0000604");
  EXPECT_EQ(field(tar, 512, 512), "hello");
  EXPECT_EQ(field(tar, 1024, 100), "a/");
  EXPECT_EQ(tar[1024 + 156], '5');
  EXPECT_EQ(part.content_bytes(), 5U);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace headrace
