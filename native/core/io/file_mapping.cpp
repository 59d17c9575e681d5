#include "headrace/io/file_mapping.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

namespace headrace {

Result<FileMapping> FileMapping::create(int fd) noexcept {
  struct stat facts{};
  if (fstat(fd, &facts) != 0) {
    return Status(Code::io_error, "the file cannot be asked for its size", errno);
  }
  if (facts.st_size <= 0) return FileMapping(ByteSpan{});
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* start = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (start == MAP_FAILED) return Status(Code::io_error, "the file cannot be mapped", errno);
  return FileMapping({static_cast<const std::byte*>(start), size});
}

FileMapping::~FileMapping() {
  if (!mapped_.empty()) munmap(const_cast<std::byte*>(mapped_.data()), mapped_.size());
}

}  // namespace headrace
