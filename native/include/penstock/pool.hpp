// Threads that share the items of one job after another.
//
// Who calls: one thread at a time calls `run` and takes part as worker 0; the others belong to the
// pool and sleep between jobs. `run` returns when every item is done and no worker touches the
// job any more. Who closes: the destructor wakes and joins the threads; no `run` may be under way.
// On failure: the work reports failures through its own memory; it may not throw. Nothing here
// knows signals: a job ends by itself, so jobs are to be short. A pool does not survive fork().
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "penstock/status.hpp"

namespace penstock {

class ThreadPool {
 public:
  static constexpr std::size_t kMaxThreads = 1024;

  // One thread is the caller itself. Fails with `out_of_memory` when the system has no more
  // threads.
  static Result<std::unique_ptr<ThreadPool>> create(std::size_t threads) noexcept;

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] std::size_t threads() const noexcept { return threads_.size() + 1; }

  // Calls work(index, worker) once for every index below `count`, in no fixed order; `worker` is
  // below threads() and never in use twice at a time.
  template <typename Work>
  void run(std::size_t count, Work&& work) noexcept {
    using Plain = std::remove_reference_t<Work>;
    run_job({[](void* context, std::size_t index, std::size_t worker) noexcept {
               (*static_cast<Plain*>(context))(index, worker);
             },
             const_cast<void*>(static_cast<const void*>(&work)), count});
  }

 private:
  struct Job {
    void (*work)(void*, std::size_t, std::size_t) noexcept = nullptr;
    void* context = nullptr;
    std::size_t count = 0;
  };

  ThreadPool() noexcept = default;
  void run_job(const Job& job) noexcept;
  void take_items(const Job& job, std::size_t worker) noexcept;
  void serve(std::size_t worker) noexcept;

  std::vector<std::thread> threads_;
  std::atomic<std::size_t> next_{0};
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::condition_variable done_;
  Job job_;
  std::uint64_t generation_ = 0;  // of job_
  bool is_open_ = false;          // job_ may be joined
  bool is_closing_ = false;
  std::size_t active_ = 0;  // threads of the pool that have joined job_
};

}  // namespace penstock
