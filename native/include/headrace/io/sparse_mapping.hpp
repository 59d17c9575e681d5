// Memory at the addresses that a large file would have, of which only parts are there.
//
// A range of addresses is reserved, and takes no memory. Bytes come by `fill`, or by `writable` and
// `seal`; `drop` gives their memory back. To touch what is not there reads as zeros and is counted,
// as in a file that was cut short (see MappingGuard). The count never goes back.
//
// Who calls: any thread, but of one place only one at a time. Whoever drops bytes makes sure that
// nobody reads them. After fork() the child has what was there.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/bytes.hpp"
#include "headrace/io/mapping_guard.hpp"
#include "headrace/status.hpp"

namespace headrace {

class SparseMapping {
 public:
  // Fails with `io_error`, whose offset is the error number of the system, when there are not so
  // many addresses.
  static Result<SparseMapping> create(std::uint64_t size) noexcept;

  SparseMapping(SparseMapping&& other) noexcept;
  SparseMapping& operator=(SparseMapping&&) = delete;
  ~SparseMapping();

  [[nodiscard]] ByteSpan bytes() const noexcept { return {begin_, size_}; }
  [[nodiscard]] std::uint64_t faults() const noexcept { return guard_.faults(); }

  // In all of these a part begins at a page, and ends at one or at the end of the mapping.

  // Puts bytes into place, read-only.
  [[nodiscard]] Status fill(std::uint64_t start, ByteSpan data) noexcept;

  // Lets a part have the memory of a part of the same size that is not needed any more, of this or
  // of another mapping: the system need not clear it. It can be written to until it is sealed, and
  // has the old bytes. The other part is dropped. False where the system cannot do that, and
  // nothing has changed.
  [[nodiscard]] Result<bool> adopt(std::uint64_t start, std::uint64_t size, SparseMapping& from,
                                   std::uint64_t from_start) noexcept;
  // Puts bytes into memory that can be written to, and seals it.
  [[nodiscard]] Status overwrite(std::uint64_t start, ByteSpan data) noexcept;

  // Fresh memory for a part, to write to until it is sealed.
  [[nodiscard]] Result<MutableByteSpan> writable(std::uint64_t start, std::uint64_t size) noexcept;
  [[nodiscard]] Status seal(std::uint64_t start, std::uint64_t size) noexcept;

  // Gives memory back; the part is not there any more.
  [[nodiscard]] Status drop(std::uint64_t start, std::uint64_t size) noexcept;

 private:
  SparseMapping(std::byte* begin, std::size_t size, MappingGuard guard) noexcept
      : begin_(begin), size_(size), guard_(std::move(guard)) {}

  [[nodiscard]] Status check(std::uint64_t start, std::uint64_t size) const noexcept;

  std::byte* begin_;
  std::size_t size_;
  MappingGuard guard_;
};

}  // namespace headrace
