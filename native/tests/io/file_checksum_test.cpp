#include "headrace/io/file_checksum.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::random_bytes;

class FileChecksumTest : public ::testing::Test {
 protected:
  FileChecksumTest() : data_(random_bytes(1'000'003, 7)) {
    std::string name = ::testing::TempDir() + "headrace_file_checksum_XXXXXX";
    fd_ = mkstemp(name.data());
    unlink(name.c_str());
    EXPECT_EQ(write(fd_, data_.data(), data_.size()), static_cast<ssize_t>(data_.size()));
  }
  ~FileChecksumTest() override { close(fd_); }
  FileChecksumTest(const FileChecksumTest&) = delete;
  FileChecksumTest& operator=(const FileChecksumTest&) = delete;

  Bytes data_;
  int fd_ = -1;
};

TEST_F(FileChecksumTest, SumsAreThoseOfTheBytes) {
  const std::vector<std::uint64_t> offsets = {0, 10, 20, 300'000, 299'999, 1'000'003, 0, 4000};
  const std::vector<std::uint64_t> sizes = {10, 10, 299'980, 5, 700'004, 0, 1'000'003, 1};
  for (const ChecksumKind kind : {ChecksumKind::crc32c, ChecksumKind::crc32}) {
    std::vector<std::uint32_t> found(offsets.size());
    expect_ok(checksum_file(fd_, kind, {offsets, sizes}, found));
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      EXPECT_EQ(found[i], checksum(kind, ByteSpan(data_).subspan(offsets[i], sizes[i]))) << i;
    }
  }
}

TEST_F(FileChecksumTest, EveryNeighbourOfEverySize) {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  std::uint64_t at = 0;
  for (std::uint64_t i = 0; at + i * 31 < data_.size(); ++i) {
    offsets.push_back(at);
    sizes.push_back(i * 31);
    at += i * 31 + i % 3;
  }
  std::vector<std::uint32_t> found(offsets.size());
  expect_ok(checksum_file(fd_, ChecksumKind::crc32c, {offsets, sizes}, found));
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    ASSERT_EQ(found[i], crc32c(ByteSpan(data_).subspan(offsets[i], sizes[i]))) << i;
  }
}

TEST_F(FileChecksumTest, TellsWhichIsNotThere) {
  const std::vector<std::uint64_t> offsets = {0, 999'990};
  const std::vector<std::uint64_t> sizes = {10, 14};
  std::vector<std::uint32_t> found(2);
  const Status cut = checksum_file(fd_, ChecksumKind::crc32c, {offsets, sizes}, found);
  expect_code(cut, Code::truncated);
  EXPECT_EQ(cut.offset(), 1);
  const Status bad = checksum_file(-1, ChecksumKind::crc32c, {offsets, sizes}, found);
  expect_code(bad, Code::io_error);
  EXPECT_EQ(bad.offset(), 0);
  const std::vector<std::uint64_t> far = {UINT64_MAX - 3};
  const std::vector<std::uint64_t> four = {4};
  expect_code(checksum_file(fd_, ChecksumKind::crc32c, {far, four}, std::span(found).first(1)),
              Code::out_of_bounds);
  expect_code(checksum_file(fd_, ChecksumKind::crc32c, {offsets, sizes}, std::span(found).first(1)),
              Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
