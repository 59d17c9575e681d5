#include "headrace/checksum.hpp"

#include <algorithm>
#include <string>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::as_bytes;
using testing::available_levels;
using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::LevelGuard;
using testing::random_bytes;

// Bit by bit, from the definition.
std::uint32_t reference(ByteSpan data, std::uint32_t polynomial) {
  std::uint32_t state = ~std::uint32_t{0};
  for (const std::byte byte : data) {
    state ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? polynomial : 0);
  }
  return ~state;
}

std::uint32_t reference_crc32c(ByteSpan data) { return reference(data, 0x82F63B78); }
std::uint32_t reference_crc32(ByteSpan data) { return reference(data, 0xEDB88320); }

class ChecksumAtLevel : public ::testing::TestWithParam<SimdLevel> {
 protected:
  LevelGuard guard_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Levels, ChecksumAtLevel, ::testing::ValuesIn(available_levels()),
                         [](const auto& level) {
                           return std::string(simd_level_name(level.param));
                         });

TEST_P(ChecksumAtLevel, KnownVectors) {
  EXPECT_EQ(crc32({}), 0U);
  EXPECT_EQ(crc32(as_bytes("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32c({}), 0U);
  EXPECT_EQ(crc32c(as_bytes("a")), 0xC1D04330U);
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283U);
  // RFC 3720, B.4
  Bytes data(32, std::byte{0});
  EXPECT_EQ(crc32c(data), 0x8A9136AAU);
  std::fill(data.begin(), data.end(), std::byte{0xFF});
  EXPECT_EQ(crc32c(data), 0x62A8AB43U);
  for (unsigned i = 0; i < 32; ++i) data[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(data), 0x46DD794EU);
  std::reverse(data.begin(), data.end());
  EXPECT_EQ(crc32c(data), 0x113FDB5CU);
}

TEST_P(ChecksumAtLevel, AllShortLengthsAndAlignments) {
  const Bytes data = random_bytes(320 + 64, 1);
  for (std::size_t alignment = 0; alignment < 64; alignment += alignment < 17 ? 1 : 9) {
    for (std::size_t size = 0; size <= 300; ++size) {
      const ByteSpan part = ByteSpan(data).subspan(alignment, size);
      ASSERT_EQ(crc32c(part), reference_crc32c(part)) << alignment << " " << size;
      ASSERT_EQ(crc32(part), reference_crc32(part)) << alignment << " " << size;
    }
  }
}

TEST_P(ChecksumAtLevel, LongLengths) {
  const Bytes data = random_bytes(70000, 2);
  for (std::size_t size = 301; size < data.size(); size += size < 2000 ? 7 : 1237) {
    const ByteSpan part = ByteSpan(data).subspan(size % 5, size - size % 5);
    ASSERT_EQ(crc32c(part), reference_crc32c(part)) << size;
    ASSERT_EQ(crc32(part), reference_crc32(part)) << size;
  }
}

TEST_P(ChecksumAtLevel, Copies) {
  const Bytes data = random_bytes(70000, 5);
  for (std::size_t size = 0; size < data.size(); size += size < 700 ? 1 : 1237) {
    const ByteSpan part = ByteSpan(data).subspan(size % 5, size - size % 5);
    for (const ChecksumKind kind : {ChecksumKind::crc32c, ChecksumKind::crc32}) {
      Bytes copy(part.size() + 1, std::byte{0x5A});
      ASSERT_EQ(copy_with_checksum(kind, part, copy.data()), checksum(kind, part)) << size;
      ASSERT_TRUE(std::equal(part.begin(), part.end(), copy.begin())) << size;
      ASSERT_EQ(copy.back(), std::byte{0x5A}) << size;
    }
  }
}

TEST_P(ChecksumAtLevel, Chains) {
  const Bytes data = random_bytes(5000, 3);
  const std::uint32_t whole = crc32c(data);
  const std::uint32_t whole_crc32 = crc32(data);
  for (std::size_t cut = 0; cut <= data.size(); cut += 13) {
    const ByteSpan all(data);
    ASSERT_EQ(crc32c(all.subspan(cut), crc32c(all.first(cut))), whole) << cut;
    ASSERT_EQ(crc32(all.subspan(cut), crc32(all.first(cut))), whole_crc32) << cut;
  }
}

TEST_P(ChecksumAtLevel, Spans) {
  const Bytes base = random_bytes(4096, 4);
  const std::vector<std::uint64_t> offsets = {0, 4096, 17, 0};
  const std::vector<std::uint64_t> sizes = {4096, 0, 1000, 1};
  std::vector<std::uint32_t> out(offsets.size());
  expect_ok(crc32c_spans(base, offsets, sizes, out));
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], reference_crc32c(ByteSpan(base).subspan(offsets[i], sizes[i])));
  }
  expect_ok(crc32_spans(base, offsets, sizes, out));
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_EQ(out[i], reference_crc32(ByteSpan(base).subspan(offsets[i], sizes[i])));
  }
}

TEST_P(ChecksumAtLevel, RowsWithHoles) {
  constexpr std::size_t kRowSize = 9000;
  constexpr std::size_t kRows = 5;
  const Bytes rows = random_bytes(kRowSize * kRows, 5);
  const std::vector<std::vector<Hole>> cases = {
      {},         {{0, 0}}, {{0, kRowSize}}, {{3, 8}}, {{0, 4}, {4, 4}, {20, 5000}, {8999, 1}},
      {{9000, 0}}};
  for (const auto& holes : cases) {
    Bytes filled = rows;
    for (std::size_t row = 0; row < kRows; ++row) {
      for (const Hole& hole : holes) {
        std::fill_n(filled.data() + row * kRowSize + hole.offset, hole.size, std::byte{0});
      }
    }
    std::vector<std::uint32_t> out(kRows);
    expect_ok(crc32c_rows(rows, kRowSize, holes, out));
    for (std::size_t row = 0; row < kRows; ++row) {
      EXPECT_EQ(out[row], reference_crc32c(ByteSpan(filled).subspan(row * kRowSize, kRowSize)));
    }
  }
}

TEST(Checksum, WrongRowsAreFound) {
  constexpr std::size_t kRowSize = 20, kRows = 6, kColumns = 3;
  const Bytes rows = random_bytes(kRowSize * kRows, 6);
  const std::vector<Hole> holes = {{4, 8}};
  std::vector<std::uint32_t> sums(kRows), table(kRows * kColumns, 9);
  expect_ok(crc32c_rows(rows, kRowSize, holes, sums));
  for (std::size_t row = 0; row < kRows; ++row) table[row * kColumns] = sums[row];
  const std::vector<std::int64_t> numbers = {5, 0, 3, 3, 1};
  const auto find = [&](ByteSpan bytes, std::size_t columns) {
    return find_wrong_row(bytes, kRowSize, holes, numbers, table, columns);
  };
  EXPECT_EQ(find(rows, kColumns).value(), -1);
  Bytes damaged = rows;
  damaged[2 * kRowSize] ^= std::byte{1};      // of a row that nobody asks for
  damaged[3 * kRowSize + 5] ^= std::byte{1};  // in the hole
  EXPECT_EQ(find(damaged, kColumns).value(), -1);
  damaged[3 * kRowSize] ^= std::byte{1};
  EXPECT_EQ(find(damaged, kColumns).value(), 2);
  expect_code(find(ByteSpan(rows).first(kRowSize), kColumns).status(), Code::invalid_argument);
  expect_code(find(rows, 0).status(), Code::invalid_argument);
  for (const std::int64_t wrong : {std::int64_t{6}, std::int64_t{-1}, INT64_MIN}) {
    const std::vector<std::int64_t> bad = {0, wrong};
    const auto found = find_wrong_row(rows, kRowSize, holes, bad, table, kColumns);
    expect_code(found.status(), Code::out_of_bounds);
    EXPECT_EQ(found.status().offset(), 1);
  }
}

TEST(Checksum, KindsHaveNames) {
  EXPECT_EQ(parse_checksum_kind("crc32c"), ChecksumKind::crc32c);
  EXPECT_EQ(parse_checksum_kind("crc32"), ChecksumKind::crc32);
  EXPECT_EQ(parse_checksum_kind("md5"), std::nullopt);
}

TEST(Checksum, SpansOutsideAreErrors) {
  const Bytes base(100);
  std::vector<std::uint32_t> out(2);
  const std::vector<std::uint64_t> offsets = {0, 90};
  const std::vector<std::uint64_t> sizes = {100, 11};
  const Status status = crc32c_spans(base, offsets, sizes, out);
  expect_code(status, Code::out_of_bounds);
  EXPECT_EQ(status.offset(), 1);
  const std::vector<std::uint64_t> one = {0};
  expect_code(crc32c_spans(base, offsets, one, out), Code::invalid_argument);
  expect_code(crc32c_spans(base, one, one, out), Code::invalid_argument);
}

TEST(Checksum, BadHolesAreErrors) {
  const Bytes rows(100);
  std::vector<std::uint32_t> out(10);
  for (const auto& holes : std::vector<std::vector<Hole>>{
           {{0, 11}}, {{10, 1}}, {{5, 2}, {6, 1}}, {{5, 2}, {0, 1}}, {{UINT64_MAX, 2}}}) {
    const Status status = crc32c_rows(rows, 10, holes, out);
    expect_code(status, Code::invalid_argument);
    EXPECT_EQ(status.offset(), static_cast<std::int64_t>(holes.size() - 1));
  }
  expect_code(crc32c_rows(rows, 11, {}, out), Code::invalid_argument);
  expect_code(crc32c_rows(rows, UINT64_MAX, {}, out), Code::invalid_argument);
}

TEST(Checksum, RowsOfNoBytes) {
  std::vector<std::uint32_t> out(3, 7);
  expect_ok(crc32c_rows({}, 0, {}, out));
  EXPECT_EQ(out, std::vector<std::uint32_t>(3, 0));
  expect_ok(crc32c_rows({}, 24, {}, {}));
}

TEST(Checksum, Buffers) {
  const std::vector<ByteSpan> buffers = {as_bytes("123456789"), {}, as_bytes("a")};
  std::vector<std::uint32_t> out(3);
  expect_ok(checksum_buffers(ChecksumKind::crc32c, buffers, out));
  EXPECT_EQ(out, (std::vector<std::uint32_t>{0xE3069283U, 0, 0xC1D04330U}));
  expect_code(checksum_buffers(ChecksumKind::crc32c, buffers, std::span(out).first(2)),
              Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
