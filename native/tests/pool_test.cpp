#include "penstock/pool.hpp"

#include <atomic>
#include <memory>
#include <set>
#include <thread>

#include "support.hpp"

namespace penstock {
namespace {

std::unique_ptr<ThreadPool> make_pool(std::size_t threads) {
  auto pool = ThreadPool::create(threads);
  testing::expect_ok(pool.status());
  return std::move(pool.value());
}

TEST(Pool, EveryItemOnce) {
  for (const std::size_t threads : {1U, 2U, 3U, 8U}) {
    const auto pool = make_pool(threads);
    EXPECT_EQ(pool->threads(), threads);
    for (const std::size_t count : {0U, 1U, 2U, 7U, 64U, 1000U}) {
      std::vector<int> calls(count, 0);
      pool->run(count, [&](std::size_t i, std::size_t) noexcept { ++calls[i]; });
      EXPECT_EQ(calls, std::vector<int>(count, 1));
    }
  }
}

TEST(Pool, WorkersAreNeverInUseTwice) {
  const auto pool = make_pool(4);
  std::vector<std::atomic<int>> busy(4);
  std::atomic<int> clashes{0};
  for (int round = 0; round < 50; ++round) {
    pool->run(40, [&](std::size_t, std::size_t worker) noexcept {
      if (busy[worker].fetch_add(1) != 0) ++clashes;
      std::this_thread::yield();
      busy[worker].fetch_sub(1);
    });
  }
  EXPECT_EQ(clashes.load(), 0);
}

TEST(Pool, WorkOfOneRunIsSeenByTheNext) {
  const auto pool = make_pool(3);
  std::vector<std::size_t> sums(100, 0);  // plain memory: a race would be a TSan finding
  for (std::size_t round = 0; round < 500; ++round) {
    pool->run(sums.size(), [&](std::size_t i, std::size_t) noexcept { sums[i] += round; });
  }
  EXPECT_EQ(sums, std::vector<std::size_t>(100, 499 * 500 / 2));
}

TEST(Pool, OneThreadIsTheCaller) {
  const auto pool = make_pool(1);
  const auto caller = std::this_thread::get_id();
  bool is_caller = true;
  pool->run(10, [&](std::size_t, std::size_t worker) noexcept {
    is_caller = is_caller && worker == 0 && std::this_thread::get_id() == caller;
  });
  EXPECT_TRUE(is_caller);
}

TEST(Pool, AllThreadsTakePart) {
  const auto pool = make_pool(3);
  std::atomic<int> waiting{0};
  // Each item waits for the other two: only three threads at once can finish.
  pool->run(3, [&](std::size_t, std::size_t) noexcept {
    ++waiting;
    while (waiting.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(waiting.load(), 3);
}

TEST(Pool, MayBeDestroyedAtAnyTimeBetweenRuns) {
  for (int i = 0; i < 100; ++i) {
    const auto pool = make_pool(1 + static_cast<std::size_t>(i) % 5);
    std::atomic<int> calls{0};
    for (int run = 0; run < i % 3; ++run) {
      pool->run(5, [&](std::size_t, std::size_t) noexcept { ++calls; });
    }
    EXPECT_EQ(calls.load(), 5 * (i % 3));
  }
}

TEST(Pool, WrongSizesAreErrors) {
  testing::expect_code(ThreadPool::create(0).status(), Code::invalid_argument);
  testing::expect_code(ThreadPool::create(ThreadPool::kMaxThreads + 1).status(),
                       Code::invalid_argument);
}

}  // namespace
}  // namespace penstock
