// Many ranges of one file or several, read at once: the queue of the disk is kept full.
//
// Who calls: any number of threads may read through one reader; each call takes a lane (a ring or a
// few threads, and its buffers) of its own from a small pool. One call belongs to one thread. Who
// closes: the reader is destroyed after its calls; a call that is destroyed before it is done waits
// for the reads under way, because they write into the caller's memory. On failure: a range that
// could not be read is reported with its reason, the others are read. On Ctrl-C: `advance` returns
// after the given time, and the caller looks for signals. After fork() the child makes lanes of its
// own and never touches those of its parent.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/checksum.hpp"
#include "headrace/io/gather.hpp"
#include "headrace/status.hpp"

namespace headrace {

enum class ReadEngine : std::uint8_t { automatic, io_uring, threads };

[[nodiscard]] std::string_view read_engine_name(ReadEngine engine) noexcept;

struct ReaderOptions {
  std::size_t queue_depth = 64;
  bool is_direct = false;  // past the page cache, where the file system can
  ReadEngine engine = ReadEngine::automatic;
};

// Range i of the file goes to out[places[i]] and on. `checksums` is empty, or has one for each.
// Where `destinations` has one for each, range i goes to the sizes[i] bytes there, and `out` and
// `places` are empty. `files` says which file a range is of; empty means the first.
struct ReadRequest {
  SpanList ranges;
  MutableByteSpan out;
  std::span<const std::uint64_t> places;
  std::span<const std::uint32_t> checksums;
  ChecksumKind checksum_kind = ChecksumKind::crc32c;
  std::span<std::byte* const> destinations = {};
  std::span<const std::uint32_t> files = {};
};

// Why a range could not be read. Small, because there may be as many as ranges.
struct ReadFailure {
  std::size_t position = 0;    // of the range in the request
  Code code = Code::io_error;  // truncated, io_error or wrong_checksum
  std::uint64_t expected = 0;  // the checksum
  std::uint64_t found = 0;     // the checksum; truncated: the file's end; io_error: errno

  [[nodiscard]] Detail detail() const noexcept;
};

// Descriptors of one file; `direct_fd` is -1 where there is none.
struct OpenFile {
  int fd;
  int direct_fd;
};

class Lane;
class LanePool;
class ReadCall;

class RangeReader {
 public:
  static constexpr std::size_t kMaxQueueDepth = 4096;

  // A failure of the operating system is an `io_error` whose offset is the errno.
  static Result<std::unique_ptr<RangeReader>> open(const char* path,
                                                   const ReaderOptions& options) noexcept;
  // Several files, one queue. `failed` receives the index of the file that could not be opened.
  static Result<std::unique_ptr<RangeReader>> open(std::span<const char* const> paths,
                                                   const ReaderOptions& options,
                                                   std::size_t* failed = nullptr) noexcept;
  RangeReader(const RangeReader&) = delete;
  RangeReader& operator=(const RangeReader&) = delete;
  ~RangeReader();

  // What is in use, not what was asked for.
  [[nodiscard]] ReadEngine engine() const noexcept { return engine_; }
  [[nodiscard]] bool is_direct() const noexcept {
    return is_direct_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::size_t files() const noexcept { return files_.size(); }
  // Of a file as it is now.
  Result<std::uint64_t> size(std::size_t file = 0) const noexcept;
  // How many of these bytes are in the page cache; `unsupported` where the system cannot tell. A
  // byte that is not there may be fetched by the question. `files` as in a request.
  Result<std::size_t> count_cached(std::span<const std::uint64_t> offsets,
                                   std::span<const std::uint32_t> files) const noexcept;

  // Checks the whole request; nothing is read before `advance`. An error's offset is the position
  // of the bad range. Destinations may not overlap. The request's memory is used until the call is
  // destroyed.
  Result<std::unique_ptr<ReadCall>> begin(const ReadRequest& request) noexcept;

  // All at once, for callers that need not look for signals. Failures are in order of position.
  Status read(const ReadRequest& request, std::vector<ReadFailure>& failures) noexcept;

 private:
  friend class ReadCall;

  explicit RangeReader(const ReaderOptions& options) noexcept : options_(options) {}
  Status open_file(const char* path) noexcept;
  [[nodiscard]] LanePool* lanes() noexcept;
  Result<std::unique_ptr<Lane>> take_lane() noexcept;
  void return_lane(std::unique_ptr<Lane> lane) noexcept;

  std::vector<OpenFile> files_;
  ReaderOptions options_;
  ReadEngine engine_ = ReadEngine::threads;
  std::atomic<bool> is_direct_{false};
  std::atomic<LanePool*> lanes_{nullptr};
};

// One request under way.
class ReadCall {
 public:
  ReadCall(const ReadCall&) = delete;
  ReadCall& operator=(const ReadCall&) = delete;
  ~ReadCall();

  // Goes on for about `time` at most; true when everything is done.
  [[nodiscard]] bool advance(std::chrono::milliseconds time) noexcept;
  // In order of position; when done.
  [[nodiscard]] std::span<const ReadFailure> failures() const noexcept;

  class Work;

 private:
  friend class RangeReader;

  ReadCall(RangeReader& reader, std::unique_ptr<Lane> lane, std::unique_ptr<Work> work) noexcept;

  RangeReader& reader_;
  std::unique_ptr<Lane> lane_;
  std::unique_ptr<Work> work_;
};

}  // namespace headrace
