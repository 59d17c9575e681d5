#include "headrace/io/file_checksum.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>

namespace headrace {
namespace {

constexpr std::size_t kBufferSize = 256 << 10;
constexpr std::uint64_t kLargestOffset = INT64_MAX;

// A part of a file in memory.
class FileWindow {
 public:
  explicit FileWindow(int fd) noexcept
      : fd_(fd), memory_(new (std::nothrow) std::byte[kBufferSize]) {}

  [[nodiscard]] bool has_memory() const noexcept { return memory_ != nullptr; }

  // The bytes from `offset` on, as many as are there, at most `wanted`. When they have to be read,
  // what follows up to `end` is read with them. Nothing at the end of the file; `error` is then 0.
  [[nodiscard]] ByteSpan at(std::uint64_t offset, std::uint64_t wanted, std::uint64_t end,
                            int& error) noexcept {
    if (offset < begin_ || offset >= begin_ + size_) {
      if (!read(offset, end, error)) return {};
    }
    const std::size_t skipped = static_cast<std::size_t>(offset - begin_);
    const std::size_t there = size_ - skipped;
    return {memory_.get() + skipped,
            static_cast<std::size_t>(std::min<std::uint64_t>(there, wanted))};
  }

 private:
  [[nodiscard]] bool read(std::uint64_t offset, std::uint64_t end, int& error) noexcept {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(kBufferSize, end - offset));
    ssize_t count = 0;
    do {
      count = pread(fd_, memory_.get(), most, static_cast<off_t>(offset));
    } while (count < 0 && errno == EINTR);
    error = count < 0 ? errno : 0;
    begin_ = offset;
    size_ = count < 0 ? 0 : static_cast<std::size_t>(count);
    return size_ > 0;
  }

  int fd_;
  std::unique_ptr<std::byte[]> memory_;
  std::uint64_t begin_ = 0;
  std::size_t size_ = 0;
};

// Where the run of spans ends that begins with span i: each begins where the one before it ends, or
// not far behind.
std::uint64_t end_of_run(SpanList spans, std::size_t i) noexcept {
  constexpr std::uint64_t kSmallGap = 4096;
  const std::uint64_t enough = spans.offsets[i] + kBufferSize;
  std::uint64_t end = spans.offsets[i] + spans.sizes[i];
  for (++i; i < spans.offsets.size() && end < enough; ++i) {
    if (spans.offsets[i] < end || spans.offsets[i] - end > kSmallGap) break;
    end = spans.offsets[i] + spans.sizes[i];
  }
  return end;
}

Status failure(int error, std::size_t position) noexcept {
  const auto where = static_cast<std::int64_t>(position);
  if (error == 0) return Status(Code::truncated, "the file ends before it", where);
  return Status(Code::io_error, Detail("error ") << static_cast<std::uint64_t>(error), where);
}

}  // namespace

Status checksum_file(int fd, ChecksumKind kind, SpanList spans,
                     std::span<std::uint32_t> out) noexcept {
  if (Status status = check_spans(spans, kLargestOffset); !status.is_ok()) return status;
  if (out.size() != spans.offsets.size()) {
    return Status(Code::invalid_argument, "as many checksums as spans are needed");
  }
  FileWindow window(fd);
  if (!window.has_memory()) return Status(Code::out_of_memory, "no memory to read into");
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint32_t sum = 0;
    std::uint64_t offset = spans.offsets[i];
    const std::uint64_t end = offset + spans.sizes[i];
    const std::uint64_t run = end_of_run(spans, i);
    while (offset < end) {
      int error = 0;
      const ByteSpan part = window.at(offset, end - offset, run, error);
      if (part.empty()) return failure(error, i);
      sum = checksum(kind, part, sum);
      offset += part.size();
    }
    out[i] = sum;
  }
  return {};
}

}  // namespace headrace
