#include "headrace/zlib_stream.hpp"

#include <array>
#include <string>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

// zlib.compress(b"headrace" * 4)
constexpr std::array<std::uint8_t, 19> kStream{0x78, 0x9c, 0xcb, 0x48, 0x4d, 0x4c, 0x29,
                                               0x4a, 0x4c, 0x4e, 0xcd, 0xc0, 0x41, 0x03,
                                               0x00, 0xd1, 0xdc, 0x0c, 0xb5};

ByteSpan stream() { return std::as_bytes(std::span(kStream)); }

TEST(ZlibStream, GivesTheBytesOrNothing) {
  std::vector<std::uint8_t> out(40);
  const auto size = inflate_stream(stream(), out);
  if (!size) GTEST_SKIP() << "there is no libdeflate";
  ASSERT_EQ(*size, 32U);
  EXPECT_EQ(std::string(out.begin(), out.begin() + 8), "headrace");
  EXPECT_EQ(std::string(out.begin() + 24, out.begin() + 32), "headrace");
  EXPECT_TRUE(inflate_stream(stream(), std::span(out).first(32)));
  EXPECT_FALSE(inflate_stream(stream(), std::span(out).first(31)));  // more bytes than room
  EXPECT_FALSE(inflate_stream({}, out));
  for (std::size_t cut = 0; cut < kStream.size(); ++cut) {
    EXPECT_FALSE(inflate_stream(stream().first(cut), out)) << cut;
  }
  for (std::size_t at = 0; at < kStream.size(); ++at) {
    auto damaged = kStream;
    damaged[at] ^= 0x41;
    const auto found = inflate_stream(std::as_bytes(std::span(damaged)), out);
    EXPECT_TRUE(!found || *found <= out.size()) << at;
  }
}

}  // namespace
}  // namespace headrace
