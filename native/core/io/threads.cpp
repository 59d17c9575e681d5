// The engine for systems without io_uring: a few threads that read and block.
//
// The threads take reads from one list and put what became of them on another, both under one lock.
// They block all signals, so that these go to threads that expect them. The destructor wakes and
// joins them; then no read is under way.
#include <pthread.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "core/io/queue.hpp"

namespace headrace {
namespace {

constexpr unsigned kMaxThreads = 16;

// What a fault raises stays unblocked: blocked, it would end the process.
void block_signals() noexcept {
  sigset_t set;
  sigfillset(&set);
  for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&set, fault);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

class ThreadQueue final : public IoQueue {
 public:
  explicit ThreadQueue(unsigned depth) : capacity_(depth), wanted_(depth) {
    done_.reserve(depth);
    threads_.reserve(std::min(depth, kMaxThreads));
  }

  ~ThreadQueue() override {
    {
      const std::lock_guard lock(mutex_);
      is_closing_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void start() {
    while (threads_.size() < std::min(capacity_, kMaxThreads)) {
      threads_.emplace_back([this] { serve(); });
    }
  }

  void push(const IoRead& read) noexcept override {
    {
      const std::lock_guard lock(mutex_);
      wanted_[last_++ % capacity_] = read;
    }
    wake_.notify_one();
  }

  void wait(unsigned wanted, std::chrono::milliseconds timeout) noexcept override {
    if (wanted == 0) return;
    std::unique_lock lock(mutex_);
    awaited_ = wanted;
    some_done_.wait_for(lock, timeout, [&] { return done_.size() >= wanted; });
  }

  [[nodiscard]] bool pop(IoDone& done) noexcept override {
    const std::lock_guard lock(mutex_);
    if (done_.empty()) return false;
    done = done_.back();
    done_.pop_back();
    return true;
  }

 private:
  void serve() noexcept {
    block_signals();
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return is_closing_ || first_ != last_; });
      if (is_closing_) return;
      const IoRead read = wanted_[first_++ % capacity_];
      lock.unlock();
      const std::int32_t result = read_blocking(read);
      lock.lock();
      done_.push_back({read.tag, result});
      if (done_.size() >= awaited_) some_done_.notify_one();
    }
  }

  const unsigned capacity_;
  std::vector<std::thread> threads_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable some_done_;
  std::vector<IoRead> wanted_;  // those from first_ to last_, modulo its size
  std::uint64_t first_ = 0;
  std::uint64_t last_ = 0;
  std::vector<IoDone> done_;
  unsigned awaited_ = 1;
  bool is_closing_ = false;
};

}  // namespace

std::int32_t read_blocking(const IoRead& read) noexcept {
  const ssize_t count = preadv(read.fd, read.pieces, static_cast<int>(read.piece_count),
                               static_cast<off_t>(read.offset));
  return static_cast<std::int32_t>(count < 0 ? -errno : count);
}

Result<std::unique_ptr<IoQueue>> make_thread_queue(unsigned depth) noexcept {
  try {
    auto queue = std::make_unique<ThreadQueue>(depth);
    queue->start();
    return std::unique_ptr<IoQueue>(std::move(queue));
  } catch (const std::system_error&) {
    return Status(Code::out_of_memory, "the system cannot start the threads that read");
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the threads that read");
  }
}

}  // namespace headrace
