#include "headrace/io/mapping_guard.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <numeric>
#include <string>
#include <thread>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_ok;

const std::size_t kPage = static_cast<std::size_t>(getpagesize());

// A file without a name, mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(std::size_t size) : size_(size), file_(std::tmpfile()) {
    const Bytes bytes(size, std::byte{7});
    EXPECT_EQ(pwrite(fd(), bytes.data(), size, 0), static_cast<ssize_t>(size));
    memory_ = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd(), 0);
    EXPECT_NE(memory_, MAP_FAILED);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    munmap(memory_, size_);
    std::fclose(file_);
  }

  [[nodiscard]] ByteSpan bytes() const { return {static_cast<const std::byte*>(memory_), size_}; }
  void truncate(std::size_t size) const { EXPECT_EQ(ftruncate(fd(), static_cast<off_t>(size)), 0); }

 private:
  [[nodiscard]] int fd() const { return fileno(file_); }

  std::size_t size_;
  std::FILE* file_;
  void* memory_ = nullptr;
};

std::uint64_t sum(ByteSpan bytes) {
  std::uint64_t total = 0;
  for (const std::byte byte : bytes) total += std::to_integer<std::uint64_t>(byte);
  return total;
}

MappingGuard guard_of(ByteSpan bytes) {
  auto guard = MappingGuard::create(bytes);
  expect_ok(guard.status());
  return std::move(guard.value());
}

// How a child ends that does this.
template <typename Work>
int status_of_child(Work work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

void set_default_handler() { std::signal(SIGBUS, SIG_DFL); }

TEST(MappingGuard, MissingPagesAreZerosAndCounted) {
  const MappedFile file(10 * kPage + 5);
  const MappingGuard guard = guard_of(file.bytes());
  EXPECT_EQ(sum(file.bytes()), 7 * file.bytes().size());
  EXPECT_EQ(guard.faults(), 0U);
  file.truncate(3 * kPage);
  EXPECT_EQ(sum(file.bytes()), 7 * 3 * kPage);
  EXPECT_EQ(guard.faults(), 8U);
  EXPECT_EQ(sum(file.bytes()), 7 * 3 * kPage);
  EXPECT_EQ(guard.faults(), 8U);
}

TEST(MappingGuard, EachCountsItsOwn) {
  const MappedFile a(4 * kPage);
  const MappedFile b(4 * kPage);
  const MappingGuard guard_a = guard_of(a.bytes());
  const MappingGuard guard_b = guard_of(b.bytes());
  a.truncate(0);
  EXPECT_EQ(sum(a.bytes()) + sum(b.bytes()), 7 * 4 * kPage);
  EXPECT_EQ(guard_a.faults(), 4U);
  EXPECT_EQ(guard_b.faults(), 0U);
}

TEST(MappingGuard, NoBytesNeedNoGuard) { EXPECT_EQ(guard_of({}).faults(), 0U); }

TEST(MappingGuard, ManyAtOnceAndReused) {
  const MappedFile file(2 * kPage);
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<MappedFile>> files;
    std::vector<MappingGuard> guards;
    for (int i = 0; i < 200; ++i) {
      files.push_back(std::make_unique<MappedFile>(kPage));
      guards.push_back(guard_of(files.back()->bytes()));
    }
    files[150]->truncate(0);
    EXPECT_EQ(sum(files[150]->bytes()), 0U);
    EXPECT_EQ(guards[150].faults(), 1U);
    EXPECT_EQ(guards[149].faults(), 0U);
  }
}

TEST(MappingGuard, FromManyThreads) {
  const MappedFile file(64 * kPage);
  const MappingGuard guard = guard_of(file.bytes());
  file.truncate(0);
  std::atomic<std::uint64_t> total{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      // Guards come and go while others fault.
      for (int round = 0; round < 50; ++round) {
        static_cast<void>(guard_of(file.bytes().first(1)).faults());
      }
      total += sum(file.bytes());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(total.load(), 0U);
  EXPECT_GE(guard.faults(), 64U);
}

TEST(MappingGuard, WorksInAChild) {
  const MappedFile file(4 * kPage);
  const MappingGuard guard = guard_of(file.bytes());
  const int status = status_of_child([&] {
    file.truncate(0);
    _exit(sum(file.bytes()) == 0 && guard.faults() == 4 ? 5 : 1);
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 5);
  EXPECT_EQ(guard.faults(), 0U);
}

TEST(MappingGuard, OthersStillDie) {
  const MappedFile other(4 * kPage);
  for (const bool is_guarded_before : {false, true}) {
    const int status = status_of_child([&] {
      set_default_handler();  // not that of a sanitizer
      const MappedFile file(kPage);
      const MappingGuard guard = guard_of(file.bytes());
      if (is_guarded_before) static_cast<void>(guard_of(other.bytes()).faults());
      other.truncate(0);
      _exit(static_cast<int>(sum(other.bytes()) + 1));
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGBUS);
  }
}

// How a child ends that reads a file of this name, which has become shorter.
int status_of_reader(const std::string& name, int protection) {
  const std::string path = ::testing::TempDir() + name;
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  EXPECT_GE(fd, 0);
  EXPECT_EQ(ftruncate(fd, static_cast<off_t>(4 * kPage)), 0);
  const int status = status_of_child([&] {
    set_default_handler();
    const MappedFile file(kPage);
    const MappingGuard guard = guard_of(file.bytes());
    const void* memory = mmap(nullptr, 4 * kPage, protection, MAP_SHARED, fd, 0);
    if (ftruncate(fd, 100) != 0 || unlink(path.c_str()) != 0) _exit(2);
    _exit(sum({static_cast<const std::byte*>(memory), 4 * kPage}) == 0 ? 7 : 1);
  });
  close(fd);
  return status;
}

TEST(MappingGuard, SharedMemoryOfALogThatIsCutDoesNotEndTheReader) {
  const int status = status_of_reader("x.barecat-shm", PROT_READ);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(WIFSIGNALED(status_of_reader("x.barecat-shm", PROT_READ | PROT_WRITE)));
  EXPECT_TRUE(WIFSIGNALED(status_of_reader("x.barecat-shn", PROT_READ)));
}

TEST(MappingGuard, SentSignalsStillKill) {
  const int status = status_of_child([&] {
    set_default_handler();
    const MappedFile file(kPage);
    const MappingGuard guard = guard_of(file.bytes());
    raise(SIGBUS);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
}

std::atomic<int> previous_calls{0};

TEST(MappingGuard, TheHandlerBeforeIsCalled) {
  const int status = status_of_child([&] {
    std::signal(SIGBUS, [](int) { ++previous_calls; });
    const MappedFile file(kPage);
    const MappingGuard guard = guard_of(file.bytes());
    raise(SIGBUS);
    file.truncate(0);
    const bool is_zero = sum(file.bytes()) == 0;
    raise(SIGBUS);
    _exit(is_zero && guard.faults() == 1 && previous_calls == 2 ? 6 : 1);
  });
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 6);
}

}  // namespace
}  // namespace headrace
