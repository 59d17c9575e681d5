#include "headrace/formats/ffr.hpp"

#include <algorithm>
#include <vector>

#include "headrace/checksum.hpp"
#include "headrace/cpu.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;

// One byte off, because the table of a file with an odd number of samples is not aligned.
Bytes table_of(const std::vector<std::uint64_t>& offsets) {
  Bytes bytes(1);
  for (const std::uint64_t offset : offsets) {
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<std::byte>(offset >> (8 * i)));
  }
  return bytes;
}

std::int64_t find(const std::vector<std::uint64_t>& offsets, std::uint64_t first,
                  std::uint64_t end) {
  const Bytes bytes = table_of(offsets);
  auto found = find_bad_ffr_offset(ByteSpan(bytes).subspan(1), first, end);
  testing::expect_ok(found.status());
  return found.value();
}

TEST(FfrOffsets, Good) {
  EXPECT_EQ(find({}, 12, 12), kNoBadOffset);
  EXPECT_EQ(find({24}, 24, 24), kNoBadOffset);
  EXPECT_EQ(find({30, 30, 40, 50}, 24, 50), kNoBadOffset);
}

TEST(FfrOffsets, Bad) {
  EXPECT_EQ(find({23, 30}, 24, 50), 0);
  EXPECT_EQ(find({24, 30, 29, 40}, 24, 50), 2);
  EXPECT_EQ(find({24, 30, 51}, 24, 50), 2);
  EXPECT_EQ(find({24, std::uint64_t{1} << 63, 40}, 24, 50), 1);
  EXPECT_EQ(find({24, std::uint64_t{1} << 48, 40}, 24, INT64_MAX), 2);
}

class FfrOffsetsAtLevel : public ::testing::TestWithParam<SimdLevel> {
  testing::LevelGuard guard_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Levels, FfrOffsetsAtLevel,
                         ::testing::ValuesIn(testing::available_levels()), [](const auto& level) {
                           return std::string(simd_level_name(level.param));
                         });

TEST_P(FfrOffsetsAtLevel, EveryPlaceOfALargeTable) {
  std::vector<std::uint64_t> offsets(5000);
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = 100 + 2 * i;
  EXPECT_EQ(find(offsets, 100, 20'000), kNoBadOffset);
  for (const std::size_t bad : {0UL, 1UL, 1023UL, 2047UL, 2048UL, 2049UL, 4998UL, 4999UL}) {
    for (const std::uint64_t value : {std::uint64_t{0}, UINT64_MAX, std::uint64_t{20'001}}) {
      std::vector<std::uint64_t> damaged = offsets;
      damaged[bad] = value;
      EXPECT_EQ(find(damaged, 100, 20'000), static_cast<std::int64_t>(bad)) << value;
    }
  }
}

// A header of n samples of `size` bytes each, without the samples.
Bytes file_of(std::uint32_t n, std::uint64_t size) {
  Bytes bytes(12 + 4 * std::size_t{n});
  for (std::uint32_t i = 0; i < n; ++i) bytes[12 + 4 * std::size_t{i}] = static_cast<std::byte>(i);
  std::vector<std::uint64_t> offsets;
  for (std::uint32_t i = 0; i < n; ++i) offsets.push_back(12 + 12 * std::uint64_t{n} + size * i);
  const Bytes table = table_of(offsets);
  bytes.insert(bytes.end(), table.begin() + 1, table.end());
  bytes.resize(bytes.size() + n * size);
  return bytes;
}

struct FoundSpans {
  explicit FoundSpans(std::size_t n) : files(n), offsets(n), sizes(n), checksums(n) {}
  FfrSpans spans() { return {files, offsets, sizes, checksums}; }

  std::vector<std::uint32_t> files;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint32_t> checksums;
};

TEST(FfrTable, SeveralFiles) {
  const Bytes first = file_of(3, 10);
  const Bytes empty = file_of(0, 0);
  const Bytes last = file_of(2, 5);
  FfrTable table;
  EXPECT_EQ(table.samples(), 0U);
  testing::expect_ok(table.add(first, 3));
  testing::expect_ok(table.add(empty, 0));
  testing::expect_ok(table.add(last, 2));
  EXPECT_EQ(table.samples(), 5U);
  const std::vector<std::int64_t> indices = {4, 0, 2, 3};
  FoundSpans found(4);
  testing::expect_ok(table.locate(indices, found.spans()));
  EXPECT_EQ(found.files, (std::vector<std::uint32_t>{2, 0, 0, 2}));
  EXPECT_EQ(found.offsets, (std::vector<std::uint64_t>{41, 48, 68, 36}));
  EXPECT_EQ(found.sizes, (std::vector<std::uint64_t>{5, 10, 10, 5}));
  EXPECT_EQ(found.checksums, (std::vector<std::uint32_t>{1, 0, 2, 0}));
  for (const std::int64_t bad : {std::int64_t{5}, std::int64_t{-1}, INT64_MIN}) {
    const std::vector<std::int64_t> wrong = {0, bad};
    const Status status = table.locate(wrong, found.spans());
    expect_code(status, Code::out_of_bounds);
    EXPECT_EQ(status.offset(), 1);
  }
}

TEST(FfrTable, HostileOffsets) {
  Bytes file = file_of(3, 10);
  const std::vector<std::int64_t> indices = {0, 1, 2};
  const auto sizes_with = [&](std::size_t at, std::byte value) {
    Bytes damaged = file;
    damaged[12 + 12 + at] = value;
    FfrTable table;
    testing::expect_ok(table.add(damaged, 3));
    FoundSpans found(3);
    testing::expect_ok(table.locate(indices, found.spans()));
    return found.sizes;
  };
  using Sizes = std::vector<std::uint64_t>;
  EXPECT_EQ(sizes_with(0, std::byte{47}), (Sizes{kBadFfrSize, 10, 10}));  // inside the header
  EXPECT_EQ(sizes_with(8, std::byte{47}), (Sizes{kBadFfrSize, kBadFfrSize, 10}));
  EXPECT_EQ(sizes_with(15, std::byte{0x80}), (Sizes{kBadFfrSize, kBadFfrSize, 10}));
  EXPECT_EQ(sizes_with(16, std::byte{79}),
            (Sizes{10, kBadFfrSize, kBadFfrSize}));  // behind the end
  EXPECT_EQ(sizes_with(16, std::byte{78}), (Sizes{10, 20, 0}));
}

TEST(FfrTable, TablesThatDoNotFit) {
  FfrTable table;
  const Bytes file(47);
  testing::expect_ok(table.add(file, 2));
  for (const std::uint64_t n : {std::uint64_t{3}, UINT64_MAX, std::uint64_t{1} << 62}) {
    expect_code(table.add(file, n), Code::truncated);
  }
  expect_code(table.add(ByteSpan(file).first(11), 0), Code::truncated);
  EXPECT_EQ(table.samples(), 2U);
}

// A header of n samples whose offsets rise by `step`.
Bytes header_of(std::size_t n, std::uint64_t step) {
  Bytes bytes(12 + 4 * n, std::byte{7});
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t offset = 12 + 12 * n + step * i;
    for (int j = 0; j < 8; ++j) bytes.push_back(static_cast<std::byte>(offset >> (8 * j)));
  }
  return bytes;
}

TEST(FfrHeader, ChecksumAndOffsetsInOnePass) {
  for (const std::size_t n : {0UL, 1UL, 2047UL, 2048UL, 5001UL}) {
    Bytes header = header_of(n, 3);
    auto found = check_ffr_header(header, INT64_MAX);
    testing::expect_ok(found.status());
    EXPECT_EQ(found.value().checksum, crc32(ByteSpan(header).subspan(4)));
    EXPECT_EQ(found.value().bad_offset, kNoBadOffset);
    for (const std::size_t bad : {1UL, n / 2, n - 1}) {
      if (bad == 0 || bad >= n) continue;
      Bytes damaged = header;
      damaged[12 + 4 * n + 8 * bad + 7] = std::byte{0x80};
      const auto second = check_ffr_header(damaged, INT64_MAX).value();
      EXPECT_EQ(second.bad_offset, static_cast<std::int64_t>(bad));
      EXPECT_EQ(second.checksum, crc32(ByteSpan(damaged).subspan(4)));
    }
  }
}

// Short tables, and every rest that vectors of eight offsets can leave.
TEST(FfrHeader, EveryOffsetIsLookedAt) {
  for (std::size_t n = 1; n < 80; ++n) {
    const Bytes header = header_of(n, 3);
    EXPECT_EQ(check_ffr_header(header, INT64_MAX).value().bad_offset, kNoBadOffset);
    for (std::size_t bad = 0; bad < n; ++bad) {
      Bytes damaged = header;
      const std::size_t at = 12 + 4 * n + 8 * bad;
      for (std::size_t j = 0; j < 8; ++j) damaged[at + j] = std::byte{0};  // before all others
      const auto found = check_ffr_header(damaged, INT64_MAX).value();
      EXPECT_EQ(found.bad_offset, static_cast<std::int64_t>(bad));
      EXPECT_EQ(found.checksum, crc32(ByteSpan(damaged).subspan(4)));
    }
  }
}

TEST(FfrHeader, NotWhole) {
  const Bytes bytes(25);
  expect_code(check_ffr_header(bytes, 100).status(), Code::invalid_argument);
  expect_code(check_ffr_header(ByteSpan(bytes).first(11), 100).status(), Code::invalid_argument);
}

TEST(FfrOffsets, NotWhole) {
  const Bytes bytes(15);
  expect_code(find_bad_ffr_offset(bytes, 0, 100).status(), Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
