#include "headrace/io/sparse_mapping.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace headrace {
namespace {

// Parts that are large and lie well get large pages, which cost a tenth of the time to make.
constexpr std::size_t kLargePage = std::size_t{2} << 20;

std::size_t page_size() noexcept { return static_cast<std::size_t>(getpagesize()); }

// Of a file without bytes, so that every page of it is missing. Anywhere, or in a fixed place.
Result<std::byte*> map_nothing(std::byte* place, std::size_t size) noexcept {
  const int fd = memfd_create("headrace", MFD_CLOEXEC);
  if (fd < 0) return Status(Code::io_error, "no file in memory can be made", errno);
  const int flags = MAP_SHARED | MAP_NORESERVE | (place == nullptr ? 0 : MAP_FIXED);
  void* start = mmap(place, size, PROT_READ, flags, fd, 0);
  const int error = errno;
  close(fd);
  if (start == MAP_FAILED) return Status(Code::io_error, "addresses cannot be reserved", error);
  return static_cast<std::byte*>(start);
}

// As many addresses as are asked for, from a large page on; what is too much goes back.
Result<std::byte*> reserve(std::size_t size) noexcept {
  const auto start = map_nothing(nullptr, size + kLargePage);
  if (!start.is_ok()) return start.status();
  const auto address = reinterpret_cast<std::uintptr_t>(start.value());
  const std::size_t before = round_up(address, kLargePage) - address;
  if (before > 0) munmap(start.value(), before);
  if (before < kLargePage) munmap(start.value() + before + size, kLargePage - before);
  return start.value() + before;
}

}  // namespace

Result<SparseMapping> SparseMapping::create(std::uint64_t size) noexcept {
  if (size == 0) {
    auto none = MappingGuard::create({});
    if (!none.is_ok()) return none.status();
    return SparseMapping(nullptr, 0, std::move(none.value()));
  }
  if (size > std::numeric_limits<std::size_t>::max() / 4) {
    return Status(Code::io_error, "there are not so many addresses", ENOMEM);
  }
  const std::size_t reserved = round_up(static_cast<std::size_t>(size), page_size());
  const auto start = reserve(reserved);
  if (!start.is_ok()) return start.status();
  auto guard = MappingGuard::create({start.value(), static_cast<std::size_t>(size)});
  if (!guard.is_ok()) {
    munmap(start.value(), reserved);
    return guard.status();
  }
  return SparseMapping(start.value(), static_cast<std::size_t>(size), std::move(guard.value()));
}

SparseMapping::SparseMapping(SparseMapping&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      guard_(std::move(other.guard_)) {}

SparseMapping::~SparseMapping() {
  // The guard goes first: another mapping may get the addresses at once.
  {
    const MappingGuard over = std::move(guard_);
  }
  if (size_ > 0) munmap(begin_, round_up(size_, page_size()));
}

Status SparseMapping::check(std::uint64_t start, std::uint64_t size) const noexcept {
  if (!is_inside(start, size, size_)) {
    return Status(Code::out_of_bounds, Detail("bytes ")
                                           << start << " and " << size << " more do not lie in the "
                                           << size_ << " of the mapping");
  }
  const bool is_at_end = start + size == size_;
  if (start % page_size() != 0 || (size % page_size() != 0 && !is_at_end)) {
    return Status(Code::invalid_argument, Detail("a part must begin and end at a page of ")
                                              << page_size() << " bytes");
  }
  return {};
}

Result<MutableByteSpan> SparseMapping::writable(std::uint64_t start, std::uint64_t size) noexcept {
  if (Status status = check(start, size); !status.is_ok()) return status;
  if (size == 0) return MutableByteSpan{};
  std::byte* place = begin_ + start;
  const std::size_t whole = round_up(static_cast<std::size_t>(size), page_size());
  void* made =
      mmap(place, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (made == MAP_FAILED) return Status(Code::out_of_memory, "no memory for a part of a mapping");
  if (whole >= kLargePage) madvise(place, whole, MADV_HUGEPAGE);  // where the system has them
  return MutableByteSpan{place, static_cast<std::size_t>(size)};
}

Result<bool> SparseMapping::adopt(std::uint64_t start, std::uint64_t size, SparseMapping& from,
                                  std::uint64_t from_start) noexcept {
  if (Status status = check(start, size); !status.is_ok()) return status;
  if (Status status = from.check(from_start, size); !status.is_ok()) return status;
#ifdef MREMAP_DONTUNMAP
  if (size == 0) return false;
  const std::size_t whole = round_up(static_cast<std::size_t>(size), page_size());
  std::byte* source = from.begin_ + from_start;
  const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;
  if (mremap(source, whole, whole, flags, begin_ + start) == MAP_FAILED) return false;
  // The old addresses are ours still, and would read as zeros that nobody counts.
  if (const auto dropped = map_nothing(source, whole); !dropped.is_ok()) return dropped.status();
  if (mprotect(begin_ + start, whole, PROT_READ | PROT_WRITE) != 0) {
    return Status(Code::io_error, "a part of a mapping cannot be written to", errno);
  }
  return true;
#else
  return false;
#endif
}

Status SparseMapping::overwrite(std::uint64_t start, ByteSpan data) noexcept {
  if (Status status = check(start, data.size()); !status.is_ok()) return status;
  if (!data.empty()) std::memcpy(begin_ + start, data.data(), data.size());
  return seal(start, data.size());
}

Status SparseMapping::seal(std::uint64_t start, std::uint64_t size) noexcept {
  if (Status status = check(start, size); !status.is_ok() || size == 0) return status;
  const std::size_t whole = round_up(static_cast<std::size_t>(size), page_size());
  if (mprotect(begin_ + start, whole, PROT_READ) != 0) {
    return Status(Code::io_error, "a part of a mapping cannot be protected", errno);
  }
  return {};
}

Status SparseMapping::fill(std::uint64_t start, ByteSpan data) noexcept {
  const auto place = writable(start, data.size());
  if (!place.is_ok()) return place.status();
  if (!data.empty()) std::memcpy(place.value().data(), data.data(), data.size());
  return seal(start, data.size());
}

Status SparseMapping::drop(std::uint64_t start, std::uint64_t size) noexcept {
  if (Status status = check(start, size); !status.is_ok() || size == 0) return status;
  const std::size_t whole = round_up(static_cast<std::size_t>(size), page_size());
  return map_nothing(begin_ + start, whole).status();
}

}  // namespace headrace
