// A whole file in memory, read-only, without keeping it open: a dataset of a thousand parts costs
// no descriptors. The mapping is shared, so it shows what others write to the file meanwhile.
#pragma once

#include <cstddef>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

class FileMapping {
 public:
  // Maps what the file has now; the caller may close it afterwards. Fails with `io_error`, whose
  // offset is the error number of the system.
  static Result<FileMapping> create(int fd) noexcept;

  FileMapping(FileMapping&& other) noexcept : mapped_(other.mapped_) { other.mapped_ = {}; }
  FileMapping& operator=(FileMapping&&) = delete;
  ~FileMapping();

  [[nodiscard]] ByteSpan bytes() const noexcept { return mapped_; }

 private:
  explicit FileMapping(ByteSpan mapped) noexcept : mapped_(mapped) {}

  ByteSpan mapped_;
};

}  // namespace headrace
