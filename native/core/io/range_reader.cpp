#include "headrace/io/range_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "core/io/lane.hpp"
#include "core/io/read_call.hpp"

namespace headrace {
namespace {

Status os_error(int error, std::string_view what) noexcept {
  return Status(Code::io_error, what, error);
}

// Text of 32 bits as 0x and eight digits.
Detail& add_hex(Detail& detail, std::uint64_t number) noexcept {
  std::array<char, 10> text = {'0', 'x'};
  for (std::size_t i = 0; i < 8; ++i)
    text[2 + i] = "0123456789abcdef"[number >> (28 - 4 * i) & 0xF];
  return detail << std::string_view(text.data(), text.size());
}

void add_errno(Detail& detail, int error) noexcept {
  try {
    detail << std::generic_category().message(error);
  } catch (const std::bad_alloc&) {
    detail << "error " << static_cast<std::uint64_t>(error);
  }
}

// A pipe would block on opening, and to ask first would be too early.
int open_regular(const char* path, Status& status) noexcept {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    status = os_error(errno, "the file cannot be opened");
    return -1;
  }
  struct stat facts{};
  if (fstat(fd, &facts) != 0) {
    status = os_error(errno, "the file cannot be asked for its size");
  } else if (S_ISDIR(facts.st_mode)) {
    status = os_error(EISDIR, "this is a directory");
  } else if (!S_ISREG(facts.st_mode)) {
    status = Status(Code::unsupported, "not a regular file");
  } else if (fcntl(fd, F_SETFL, 0) != 0) {
    status = os_error(errno, "the file cannot be made blocking");
  } else {
    return fd;
  }
  close(fd);
  return -1;
}

// By the descriptor, so that it is the same file even when the name has another one by now.
int open_direct([[maybe_unused]] int fd) noexcept {
#ifdef O_DIRECT
  Detail name("/proc/self/fd/");
  name << static_cast<std::uint64_t>(fd);
  return ::open(name.view().data(), O_RDONLY | O_CLOEXEC | O_DIRECT);
#else
  return -1;
#endif
}

// 1, 0, or -1 when the system cannot tell.
int is_cached([[maybe_unused]] int fd, [[maybe_unused]] std::uint64_t offset) noexcept {
#ifdef RWF_NOWAIT
  std::byte byte;
  const iovec piece = {&byte, 1};
  const ssize_t count = preadv2(fd, &piece, 1, static_cast<off_t>(offset), RWF_NOWAIT);
  if (count >= 0) return 1;  // also behind the end, where nothing has to be fetched
  return errno == EAGAIN ? 0 : -1;
#else
  return -1;
#endif
}

Status no_such_file(std::size_t file, std::size_t count) noexcept {
  return Status(Code::invalid_argument, Detail("there is no file ")
                                            << file << ", the reader has " << count);
}

}  // namespace

std::string_view read_engine_name(ReadEngine engine) noexcept {
  constexpr std::array<std::string_view, 3> names = {"auto", "io_uring", "threads"};
  return names[static_cast<std::size_t>(engine)];
}

Detail ReadFailure::detail() const noexcept {
  Detail text;
  if (code == Code::truncated) {
    text << "the file ended at byte " << found;
  } else if (code == Code::wrong_checksum) {
    add_hex(add_hex(text << "checksum ", expected) << " expected, found ", found);
  } else {
    add_errno(text, static_cast<int>(found));
  }
  return text;
}

Result<std::unique_ptr<RangeReader>> RangeReader::open(const char* path,
                                                       const ReaderOptions& options) noexcept {
  return open(std::span(&path, 1), options);
}

Result<std::unique_ptr<RangeReader>> RangeReader::open(std::span<const char* const> paths,
                                                       const ReaderOptions& options,
                                                       std::size_t* failed) noexcept {
  if (options.queue_depth == 0 || options.queue_depth > kMaxQueueDepth) {
    return Status(Code::invalid_argument, Detail("queue_depth must be 1 to ")
                                              << std::uint64_t{kMaxQueueDepth} << ", not "
                                              << options.queue_depth);
  }
  std::unique_ptr<RangeReader> reader(new (std::nothrow) RangeReader(options));
  if (!reader) return Status(Code::out_of_memory, "no memory for the reader");
  reader->is_direct_.store(options.is_direct, std::memory_order_relaxed);
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (Status status = reader->open_file(paths[i]); !status.is_ok()) {
      if (failed != nullptr) *failed = i;
      return status;
    }
  }
  auto lane = reader->take_lane();
  if (!lane.is_ok()) return lane.status();
  reader->engine_ = lane.value()->engine();
  reader->return_lane(std::move(lane.value()));
  return reader;
}

Status RangeReader::open_file(const char* path) noexcept {
  try {
    files_.reserve(files_.size() + 1);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the reader");
  }
  Status status;
  const int fd = open_regular(path, status);
  if (fd < 0) return status;
  // We know what we want; guesses of the kernel about what comes next would be read in vain.
  static_cast<void>(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
  const int direct_fd = options_.is_direct ? open_direct(fd) : -1;
  if (direct_fd < 0) is_direct_.store(false, std::memory_order_relaxed);
  files_.push_back({fd, direct_fd});
  return {};
}

RangeReader::~RangeReader() {
  LanePool* pool = lanes_.load(std::memory_order_acquire);
  // A parent's lanes are left alone: its threads do not exist here, its rings are not ours.
  if (pool != nullptr && pool->process() == getpid()) delete pool;
  for (const OpenFile& file : files_) {
    if (file.direct_fd >= 0) close(file.direct_fd);
    close(file.fd);
  }
}

Result<std::uint64_t> RangeReader::size(std::size_t file) const noexcept {
  if (file >= files_.size()) return no_such_file(file, files_.size());
  struct stat facts{};
  if (fstat(files_[file].fd, &facts) != 0) {
    return os_error(errno, "the file cannot be asked for its size");
  }
  return static_cast<std::uint64_t>(facts.st_size);
}

Result<std::size_t> RangeReader::count_cached(std::span<const std::uint64_t> offsets,
                                              std::span<const std::uint32_t> files) const noexcept {
  if (!files.empty() && files.size() != offsets.size()) {
    return Status(Code::invalid_argument,
                  Detail() << offsets.size() << " offsets, but " << files.size() << " files");
  }
  std::size_t count = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const std::size_t file = files.empty() ? 0 : files[i];
    if (file >= files_.size()) return no_such_file(file, files_.size());
    const int answer = is_cached(files_[file].fd, offsets[i]);
    if (answer < 0) return Status(Code::unsupported, "the system cannot tell what is cached");
    count += static_cast<std::size_t>(answer);
  }
  return count;
}

// Null when there is no memory.
LanePool* RangeReader::lanes() noexcept {
  const pid_t process = getpid();
  LanePool* pool = lanes_.load(std::memory_order_acquire);
  while (pool == nullptr || pool->process() != process) {
    auto* fresh = new (std::nothrow) LanePool(process);
    if (fresh == nullptr) return nullptr;
    if (lanes_.compare_exchange_strong(pool, fresh)) return fresh;
    delete fresh;  // another thread was faster
  }
  return pool;
}

Result<std::unique_ptr<Lane>> RangeReader::take_lane() noexcept {
  LanePool* pool = lanes();
  std::unique_ptr<Lane> lane = pool != nullptr ? pool->take() : nullptr;
  while (lane && lane->engine() == ReadEngine::io_uring && is_uring_stuck()) lane = pool->take();
  if (!lane) {
    auto made = Lane::create(options_.queue_depth, options_.engine);
    if (!made.is_ok()) return made.status();
    lane = std::move(made.value());
  }
  lane->free_slots().clear();
  for (std::size_t i = lane->slots().size(); i > 0; --i) {
    lane->free_slots().push_back(static_cast<std::uint32_t>(i - 1));
  }
  return lane;
}

void RangeReader::return_lane(std::unique_ptr<Lane> lane) noexcept {
  if (!lane->is_ours()) {
    static_cast<void>(lane.release());  // the parent's
  } else if (LanePool* pool = lanes(); pool != nullptr) {
    pool->give(std::move(lane));
  }
}

Result<std::unique_ptr<ReadCall>> RangeReader::begin(const ReadRequest& request) noexcept {
  std::unique_ptr<ReadCall::Work> work(new (std::nothrow) ReadCall::Work(files_, is_direct_));
  if (!work) return Status(Code::out_of_memory, "no memory for the call");
  if (Status status = work->prepare(request); !status.is_ok()) return status;
  auto lane = take_lane();
  if (!lane.is_ok()) return lane.status();
  std::unique_ptr<ReadCall> call(new (std::nothrow)
                                     ReadCall(*this, std::move(lane.value()), std::move(work)));
  if (!call) return Status(Code::out_of_memory, "no memory for the call");
  return call;
}

Status RangeReader::read(const ReadRequest& request, std::vector<ReadFailure>& failures) noexcept {
  auto call = begin(request);
  if (!call.is_ok()) return call.status();
  while (!call.value()->advance(std::chrono::seconds(1))) {
  }
  const std::span<const ReadFailure> found = call.value()->failures();
  try {
    failures.assign(found.begin(), found.end());
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the failures");
  }
  return {};
}

ReadCall::ReadCall(RangeReader& reader, std::unique_ptr<Lane> lane,
                   std::unique_ptr<Work> work) noexcept
    : reader_(reader), lane_(std::move(lane)), work_(std::move(work)) {}

ReadCall::~ReadCall() {
  if (lane_->is_ours()) work_->drain(*lane_);
  reader_.return_lane(std::move(lane_));
}

bool ReadCall::advance(std::chrono::milliseconds time) noexcept {
  if (!lane_->is_ours()) work_->abandon();
  return work_->is_done() || work_->advance(*lane_, time);
}

std::span<const ReadFailure> ReadCall::failures() const noexcept { return work_->failures(); }

}  // namespace headrace
