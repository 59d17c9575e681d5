#include "headrace/io/file_mapping.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;

class File {
 public:
  explicit File(std::size_t size) : file_(std::tmpfile()) {
    const Bytes bytes(size, std::byte{7});
    EXPECT_EQ(pwrite(fd(), bytes.data(), size, 0), static_cast<ssize_t>(size));
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { std::fclose(file_); }

  [[nodiscard]] int fd() const { return fileno(file_); }

 private:
  std::FILE* file_;
};

TEST(FileMapping, OutlivesTheDescriptor) {
  const File file(10'000);
  const int fd = dup(file.fd());
  auto mapping = FileMapping::create(fd);
  close(fd);
  ASSERT_TRUE(mapping.is_ok());
  EXPECT_EQ(mapping.value().bytes().size(), 10'000U);
  EXPECT_EQ(mapping.value().bytes()[9'999], std::byte{7});
}

TEST(FileMapping, MovesItsBytes) {
  const File file(100);
  auto first = FileMapping::create(file.fd());
  ASSERT_TRUE(first.is_ok());
  const std::byte* data = first.value().bytes().data();
  const FileMapping second = std::move(first.value());
  EXPECT_EQ(second.bytes().data(), data);
  EXPECT_TRUE(first.value().bytes().empty());
}

TEST(FileMapping, AnEmptyFileHasNoBytes) {
  const File file(0);
  auto mapping = FileMapping::create(file.fd());
  ASSERT_TRUE(mapping.is_ok());
  EXPECT_TRUE(mapping.value().bytes().empty());
}

TEST(FileMapping, SaysWhatTheSystemSays) {
  EXPECT_EQ(FileMapping::create(-1).status().offset(), EBADF);
  const int folder = open("/", O_RDONLY | O_DIRECTORY);
  const auto mapping = FileMapping::create(folder);
  close(folder);
  EXPECT_TRUE(!mapping.is_ok() || mapping.value().bytes().empty());
}

}  // namespace
}  // namespace headrace
