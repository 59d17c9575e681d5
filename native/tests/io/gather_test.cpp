#include "headrace/io/gather.hpp"

#include <algorithm>

#include "headrace/checksum.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::random_bytes;

struct Request {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
  [[nodiscard]] SpanList list() const { return {offsets, sizes}; }
};

Request random_request(std::size_t n, std::size_t region_size, std::uint32_t seed) {
  std::mt19937_64 engine(seed);
  Request request;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint64_t offset = engine() % (region_size + 1);
    const std::uint64_t most =
        std::min<std::uint64_t>(region_size - offset, i % 3 == 0 ? 30000 : 64);
    request.offsets.push_back(offset);
    request.sizes.push_back(engine() % (most + 1));
  }
  return request;
}

TEST(Gather, CopiesAndChecksums) {
  const Bytes base = random_bytes(100000, 1);
  for (const std::size_t n : {0U, 1U, 3U, 5U, 200U}) {
    const Request request = random_request(n, base.size(), static_cast<std::uint32_t>(n));
    std::vector<Bytes> out;
    std::vector<std::byte*> destinations;
    for (const std::uint64_t size : request.sizes) out.emplace_back(size);
    for (Bytes& bytes : out) destinations.push_back(bytes.data());
    std::vector<std::uint32_t> checksums(n);
    expect_ok(gather(base, request.list(), destinations, checksums));
    for (std::size_t i = 0; i < n; ++i) {
      const ByteSpan span = ByteSpan(base).subspan(request.offsets[i], request.sizes[i]);
      EXPECT_TRUE(std::equal(span.begin(), span.end(), out[i].begin(), out[i].end()));
      EXPECT_EQ(checksums[i], crc32c(span));
    }
  }
}

TEST(Gather, FromSeveralRegionsWithAnyChecksum) {
  const Bytes regions[] = {random_bytes(1000, 1), {}, random_bytes(5000, 2)};
  const ByteSpan bases[] = {regions[0], regions[1], regions[2]};
  std::vector<std::uint32_t> files = {2, 0, 1, 2};
  std::vector<std::uint64_t> offsets = {4000, 10, 0, 0};
  const std::vector<std::uint64_t> sizes = {1000, 900, 0, 5000};
  std::vector<Bytes> out;
  std::vector<std::byte*> destinations;
  for (const std::uint64_t size : sizes) out.emplace_back(size);
  for (Bytes& bytes : out) destinations.push_back(bytes.data());
  std::vector<std::uint32_t> checksums(4);
  const auto run = [&](ChecksumKind kind) {
    return gather(bases, files, {offsets, sizes}, destinations, checksums, kind);
  };
  for (const ChecksumKind kind : {ChecksumKind::crc32, ChecksumKind::crc32c}) {
    expect_ok(run(kind));
    for (std::size_t i = 0; i < 4; ++i) {
      const ByteSpan span = bases[files[i]].subspan(offsets[i], sizes[i]);
      EXPECT_TRUE(std::equal(span.begin(), span.end(), out[i].begin(), out[i].end()));
      EXPECT_EQ(checksums[i], checksum(kind, span));
    }
  }
  offsets[1] = 101;
  expect_code(run(ChecksumKind::crc32), Code::out_of_bounds);
  files[1] = 3;
  expect_code(run(ChecksumKind::crc32), Code::invalid_argument);
  files.pop_back();
  expect_code(run(ChecksumKind::crc32), Code::invalid_argument);
}

TEST(Gather, IntoOneRegion) {
  const Bytes base = random_bytes(50000, 2);
  const Request request = random_request(100, base.size(), 3);
  std::vector<std::uint64_t> out_offsets;
  std::uint64_t total = 0;
  for (const std::uint64_t size : request.sizes) {
    out_offsets.push_back(total + 1);  // one byte between the spans stays as it was
    total += size + 1;
  }
  Bytes out(total, std::byte{0xAA});
  expect_ok(gather_into(base, request.list(), out, out_offsets, {}));
  for (std::size_t i = 0; i < out_offsets.size(); ++i) {
    EXPECT_EQ(out[out_offsets[i] - 1], std::byte{0xAA});
    EXPECT_TRUE(
        std::equal(out.begin() + static_cast<std::ptrdiff_t>(out_offsets[i]),
                   out.begin() + static_cast<std::ptrdiff_t>(out_offsets[i] + request.sizes[i]),
                   base.begin() + static_cast<std::ptrdiff_t>(request.offsets[i])));
  }
}

TEST(Gather, NothingIsCopiedWhenOneSpanIsOutside) {
  const Bytes base = random_bytes(100, 4);
  for (const auto& [offset, size] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {100, 1}, {101, 0}, {0, 101}, {UINT64_MAX, 1}, {1, UINT64_MAX}, {50, 51}}) {
    const Request request{{0, offset}, {10, size}};
    Bytes out(200, std::byte{7});
    const std::vector<std::uint64_t> out_offsets = {0, 20};
    std::vector<std::uint32_t> checksums(2, 99);
    const Status status = gather_into(base, request.list(), out, out_offsets, checksums);
    expect_code(status, Code::out_of_bounds);
    EXPECT_EQ(status.offset(), 1);
    EXPECT_EQ(out, Bytes(200, std::byte{7}));
    EXPECT_EQ(checksums, std::vector<std::uint32_t>(2, 99));
  }
}

TEST(Gather, OutputIsBoundsChecked) {
  const Bytes base = random_bytes(100, 5);
  const Request request{{0, 10}, {10, 10}};
  Bytes out(20, std::byte{7});
  for (const std::uint64_t bad : {std::uint64_t{11}, std::uint64_t{21}, UINT64_MAX}) {
    const std::vector<std::uint64_t> out_offsets = {0, bad};
    expect_code(gather_into(base, request.list(), out, out_offsets, {}), Code::out_of_bounds);
    EXPECT_EQ(out, Bytes(20, std::byte{7}));
  }
}

TEST(Gather, CountsMustAgree) {
  Bytes base = random_bytes(100, 6);
  Bytes out(100);
  const std::vector<std::uint64_t> two = {0, 1};
  const std::vector<std::uint64_t> one = {0};
  std::vector<std::uint32_t> checksum(1);
  expect_code(gather_into(base, {two, one}, out, two, {}), Code::invalid_argument);
  expect_code(gather_into(base, {two, two}, out, one, {}), Code::invalid_argument);
  expect_code(gather_into(base, {two, two}, out, two, checksum), Code::invalid_argument);
  expect_code(gather_into(base, {two, two}, base, two, {}), Code::invalid_argument);
}

TEST(Gather, EmptyRegion) {
  const Request request{{0}, {0}};
  const std::vector<std::byte*> destinations = {nullptr};
  std::vector<std::uint32_t> checksums(1, 5);
  expect_ok(gather({}, request.list(), destinations, checksums));
  EXPECT_EQ(checksums[0], 0U);
  expect_ok(gather({}, request.list(), destinations, {}));
}

}  // namespace
}  // namespace headrace
