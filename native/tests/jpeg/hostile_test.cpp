// Damaged and malicious JPEG files: an error or a full decode, never a crash.
#include <algorithm>

#include "headrace/jpeg/codec.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::can_encode;
using testing::expect_code;
using testing::expect_ok;
using testing::from_hex;
using testing::JpegKind;
using testing::JpegSpec;
using testing::make_jpeg;

const std::vector<JpegSpec> kSpecs = {{},
                                      {.kind = JpegKind::grayscale},
                                      {.is_progressive = true},
                                      {.restart_interval = 1},
                                      {.is_arithmetic = true}};

Status decode(ByteSpan data, Bytes& out) {
  // A copy of exactly this size, so that a sanitizer sees every read behind the end.
  const Bytes exact(data.begin(), data.end());
  out.assign(40 * 24 * 3, std::byte{0xEE});
  return decode_jpeg(exact, {}, {40, 24}, out);
}

TEST(HostileJpeg, EveryTruncation) {
  for (const JpegSpec& spec : kSpecs) {
    if (!can_encode(spec)) continue;
    const Bytes file = make_jpeg(spec);
    Bytes whole;
    expect_ok(decode(file, whole));
    for (std::size_t size = 0; size < file.size(); ++size) {
      Bytes out;
      const Status status = decode(ByteSpan(file).first(size), out);
      if (status.is_ok()) {
        ASSERT_EQ(out, whole) << size;
        ASSERT_GE(size + 3, file.size());
      } else {
        ASSERT_LE(status.offset(), static_cast<std::int64_t>(size));
      }
    }
  }
}

TEST(HostileJpeg, MissingEndMarkerIsNoDamage) {
  const Bytes file = make_jpeg({});
  Bytes out;
  expect_ok(decode(ByteSpan(file).first(file.size() - 2), out));
  const Bytes progressive = make_jpeg({.is_progressive = true});
  expect_code(decode(ByteSpan(progressive).first(progressive.size() - 2), out), Code::truncated);
}

TEST(HostileJpeg, ZeroedTailIsAnError) {
  Bytes file = make_jpeg({});
  std::fill(file.end() - 60, file.end(), std::byte{0});
  Bytes out;
  EXPECT_FALSE(decode(file, out).is_ok());
}

TEST(HostileJpeg, TrailingBytesAreHarmless) {
  Bytes file = make_jpeg({});
  Bytes expected;
  expect_ok(decode(file, expected));
  file.insert(file.end(), 500, std::byte{0xAB});
  Bytes out;
  expect_ok(decode(file, out));
  EXPECT_EQ(out, expected);
}

TEST(HostileJpeg, BitFlips) {
  for (const JpegSpec& spec : kSpecs) {
    if (!can_encode(spec)) continue;
    const Bytes file = make_jpeg(spec);
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (int bit = 0; bit < 8; bit += 1 + static_cast<int>(at % 3)) {
        Bytes damaged = file;
        damaged[at] ^= static_cast<std::byte>(1 << bit);
        Bytes out;
        static_cast<void>(decode(damaged, out));
        static_cast<void>(read_jpeg_info(damaged));
      }
    }
  }
}

TEST(HostileJpeg, RandomBytes) {
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    Bytes data = testing::random_bytes(seed % 97 + 2, seed);
    data[0] = std::byte{0xFF};
    data[1] = std::byte{0xD8};
    Bytes out;
    EXPECT_FALSE(decode(data, out).is_ok());
  }
}

TEST(HostileJpeg, Headers) {
  const std::vector<std::pair<std::string_view, Code>> cases = {
      {"", Code::truncated},
      {"FF", Code::truncated},
      {"0000", Code::corrupt},
      {"FFD8", Code::truncated},
      {"FFD8 FFD9", Code::corrupt},
      {"FFD8 FFD8 FFD9", Code::corrupt},
      {"FFD8 FFDA 0002", Code::corrupt},
      {"FFD8 FFE0", Code::truncated},
      {"FFD8 FFE0 00", Code::truncated},
      {"FFD8 FFE0 0000", Code::corrupt},
      {"FFD8 FFE0 0001", Code::corrupt},
      {"FFD8 FFE0 FFFF 00", Code::truncated},
      {"FFD8 FFC0 0002 FFDA", Code::corrupt},
      {"FFD8 FFC0 0008 08 0010 0010 00 FFDA", Code::corrupt},
      {"FFD8 FFC0 000B 08 0010 0000 01 011100 FFDA", Code::corrupt},
      {"FFD8 FFC0 000B 08 0000 0010 01 011100 FFDA", Code::unsupported},
      {"FFD8 FFC0 000B 08 0010 0010 03 011100 FFDA", Code::corrupt},
      {"FFD8 FFC0 000B 08 0010 0010 01 011100 FFC0 000B 08 0010 0010 01 011100 FFDA",
       Code::corrupt},
      {"FFD8 FFC0 000B 08 0010 0010 01 011100", Code::truncated},
  };
  for (const auto& [hex, code] : cases) {
    const Bytes data = from_hex(hex);
    SCOPED_TRACE(hex);
    expect_code(read_jpeg_info(data).status(), code);
    Bytes out;
    EXPECT_FALSE(decode(data, out).is_ok());
  }
}

TEST(HostileJpeg, UnusualProcessesAreDescribedButNotDecoded) {
  for (const std::string_view hex :
       {"FFD8 FFC1 000B 0C 0018 0028 01 011100 FFDA 0008 01 0100 003F00",  // 12 bits
        "FFD8 FFC3 000B 08 0018 0028 01 011100 FFDA 0008 01 0100 010000",  // lossless
        "FFD8 FFC5 000B 08 0018 0028 01 011100 FFDA 0008 01 0100 003F00",  // hierarchical
        "FFD8 FFC0 000E 08 0018 0028 02 011100 021100 FFDA 0008 01 0100 003F00"}) {
    const Bytes data = from_hex(hex);
    SCOPED_TRACE(hex);
    const auto info = read_jpeg_info(data);
    expect_ok(info.status());
    EXPECT_EQ(info.value().width, 40U);
    Bytes out;
    expect_code(decode(data, out), Code::unsupported);
  }
}

// Whole files, which other programs decode: 12 bits, lossless, hierarchical.
TEST(HostileJpeg, RareProcessesAreRefusedWholeOrDamaged) {
  for (const std::string_view hex :
       {// 12 bits
        "FFD8FFDB0043000101010101010101010101010101010101010101010101010101010101010101010101"
        "0101010101010101010101010101010101010101010101010101010101FFC40023000000000010000000"
        "0000000000000000000102030405060708090A0B0C0D0E0FFFC400231000000000100000000000000000"
        "000000000102030405060708090A0B0C0D0E0FFFC1000B0C0010001001011100FFDA0008010100003F00"
        "73FF00E6A00F80006A40F7FF00E6A80F80006AC1FFD9",
        // lossless, 8 bits
        "FFD8FFC400230000000000100000000000000000000000000102030405060708090A0B0C0D0E0FFFC300"
        "0B080010001001011100FFDA00080101000100003BF142C50B142C50B142C50B142C50E0B162C58B1601"
        "62C58B162C2163A2C70580705807058E0058E0058E0E0E063801C0C707003818E0070747031D0C7030C7"
        "431C0C7430C7070745063A283143A18A1D0C5063A3A3A2850A142850F0A142850A143A382C50B142C50B"
        "142C50B142C50B1D162C58B162C2162C58B162C02C707058E0058E0058E0B00E0B00E0E8E0E007031C00"
        "E0E063801C0C70707431C0C7430C7031D0C7030C7474743143A18A0C745063A283143A383C2850A14285"
        "0E8A142850A143C3A2858A162858A162858A162858A1C162C58B162C02C58B162C5842FF00FFD9",
        // hierarchical
        "FFD8FFDB0043000101010101010101010101010101010101010101010101010101010101010101010101"
        "0101010101010101010101010101010101010101010101010101010101FFC40023000000000010000000"
        "0000000000000000000102030405060708090A0B0C0D0E0FFFC400231000000000100000000000000000"
        "000000000102030405060708090A0B0C0D0E0FFFDE000B080010001001011100FFC1000B080008000801"
        "011100FFDA0008010100003F0041B9A807FFDF000311FFC5000B080010001001011100FFDA0008010100"
        "003F000000000000FFD9"}) {
    const Bytes file = from_hex(hex);
    SCOPED_TRACE(hex);
    const auto info = read_jpeg_info(file);
    expect_ok(info.status());
    EXPECT_TRUE(info.value().precision == 12 || info.value().is_lossless);
    Bytes out;
    expect_code(decode(file, out), Code::unsupported);
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_FALSE(decode(ByteSpan(file).first(size), out).is_ok());
    }
    for (std::size_t at = 0; at < file.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        Bytes damaged = file;
        damaged[at] ^= static_cast<std::byte>(1 << bit);
        static_cast<void>(decode(damaged, out));
      }
    }
  }
}

// A file whose last scan is repeated, as a small file that costs hours would be made.
Bytes repeat_last_scan(const Bytes& file, int times) {
  const Bytes marker = from_hex("FFDA");
  const auto last = std::find_end(file.begin(), file.end(), marker.begin(), marker.end());
  Bytes repeated(file.begin(), file.end() - 2);
  for (int i = 0; i < times; ++i) repeated.insert(repeated.end(), last, file.end() - 2);
  repeated.insert(repeated.end(), file.end() - 2, file.end());
  return repeated;
}

TEST(HostileJpeg, ManyScansAreRefused) {
  const Bytes file = make_jpeg({.has_whole_scans = true});
  Bytes out;
  expect_ok(decode(file, out));
  expect_ok(decode(repeat_last_scan(file, 100), out));
  const Status status = decode(repeat_last_scan(file, 2000), out);
  expect_code(status, Code::too_large);
  EXPECT_NE(status.detail().find("500 scans"), std::string_view::npos);
}

TEST(HostileJpeg, RepeatedRefinementIsAnError) {
  Bytes out;
  expect_code(decode(repeat_last_scan(make_jpeg({.is_progressive = true}), 1), out), Code::corrupt);
}

TEST(HostileJpeg, MissingComponentIsAnError) {
  const Bytes file = make_jpeg({.has_whole_scans = true});
  const Bytes marker = from_hex("FFDA");
  const auto first = std::search(file.begin(), file.end(), marker.begin(), marker.end());
  const auto second = std::search(first + 2, file.end(), marker.begin(), marker.end());
  for (const auto end : {first, second}) {  // no scan at all, and luma only
    Bytes cut(file.begin(), end);
    cut.insert(cut.end(), {std::byte{0xFF}, std::byte{0xD9}});
    Bytes out;
    expect_code(decode(cut, out), Code::corrupt);
  }
}

}  // namespace
}  // namespace headrace
