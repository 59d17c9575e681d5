#include "headrace/status.hpp"

#include <string>

#include "tests/support.hpp"

namespace headrace {
namespace {

TEST(Status, IsOkByDefault) {
  const Status status;
  EXPECT_TRUE(status.is_ok());
  EXPECT_EQ(status.offset(), -1);
  EXPECT_EQ(status.detail(), "");
}

TEST(Status, CarriesItsFacts) {
  const Status status(Code::corrupt, Detail("byte ") << 7U << " of " << UINT64_MAX, 7);
  EXPECT_FALSE(status.is_ok());
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_EQ(status.offset(), 7);
  EXPECT_EQ(status.detail(), "byte 7 of 18446744073709551615");
  EXPECT_EQ((Detail() << Hex32{0x0123ABCD} << Hex32{0}).view(), "0x0123abcd0x00000000");
}

TEST(Status, CutsLongDetails) {
  const std::string text(1000, 'x');
  const Status status(Code::corrupt, text);
  EXPECT_LT(status.detail().size(), 300U);
  EXPECT_EQ(status.detail(), text.substr(0, status.detail().size()));
}

TEST(Status, EveryCodeHasAName) {
  for (int i = 0; i <= static_cast<int>(Code::io_error); ++i) {
    EXPECT_NE(code_name(static_cast<Code>(i)), "unknown");
  }
}

TEST(Result, HoldsAValueOrAStatus) {
  const Result<int> good(3);
  const Result<int> bad(Status(Code::truncated, "short"));
  EXPECT_TRUE(good.is_ok());
  EXPECT_EQ(good.value(), 3);
  EXPECT_FALSE(bad.is_ok());
  EXPECT_EQ(bad.status().code(), Code::truncated);
}

TEST(Cpu, LevelCannotExceedTheHardware) {
  EXPECT_LE(simd_level(), hardware_simd_level());
  for (int i = 0; i <= static_cast<int>(SimdLevel::avx512); ++i) {
    const auto level = static_cast<SimdLevel>(i);
    const SimdLevel before = simd_level();
    EXPECT_EQ(set_simd_level(level).is_ok(), level <= hardware_simd_level());
    EXPECT_EQ(simd_level(), level <= hardware_simd_level() ? level : before);
  }
  testing::expect_ok(set_simd_level(hardware_simd_level()));
}

TEST(Cpu, NamesRoundTrip) {
  for (int i = 0; i <= static_cast<int>(SimdLevel::avx512); ++i) {
    const auto level = static_cast<SimdLevel>(i);
    EXPECT_EQ(parse_simd_level(simd_level_name(level)), level);
  }
  EXPECT_EQ(parse_simd_level("mmx"), std::nullopt);
}

}  // namespace
}  // namespace headrace
