#include "headrace/buffer_pool.hpp"

#include <algorithm>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

std::uintptr_t address_of(const PooledBuffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.bytes().data());
}

TEST(BufferPool, MemoryIsUsedAgain) {
  const auto pool = std::make_shared<BufferPool>(10 << 20);
  for (const std::size_t size : {1U, 512U, 10'000U, 65'535U, 65'536U, 1'000'000U}) {
    std::uintptr_t first = 0;
    {
      const PooledBuffer buffer = pool->take(size, 5000);
      first = address_of(buffer);
      EXPECT_EQ(buffer.bytes().size(), size);
      EXPECT_NE(address_of(pool->take(size, 5000)), first);
    }
    std::vector<PooledBuffer> again;
    again.push_back(pool->take(size, 5000));
    again.push_back(pool->take(size, 5000));
    EXPECT_TRUE(address_of(again[0]) == first || address_of(again[1]) == first);
  }
}

TEST(BufferPool, LargePiecesLieAsAsked) {
  const auto pool = std::make_shared<BufferPool>(1 << 20);
  for (const std::uint64_t offset : {std::uint64_t{0}, std::uint64_t{4097}, UINT64_MAX}) {
    EXPECT_EQ(address_of(pool->take(65'536, offset)) % 4096, offset % 4096);
    EXPECT_EQ(address_of(pool->take(100, offset)) % 64, 0U);
  }
}

TEST(BufferPool, KeepsNoMoreThanItShould) {
  const auto pool = std::make_shared<BufferPool>(1 << 20);
  std::mt19937_64 engine(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<PooledBuffer> buffers;
    for (int i = 0; i < 20; ++i) {
      buffers.push_back(pool->take(engine() % 300'000, engine()));
      const MutableByteSpan bytes = buffers.back().bytes();
      if (!bytes.empty()) std::memset(bytes.data(), i, bytes.size());
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      const auto expected = static_cast<std::byte>(i);
      const MutableByteSpan bytes = buffers[i].bytes();
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(),
                              [&](std::byte byte) { return byte == expected; }));
    }
    buffers.clear();
    EXPECT_LE(pool->free_bytes(), 1U << 20);
  }
  EXPECT_GT(pool->free_bytes(), 0U);
}

TEST(BufferPool, AnEmptyPieceAndImpossibleOnes) {
  const auto pool = std::make_shared<BufferPool>(0);
  EXPECT_TRUE(pool->take(0, 0).is_valid());
  EXPECT_FALSE(pool->take(SIZE_MAX, 0).is_valid());
  EXPECT_FALSE(pool->take(SIZE_MAX - 4096, 0).is_valid());
  EXPECT_EQ(pool->free_bytes(), 0U);
}

TEST(BufferPool, PiecesOutliveTheOwner) {
  auto pool = std::make_shared<BufferPool>(1 << 20);
  PooledBuffer buffer = pool->take(1000, 0);
  pool.reset();
  buffer.bytes()[999] = std::byte{1};
  const PooledBuffer moved = std::move(buffer);
  EXPECT_EQ(moved.bytes()[999], std::byte{1});
}

TEST(BufferPool, ManyThreads) {
  const auto pool = std::make_shared<BufferPool>(1 << 20);
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 engine(seed);
      for (int round = 0; round < 500; ++round) {
        const PooledBuffer one = pool->take(engine() % 20'000, engine());
        const PooledBuffer two = pool->take(100'000, engine());
        std::memset(two.bytes().data(), static_cast<int>(seed), two.bytes().size());
        EXPECT_EQ(two.bytes()[engine() % 100'000], static_cast<std::byte>(seed));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace headrace
