#include "headrace/thread_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace headrace {

// The workers of one process, and the jobs they wait for.
class ThreadPool::Crew {
 public:
  Crew() noexcept : process_(getpid()) {}
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;
  ~Crew();

  [[nodiscard]] bool is_of_this_process() const noexcept { return process_ == getpid(); }

  // Throws std::bad_alloc and std::system_error; what has started stays.
  void start(std::size_t threads, MakeMemory make_memory);
  void run(const Task& task) noexcept;

 private:
  // Lives on the stack of the thread that waits for it.
  struct Job {
    const Task& task;
    std::atomic<std::size_t> next{0};
    // The crew's mutex guards what follows.
    std::size_t active = 0;  // workers that have joined
    bool is_taken = false;   // nobody joins any more
    Job* following = nullptr;
    std::condition_variable done{};
  };

  void serve(std::size_t number, WorkerMemory& memory) noexcept;
  void append(Job& job) noexcept;
  void drop_first() noexcept;
  static void take_items(Job& job, WorkerMemory& memory) noexcept;

  const pid_t process_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::thread> threads_;
  std::condition_variable wake_;
  std::condition_variable called_back_;  // for those that are too many
  std::size_t wanted_ = 0;               // workers; those with higher numbers sleep
  Job* first_ = nullptr;
  Job* last_ = nullptr;
  std::size_t idle_ = 0;  // workers that sleep
  bool is_closing_ = false;
};

ThreadPool::Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    is_closing_ = true;
  }
  wake_.notify_all();
  called_back_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Crew::start(std::size_t threads, MakeMemory make_memory) {
  const std::lock_guard lock(mutex_);
  if (threads != wanted_) {
    wanted_ = threads;
    wake_.notify_all();
    called_back_.notify_all();
  }
  threads_.reserve(threads);
  while (threads_.size() < threads) {
    const std::size_t number = threads_.size();
    threads_.emplace_back([this, number, memory = make_memory()] { serve(number, *memory); });
  }
}

void ThreadPool::Crew::append(Job& job) noexcept {
  (first_ == nullptr ? first_ : last_->following) = &job;
  last_ = &job;
}

void ThreadPool::Crew::drop_first() noexcept {
  first_->is_taken = true;
  first_ = first_->following;
}

void ThreadPool::Crew::run(const Task& task) noexcept {
  Job job{.task = task};
  std::unique_lock lock(mutex_);
  append(job);
  // Workers that are busy come by themselves.
  for (std::size_t n = std::min(idle_, task.count); n > 0; --n) wake_.notify_one();
  job.done.wait(lock, [&job] { return job.is_taken && job.active == 0; });
}

void ThreadPool::Crew::take_items(Job& job, WorkerMemory& memory) noexcept {
  for (;;) {
    const std::size_t index = job.next.fetch_add(1, std::memory_order_relaxed);
    if (index >= job.task.count) return;
    job.task.work(job.task.context, index, memory);
  }
}

void ThreadPool::Crew::serve(std::size_t number, WorkerMemory& memory) noexcept {
  const auto is_spare = [this, number] { return number >= wanted_; };
  std::unique_lock lock(mutex_);
  for (;;) {
    called_back_.wait(lock, [&] { return is_closing_ || !is_spare(); });
    ++idle_;
    wake_.wait(lock, [&] { return is_closing_ || first_ != nullptr || is_spare(); });
    --idle_;
    if (is_closing_) return;
    if (is_spare()) continue;
    Job& job = *first_;
    ++job.active;
    lock.unlock();
    take_items(job, memory);
    lock.lock();
    if (first_ == &job) drop_first();
    // With the lock held: the caller may not go, and take the job with it, before this is over.
    if (--job.active == 0) job.done.notify_one();
  }
}

Status ThreadPool::check_threads(std::size_t threads) noexcept {
  if (threads > 0 && threads <= kMaxThreads) return {};
  return Status(Code::invalid_argument, Detail("threads must be 1 to ")
                                            << std::uint64_t{kMaxThreads} << ", not " << threads);
}

Status ThreadPool::set_threads(std::size_t threads) noexcept {
  Status status = check_threads(threads);
  if (status.is_ok()) threads_.store(threads);
  return status;
}

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(std::size_t threads,
                                                       MakeMemory make_memory) noexcept {
  if (Status status = check_threads(threads); !status.is_ok()) return status;
  std::unique_ptr<ThreadPool> pool(new (std::nothrow) ThreadPool(threads, make_memory));
  if (pool == nullptr) return Status(Code::out_of_memory, "no memory for the pool");
  return pool;
}

ThreadPool::~ThreadPool() {
  const Crew* crew = crew_.load();
  if (crew != nullptr && crew->is_of_this_process()) delete crew;
}

// Threads that race here agree on the one that came first.
ThreadPool::Crew& ThreadPool::crew_of_this_process() {
  Crew* crew = crew_.load();
  if (crew != nullptr && crew->is_of_this_process()) return *crew;
  auto fresh = std::make_unique<Crew>();
  if (crew_.compare_exchange_strong(crew, fresh.get())) return *fresh.release();
  return *crew;
}

Status ThreadPool::run_job(const Task& task) noexcept {
  if (task.count == 0) return {};
  const std::size_t threads = threads_.load();
  try {
    Crew& crew = crew_of_this_process();
    crew.start(threads, make_memory_);
    crew.run(task);
    return {};
  } catch (const std::system_error&) {
    return Status(Code::out_of_memory, Detail("the system cannot start ") << threads << " threads");
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the threads");
  }
}

}  // namespace headrace
