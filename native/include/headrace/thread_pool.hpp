// Threads that share the items of jobs, the oldest job first.
//
// Their number may change at any time. What there are too many sleep; those that are missing start
// with the next job. A job that is under way is finished by the threads that have joined it.
//
// Who calls: any number of threads call `run` at the same time; each submits one job and sleeps
// until every item of it is done and no worker touches it any more. The workers belong to the pool
// and start with the first job. A worker that finds no item left in the oldest job goes on with the
// next one at once. Who closes: the destructor wakes and joins the workers; no `run` may be under
// way. On failure: the work reports failures through its own memory; it may not throw. Nothing here
// knows signals: a job ends by itself, so jobs are to be short.
//
// After fork() the child has none of the workers, and locks in whatever state they were. It gets
// workers and locks of its own with its first job; what the parent made is left as it lies.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "headrace/status.hpp"

namespace headrace {

// What a worker keeps from one item to the next: made for it, used by it alone, gone with it.
struct WorkerMemory {
  WorkerMemory() noexcept = default;
  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;
  virtual ~WorkerMemory() = default;
};

class ThreadPool {
 public:
  static constexpr std::size_t kMaxThreads = 1024;

  // May throw std::bad_alloc.
  using MakeMemory = std::unique_ptr<WorkerMemory> (*)();

  static Result<std::unique_ptr<ThreadPool>> create(std::size_t threads,
                                                    MakeMemory make_memory) noexcept;

  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] std::size_t threads() const noexcept { return threads_.load(); }
  // From the next job on.
  Status set_threads(std::size_t threads) noexcept;

  // Calls work(index, memory) once for every index below `count`, in no fixed order. Fails with
  // `out_of_memory`, and calls nothing, when the system has no more threads.
  template <typename Work>
  Status run(std::size_t count, Work&& work) noexcept {
    using Plain = std::remove_reference_t<Work>;
    return run_job({[](void* context, std::size_t index, WorkerMemory& memory) noexcept {
                      (*static_cast<Plain*>(context))(index, memory);
                    },
                    const_cast<void*>(static_cast<const void*>(&work)), count});
  }

 private:
  struct Task {
    void (*work)(void*, std::size_t, WorkerMemory&) noexcept;
    void* context;
    std::size_t count;
  };
  class Crew;

  ThreadPool(std::size_t threads, MakeMemory make_memory) noexcept
      : threads_(threads), make_memory_(make_memory) {}
  static Status check_threads(std::size_t threads) noexcept;
  Crew& crew_of_this_process();
  Status run_job(const Task& task) noexcept;

  std::atomic<std::size_t> threads_;
  MakeMemory make_memory_;
  std::atomic<Crew*> crew_{nullptr};  // owned, unless it is another process's
};

}  // namespace headrace
