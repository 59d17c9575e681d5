#include "headrace/bytes.hpp"

#include "headrace/image.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

constexpr std::uint64_t kMax = UINT64_MAX;

TEST(Bytes, CheckedAdd) {
  std::uint64_t sum = 0;
  EXPECT_TRUE(checked_add(1, 2, sum));
  EXPECT_EQ(sum, 3U);
  EXPECT_TRUE(checked_add(kMax, 0, sum));
  EXPECT_TRUE(checked_add(kMax - 5, 5, sum));
  EXPECT_EQ(sum, kMax);
  EXPECT_FALSE(checked_add(kMax, 1, sum));
  EXPECT_FALSE(checked_add(kMax, kMax, sum));
}

TEST(Bytes, CheckedMultiply) {
  std::uint64_t product = 0;
  EXPECT_TRUE(checked_multiply(0, kMax, product));
  EXPECT_EQ(product, 0U);
  EXPECT_TRUE(checked_multiply(kMax, 1, product));
  EXPECT_EQ(product, kMax);
  EXPECT_TRUE(checked_multiply(1ULL << 32, (1ULL << 32) - 1, product));
  EXPECT_FALSE(checked_multiply(1ULL << 32, 1ULL << 32, product));
  EXPECT_FALSE(checked_multiply(kMax, 2, product));
}

TEST(Bytes, IsInside) {
  EXPECT_TRUE(is_inside(0, 0, 0));
  EXPECT_TRUE(is_inside(10, 0, 10));
  EXPECT_TRUE(is_inside(0, 10, 10));
  EXPECT_FALSE(is_inside(11, 0, 10));
  EXPECT_FALSE(is_inside(1, 10, 10));
  EXPECT_FALSE(is_inside(kMax, 2, 10));
  EXPECT_FALSE(is_inside(5, kMax, 10));
  EXPECT_TRUE(is_inside(kMax, 0, kMax));
}

TEST(Bytes, IsOverlapping) {
  const std::byte bytes[10] = {};
  const ByteSpan all(bytes);
  EXPECT_TRUE(is_overlapping(all, all));
  EXPECT_TRUE(is_overlapping(all.first(6), all.subspan(5)));
  EXPECT_FALSE(is_overlapping(all.first(5), all.subspan(5)));
  EXPECT_FALSE(is_overlapping(all.subspan(3, 0), all));
}

TEST(Bytes, UnalignedLoads) {
  const testing::Bytes bytes = {std::byte{9}, std::byte{1}, std::byte{2},
                                std::byte{3}, std::byte{4}, std::byte{5},
                                std::byte{6}, std::byte{7}, std::byte{8}};
  EXPECT_EQ(load_u64_le(bytes.data() + 1), 0x0807060504030201ULL);
  EXPECT_EQ(load_u16_be(bytes.data() + 1), 0x0102U);
}

TEST(Image, SizesThatOverflowAreErrors) {
  EXPECT_EQ(rgb_size_bytes({4, 2}).value(), 24U);
  testing::expect_code(rgb_size_bytes({1ULL << 63, 1}).status(), Code::too_large);
  testing::expect_code(rgb_size_bytes({1ULL << 31, 1ULL << 31}).status(), Code::too_large);
}

}  // namespace
}  // namespace headrace
