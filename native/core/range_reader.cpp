#include "penstock/range_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <system_error>

#include "core/lane.hpp"
#include "core/read_call.hpp"

namespace penstock {
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

}  // namespace

std::string_view read_engine_name(ReadEngine engine) noexcept {
  constexpr std::array<std::string_view, 3> names = {"auto", "io_uring", "threads"};
  return names[static_cast<std::size_t>(engine)];
}

Detail ReadFailure::detail() const noexcept {
  Detail text;
  if (code == Code::truncated) {
    text << "the file ended at byte " << found;
  } else if (code == Code::corrupt) {
    add_hex(add_hex(text << "checksum ", expected) << " expected, found ", found);
  } else {
    add_errno(text, static_cast<int>(found));
  }
  return text;
}

Result<std::unique_ptr<RangeReader>> RangeReader::open(const char* path,
                                                       const ReaderOptions& options) noexcept {
  if (options.queue_depth == 0 || options.queue_depth > kMaxQueueDepth) {
    return Status(Code::invalid_argument, Detail("queue_depth must be 1 to ")
                                              << std::uint64_t{kMaxQueueDepth} << ", not "
                                              << options.queue_depth);
  }
  Status status;
  const int fd = open_regular(path, status);
  if (fd < 0) return status;
  std::unique_ptr<RangeReader> reader(new (std::nothrow) RangeReader(fd, options));
  if (!reader) {
    close(fd);
    return Status(Code::out_of_memory, "no memory for the reader");
  }
  // We know what we want; guesses of the kernel about what comes next would be read in vain.
  static_cast<void>(posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM));
  if (options.is_direct) reader->open_direct();
  auto lane = reader->take_lane();
  if (!lane.is_ok()) return lane.status();
  reader->engine_ = lane.value()->engine();
  reader->return_lane(std::move(lane.value()));
  return reader;
}

// By the descriptor, so that it is the same file even when the name has another one by now.
void RangeReader::open_direct() noexcept {
#ifdef O_DIRECT
  Detail name("/proc/self/fd/");
  name << static_cast<std::uint64_t>(fd_);
  direct_fd_ = ::open(name.view().data(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  is_direct_.store(direct_fd_ >= 0, std::memory_order_relaxed);
#endif
}

RangeReader::~RangeReader() {
  LanePool* pool = lanes_.load(std::memory_order_acquire);
  // A parent's lanes are left alone: its threads do not exist here, its rings are not ours.
  if (pool != nullptr && pool->process() == getpid()) delete pool;
  if (direct_fd_ >= 0) close(direct_fd_);
  close(fd_);
}

Result<std::uint64_t> RangeReader::size() const noexcept {
  struct stat facts{};
  if (fstat(fd_, &facts) != 0) return os_error(errno, "the file cannot be asked for its size");
  return static_cast<std::uint64_t>(facts.st_size);
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
  std::unique_ptr<ReadCall::Work> work(new (std::nothrow)
                                           ReadCall::Work(fd_, direct_fd_, is_direct_));
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

}  // namespace penstock
