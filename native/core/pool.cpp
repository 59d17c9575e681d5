#include "penstock/pool.hpp"

#include <new>
#include <system_error>

namespace penstock {

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(std::size_t threads) noexcept {
  if (threads == 0 || threads > kMaxThreads) {
    return Status(Code::invalid_argument, Detail("threads must be 1 to ")
                                              << std::uint64_t{kMaxThreads} << ", not " << threads);
  }
  try {
    std::unique_ptr<ThreadPool> pool(new ThreadPool);
    pool->threads_.reserve(threads - 1);
    for (std::size_t i = 1; i < threads; ++i) {
      pool->threads_.emplace_back([raw = pool.get(), i] { raw->serve(i); });
    }
    return pool;
  } catch (const std::system_error&) {
    return Status(Code::out_of_memory, Detail("the system cannot start ") << threads << " threads");
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the threads");
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::take_items(const Job& job, std::size_t worker) noexcept {
  for (;;) {
    const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    if (index >= job.count) return;
    job.work(job.context, index, worker);
  }
}

void ThreadPool::run_job(const Job& job) noexcept {
  next_.store(0, std::memory_order_relaxed);
  if (threads_.empty() || job.count < 2) return take_items(job, 0);
  {
    const std::lock_guard lock(mutex_);
    job_ = job;
    ++generation_;
    is_open_ = true;
  }
  wake_.notify_all();
  take_items(job, 0);
  // A thread that wakes only now finds the job closed and sleeps on.
  std::unique_lock lock(mutex_);
  is_open_ = false;
  done_.wait(lock, [this] { return active_ == 0; });
}

void ThreadPool::serve(std::size_t worker) noexcept {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return is_closing_ || (is_open_ && generation_ != seen); });
    if (is_closing_) return;
    seen = generation_;
    const Job job = job_;
    ++active_;
    lock.unlock();
    take_items(job, worker);
    lock.lock();
    if (--active_ == 0) done_.notify_one();
  }
}

}  // namespace penstock
