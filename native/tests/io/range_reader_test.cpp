#include "headrace/io/range_reader.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::random_bytes;

constexpr std::size_t kFileSize = 3'000'003;

class TestFile {
 public:
  explicit TestFile(const Bytes& bytes) : path_(::testing::TempDir() + "headrace_reader_XXXXXX") {
    const int fd = mkstemp(path_.data());
    EXPECT_EQ(write(fd, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    close(fd);
  }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;
  ~TestFile() { std::remove(path_.c_str()); }
  [[nodiscard]] const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

// Ranges, where they go, and what is there afterwards.
struct Batch {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint64_t> places;
  std::vector<std::uint32_t> checksums;
  Bytes memory;
  std::uint64_t out_size = 0;

  void add(std::uint64_t offset, std::uint64_t size, std::uint64_t space = 0) {
    offsets.push_back(offset);
    sizes.push_back(size);
    places.push_back(out_size + space);
    out_size += space + size;
  }

  // Aligned, so that direct reads can go straight where the places allow it.
  MutableByteSpan out() {
    if (memory.empty()) memory.assign(out_size + 2 * 4096, std::byte{0xAA});
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    return MutableByteSpan(memory).subspan((4096 - address % 4096) % 4096, out_size);
  }

  ReadRequest request() { return {{offsets, sizes}, out(), places, checksums}; }

  void expect_equal(const Bytes& file, std::size_t i) {
    const ByteSpan want = ByteSpan(file).subspan(offsets[i], sizes[i]);
    const ByteSpan found = out().subspan(places[i], sizes[i]);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), found.begin(), found.end())) << i;
  }
};

using Parameters = std::tuple<ReadEngine, bool, std::size_t>;

class RangeReaderAs : public ::testing::TestWithParam<Parameters> {
 protected:
  std::unique_ptr<RangeReader> open() {
    const auto [engine, is_direct, depth] = GetParam();
    auto reader = RangeReader::open(file_.path(), {depth, is_direct, engine});
    expect_ok(reader.status());
    return std::move(reader.value());
  }

  void SetUp() override {
    const auto [engine, is_direct, depth] = GetParam();
    const auto reader = RangeReader::open(file_.path(), {depth, is_direct, engine});
    if (!reader.is_ok()) GTEST_SKIP() << reader.status().detail();
  }

  void expect_all(Batch& batch) {
    std::vector<ReadFailure> failures;
    expect_ok(open()->read(batch.request(), failures));
    EXPECT_TRUE(failures.empty());
    for (std::size_t i = 0; i < batch.offsets.size(); ++i) batch.expect_equal(bytes_, i);
  }

  const Bytes bytes_ = random_bytes(kFileSize, 1);
  const TestFile file_{bytes_};
};

INSTANTIATE_TEST_SUITE_P(Engines, RangeReaderAs,
                         ::testing::Combine(::testing::Values(ReadEngine::io_uring,
                                                              ReadEngine::threads),
                                            ::testing::Bool(), ::testing::Values(1, 3, 64)),
                         [](const auto& values) {
                           return std::string(read_engine_name(std::get<0>(values.param))) +
                                  (std::get<1>(values.param) ? "_direct_" : "_buffered_") +
                                  std::to_string(std::get<2>(values.param));
                         });

TEST_P(RangeReaderAs, RandomRanges) {
  std::mt19937_64 engine(2);
  Batch batch;
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t offset = engine() % kFileSize;
    const std::uint64_t most = i % 7 == 0 ? 1'500'000 : 20'000;
    batch.add(offset, engine() % std::min<std::uint64_t>(kFileSize - offset + 1, most),
              engine() % 3);
  }
  expect_all(batch);
}

TEST_P(RangeReaderAs, Neighbours) {
  std::mt19937_64 engine(3);
  Batch batch;
  for (std::uint64_t at = 0; at + 6000 < kFileSize;) {
    const std::uint64_t size = engine() % 2000;
    batch.add(at, size);
    at += size + (engine() % 3 == 0 ? engine() % 6000 : 0);
  }
  // The same places in another order: neighbours in the file that are none in memory.
  std::shuffle(batch.offsets.begin(), batch.offsets.end(), engine);
  std::fill(batch.sizes.begin(), batch.sizes.end(), 100);
  for (std::size_t i = 0; i < batch.places.size(); ++i) batch.places[i] = 100 * i;
  batch.out_size = 100 * batch.places.size();
  expect_all(batch);
}

TEST_P(RangeReaderAs, OneRangeIsTheWholeFile) {
  Batch batch;
  batch.add(0, kFileSize);
  expect_all(batch);
}

TEST_P(RangeReaderAs, PlacesThatLieAsTheFileDoes) {
  for (const std::uint64_t size : {1U, 4096U, 8191U, 8192U, 8193U, 700'000U, 1'048'576U}) {
    Batch batch;
    for (const std::uint64_t offset : {0U, 1U, 4095U, 4096U, 10'000U, 1'500'001U}) {
      batch.add(offset, size, (offset % 4096 + 4096 - batch.out_size % 4096) % 4096);
    }
    expect_all(batch);
  }
}

TEST_P(RangeReaderAs, Nothing) {
  Batch none;
  expect_all(none);
  Batch empty;
  empty.add(5, 0);
  empty.add(UINT64_MAX / 4, 0);
  empty.checksums = {0, 0};
  expect_all(empty);
}

TEST_P(RangeReaderAs, EndOfTheFile) {
  Batch batch;
  batch.add(kFileSize - 10, 10);
  batch.add(kFileSize - 10, 11);
  batch.add(kFileSize, 1);
  batch.add(kFileSize + 100'000, 2'000'000);
  batch.add(100, 3'000'000);
  batch.add(100, 50);
  std::vector<ReadFailure> failures;
  expect_ok(open()->read(batch.request(), failures));
  ASSERT_EQ(failures.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(failures[i].position, i + 1);
    EXPECT_EQ(failures[i].code, Code::truncated);
    EXPECT_EQ(failures[i].detail().view(), "the file ended at byte 3000003");
  }
  batch.expect_equal(bytes_, 0);
  batch.expect_equal(bytes_, 5);
}

TEST_P(RangeReaderAs, Checksums) {
  std::mt19937_64 engine(4);
  for (const ChecksumKind kind : {ChecksumKind::crc32c, ChecksumKind::crc32}) {
    Batch batch;
    for (int i = 0; i < 100; ++i) batch.add(engine() % 2'000'000, engine() % 900'000 + 1);
    for (std::size_t i = 0; i < 100; ++i) {
      batch.checksums.push_back(
          checksum(kind, ByteSpan(bytes_).subspan(batch.offsets[i], batch.sizes[i])));
    }
    const std::uint32_t right = batch.checksums[42];
    batch.checksums[42] = 0x0000000f;
    ReadRequest request = batch.request();
    request.checksum_kind = kind;
    std::vector<ReadFailure> failures;
    expect_ok(open()->read(request, failures));
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].position, 42U);
    EXPECT_EQ(failures[0].code, Code::wrong_checksum);
    EXPECT_EQ(failures[0].found, right);
    EXPECT_TRUE(failures[0].detail().view().starts_with("checksum 0x0000000f expected, found 0x"));
  }
}

TEST_P(RangeReaderAs, AFailureLeavesItsNeighboursAlone) {
  // Memory that cannot be written stands for a disk that cannot be read: both fail in the kernel.
  const auto page = static_cast<std::size_t>(getpagesize());
  void* memory =
      mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* out = static_cast<std::byte*>(memory);
  ASSERT_EQ(mprotect(out + page, page, PROT_READ), 0);
  if (!std::get<1>(GetParam())) {  // what a direct read copies by itself may not go there
    const std::vector<std::uint64_t> offsets = {0, page, 2 * page};
    const std::vector<std::uint64_t> sizes(3, page);
    std::vector<ReadFailure> failures;
    expect_ok(open()->read({{offsets, sizes}, {out, 3 * page}, offsets, {}}, failures));
    ASSERT_EQ(failures.size(), 1U);
    EXPECT_EQ(failures[0].position, 1U);
    EXPECT_EQ(failures[0].code, Code::io_error);
    EXPECT_EQ(failures[0].detail().view(), "Bad address");
    EXPECT_EQ(std::memcmp(out, bytes_.data(), page), 0);
    EXPECT_EQ(std::memcmp(out + 2 * page, bytes_.data() + 2 * page, page), 0);
  }
  munmap(memory, 3 * page);
}

TEST_P(RangeReaderAs, EachToItsOwnMemory) {
  const auto reader = open();
  std::mt19937_64 engine(5);
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  std::vector<Bytes> outs;
  for (int i = 0; i < 100; ++i) {
    offsets.push_back(engine() % 2'000'000);
    sizes.push_back(i % 10 == 0 ? 700'000 : engine() % 9'000);
    outs.emplace_back(sizes.back());
  }
  std::vector<std::byte*> destinations;
  for (Bytes& out : outs) destinations.push_back(out.data());
  std::vector<ReadFailure> failures;
  ReadRequest request{.ranges = {offsets, sizes}, .out = {}, .places = {}, .checksums = {}};
  request.destinations = destinations;
  expect_ok(reader->read(request, failures));
  EXPECT_TRUE(failures.empty());
  for (std::size_t i = 0; i < outs.size(); ++i) {
    EXPECT_EQ(std::memcmp(outs[i].data(), bytes_.data() + offsets[i], sizes[i]), 0) << i;
  }
}

TEST_P(RangeReaderAs, SeveralFiles) {
  const auto [engine_kind, is_direct, depth] = GetParam();
  const Bytes others[] = {random_bytes(100'000, 1), random_bytes(0, 2), random_bytes(50'000, 3)};
  const TestFile files[] = {TestFile(others[0]), TestFile(others[1]), TestFile(others[2])};
  const char* paths[] = {files[0].path(), files[1].path(), files[2].path(), file_.path()};
  auto opened = RangeReader::open(paths, {depth, is_direct, engine_kind});
  if (opened.status().code() == Code::unsupported) GTEST_SKIP() << opened.status().detail();
  const std::unique_ptr<RangeReader> reader = std::move(opened.value());
  EXPECT_EQ(reader->files(), 4U);
  EXPECT_EQ(reader->size(2).value(), 50'000U);
  // The same offsets in every file: neighbours that must not be joined.
  Batch batch;
  std::vector<std::uint32_t> of;
  for (std::uint32_t i = 0; i < 60; ++i) {
    of.push_back(i % 4);
    batch.add(100 * (i / 4), i % 4 == 1 ? 0 : 100);
  }
  batch.add(49'990, 11);
  of.push_back(2);
  std::vector<ReadFailure> failures;
  ReadRequest request = batch.request();
  request.files = of;
  expect_ok(reader->read(request, failures));
  ASSERT_EQ(failures.size(), 1U);
  EXPECT_EQ(failures[0].position, 60U);
  EXPECT_EQ(failures[0].detail().view(), "the file ended at byte 50000");
  const Bytes* contents[] = {&others[0], &others[1], &others[2], &bytes_};
  for (std::size_t i = 0; i < 60; ++i) batch.expect_equal(*contents[of[i]], i);
  of[3] = 4;
  const Status status = reader->begin(request).status();
  expect_code(status, Code::invalid_argument);
  EXPECT_EQ(status.offset(), 3);
}

TEST_P(RangeReaderAs, ManyThreadsAtOnce) {
  const auto reader = open();
  std::vector<std::thread> threads;
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937_64 engine(seed);
      for (int round = 0; round < 5; ++round) {
        Batch batch;
        for (int i = 0; i < 50; ++i) batch.add(engine() % 2'000'000, engine() % 50'000);
        std::vector<ReadFailure> failures;
        expect_ok(reader->read(batch.request(), failures));
        EXPECT_TRUE(failures.empty());
        for (std::size_t i = 0; i < 50; ++i) batch.expect_equal(bytes_, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(RangeReaderAs, GivenUpHalfway) {
  const auto reader = open();
  for (int i = 0; i < 5; ++i) {
    Batch batch;
    for (int k = 0; k < 200; ++k) batch.add(static_cast<std::uint64_t>(k) * 10'000, 300'000);
    auto call = reader->begin(batch.request());
    expect_ok(call.status());
    static_cast<void>(call.value()->advance(std::chrono::milliseconds(i)));
    call.value().reset();  // must not write to the batch any more
    batch.memory.clear();
    batch.memory.shrink_to_fit();
  }
}

// TSan knows no threads in a child, and ASan's allocator may be locked there for ever:
// pool_test.cpp.
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)

TEST_P(RangeReaderAs, ChildAndParentReadOn) {
  const auto reader = open();
  Batch batch;
  for (int k = 0; k < 50; ++k) batch.add(static_cast<std::uint64_t>(k) * 50'000, 60'000);
  std::vector<ReadFailure> failures;
  expect_ok(reader->read(batch.request(), failures));
  auto call = reader->begin(batch.request());  // under way in the parent while it forks
  static_cast<void>(call.value()->advance(std::chrono::milliseconds(0)));
  const pid_t child = fork();
  if (child == 0) {
    Batch again;
    for (int k = 0; k < 50; ++k) again.add(static_cast<std::uint64_t>(k) * 50'000, 60'000);
    bool is_fine = reader->read(again.request(), failures).is_ok() && failures.empty();
    for (std::size_t i = 0; i < 50; ++i) {
      is_fine = is_fine && std::memcmp(again.out().data() + again.places[i],
                                       bytes_.data() + again.offsets[i], 60'000) == 0;
    }
    // The parent's call is over here, done or not.
    is_fine = is_fine && call.value()->advance(std::chrono::milliseconds(0));
    _exit(is_fine ? 3 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  while (!call.value()->advance(std::chrono::milliseconds(100))) {
  }
  EXPECT_TRUE(call.value()->failures().empty());
  for (std::size_t i = 0; i < 50; ++i) batch.expect_equal(bytes_, i);
}

#endif

TEST(RangeReader, WrongRequestsReadNothing) {
  const TestFile file(Bytes(100));
  auto reader = RangeReader::open(file.path(), {});
  expect_ok(reader.status());
  EXPECT_EQ(reader.value()->size().value(), 100U);
  const std::vector<std::uint64_t> two = {0, 1};
  const std::vector<std::uint64_t> one = {0};
  const std::vector<std::uint32_t> checksum = {1};
  Bytes out(20, std::byte{7});
  const auto begin = [&](SpanList ranges, std::span<const std::uint64_t> places,
                         std::span<const std::uint32_t> checksums = {}) {
    return reader.value()->begin({ranges, out, places, checksums}).status();
  };
  expect_code(begin({two, one}, two), Code::invalid_argument);
  expect_code(begin({two, two}, one), Code::invalid_argument);
  expect_code(begin({two, two}, two, checksum), Code::invalid_argument);
  constexpr std::uint64_t kHuge = UINT64_MAX;
  for (const auto& [offset, size, place] :
       std::vector<std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>>{
           {0, 21, 0}, {0, 1, 20}, {0, 20, 1}, {0, 1, kHuge}, {kHuge, 1, 0}, {kHuge / 2, 1, 0}}) {
    const std::vector<std::uint64_t> offsets = {0, offset};
    const std::vector<std::uint64_t> sizes = {5, size};
    const std::vector<std::uint64_t> places = {0, place};
    const Status status = begin({offsets, sizes}, places);
    expect_code(status, Code::out_of_bounds);
    EXPECT_EQ(status.offset(), 1);
  }
  EXPECT_EQ(out, Bytes(20, std::byte{7}));
}

TEST(RangeReader, CountsWhatIsCached) {
  const TestFile file(random_bytes(100'000, 1));  // written a moment ago
  auto reader = RangeReader::open(file.path(), {});
  const std::vector<std::uint64_t> offsets = {0, 99'999, 50'000, 200'000};
  const auto count = reader.value()->count_cached(offsets, {});
  if (count.status().code() == Code::unsupported) GTEST_SKIP() << count.status().detail();
  EXPECT_EQ(count.value(), 4U);
  const std::vector<std::uint32_t> files = {0, 1, 0, 0};
  expect_code(reader.value()->count_cached(offsets, files).status(), Code::invalid_argument);
  expect_code(reader.value()->count_cached({}, files).status(), Code::invalid_argument);
}

TEST(RangeReader, WhatCannotBeOpened) {
  const TestFile good(Bytes(10));
  const char* paths[] = {good.path(), "/nonexistent/file"};
  std::size_t failed = 0;
  EXPECT_EQ(RangeReader::open(paths, {}, &failed).status().offset(), ENOENT);
  EXPECT_EQ(failed, 1U);
  const auto missing = RangeReader::open("/nonexistent/file", {});
  expect_code(missing.status(), Code::io_error);
  EXPECT_EQ(missing.status().offset(), ENOENT);
  EXPECT_EQ(RangeReader::open("/", {}).status().offset(), EISDIR);
  expect_code(RangeReader::open("/dev/null", {}).status(), Code::unsupported);
  const TestFile file(Bytes(1));
  expect_code(RangeReader::open(file.path(), {.queue_depth = 0}).status(), Code::invalid_argument);
  expect_code(RangeReader::open(file.path(), {.queue_depth = 5000}).status(),
              Code::invalid_argument);
}

TEST(RangeReader, DirectFallsBackWhereTheFileSystemRefuses) {
  // Of no disk, so there is nothing to pass by.
  auto reader = RangeReader::open("/proc/self/status", {.is_direct = true});
  expect_ok(reader.status());
  EXPECT_FALSE(reader.value()->is_direct());
  Batch batch;
  batch.add(0, 5);
  std::vector<ReadFailure> failures;
  expect_ok(reader.value()->read(batch.request(), failures));
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(std::memcmp(batch.out().data(), "Name:", 5), 0);
}

TEST(RangeReader, FailuresOfTheSystemAreInWords) {
  const ReadFailure failure{.position = 0, .code = Code::io_error, .expected = 0, .found = EIO};
  EXPECT_EQ(failure.detail().view(), "Input/output error");
}

}  // namespace
}  // namespace headrace
