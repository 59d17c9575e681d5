#include "headrace/formats/msgpack.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::as_bytes;
using testing::expect_code;
using testing::expect_ok;
using namespace std::string_literals;
using Numbers = std::vector<std::uint64_t>;

constexpr std::uint64_t kAll = UINT64_MAX;

std::int64_t first_of(const MsgpackScanner& scanner, std::size_t column, MsgpackKind kind) {
  return scanner.firsts()[column][static_cast<std::size_t>(kind)];
}

TEST(MsgpackScanner, MapsInAnyOrder) {
  const std::string file =
      "\x82\xa1"
      "a\x07\xa1"
      "b\xc4\x02xy\x82\xa1"
      "b\xc4\x01z\xa1"
      "a\xcd\x01\x00"s;
  MsgpackScanner scanner;
  expect_ok(scanner.scan(as_bytes(file), 1));
  EXPECT_EQ(scanner.samples(), 1U);
  expect_ok(scanner.scan(as_bytes(file), kAll));
  ASSERT_EQ(scanner.samples(), 2U);
  EXPECT_TRUE(scanner.is_maps());
  EXPECT_EQ(scanner.columns(), (std::vector<std::string>{"a", "b"}));
  scanner.strip_heads();
  EXPECT_EQ(scanner.offsets(), (Numbers{3, 8, 18, 15}));
  EXPECT_EQ(scanner.sizes(), (Numbers{1, 2, 3, 1}));
  EXPECT_EQ(first_of(scanner, 0, MsgpackKind::integer), 0);
  EXPECT_EQ(first_of(scanner, 1, MsgpackKind::bytes), 0);
  EXPECT_EQ(first_of(scanner, 1, MsgpackKind::text), kNoSample);
  std::vector<std::int64_t> numbers(2);
  expect_ok(decode_msgpack_ints(as_bytes(file), Numbers{3, 18}, Numbers{1, 3}, numbers));
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{7, 256}));
}

TEST(MsgpackScanner, EveryKind) {
  const std::vector<std::pair<std::string, MsgpackKind>> values = {
      {"\xc0"s, MsgpackKind::nil},
      {"\xc3"s, MsgpackKind::boolean},
      {"\xff"s, MsgpackKind::integer},
      {"\xcc\xff"s, MsgpackKind::integer},
      {"\xd3\x80\0\0\0\0\0\0\0"s, MsgpackKind::integer},
      {"\xcf\x80\0\0\0\0\0\0\0"s, MsgpackKind::big_integer},
      {"\xca\0\0\0\0"s, MsgpackKind::floating},
      {"\xcb\0\0\0\0\0\0\0\0"s, MsgpackKind::floating},
      {"\xd9\x01x"s, MsgpackKind::text},
      {"\xdb\0\0\0\x01x"s, MsgpackKind::text},
      {"\xc5\0\x01x"s, MsgpackKind::bytes},
      {"\x92\x01\x90"s, MsgpackKind::container},
      {"\xdf\0\0\0\x01\x01\x80"s, MsgpackKind::container},
      {"\x91\x81\x01\xc4\x00"s, MsgpackKind::container_with_bytes},
      {"\xd6\xff\0\0\0\0"s, MsgpackKind::time},
      {"\xc7\x0c\xff\0\0\0\0\0\0\0\0\0\0\0\0"s, MsgpackKind::time},
  };
  for (const auto& [value, kind] : values) {
    MsgpackScanner scanner;
    expect_ok(scanner.scan(as_bytes(value + value), kAll));
    EXPECT_EQ(scanner.samples(), 2U);
    EXPECT_FALSE(scanner.is_maps());
    EXPECT_EQ(scanner.sizes(), (Numbers{value.size(), value.size()}));
    EXPECT_EQ(first_of(scanner, 0, kind), 0);
    for (std::size_t cut = 1; cut < value.size(); ++cut) {
      MsgpackScanner shorter;
      expect_code(shorter.scan(as_bytes(value).first(cut), kAll), Code::truncated);
    }
  }
}

TEST(MsgpackScanner, WhatIsRefused) {
  const std::vector<std::tuple<std::string, Code, std::int64_t>> files = {
      {"\x01\xc1"s, Code::corrupt, 1},
      {"\xd4\x05x"s, Code::unsupported, 0},
      {"\x91\xd6\xff\0\0\0\0"s, Code::unsupported, 1},
      {"\x81\xa1"
       "a\x01\x81\xa1"
       "b\x01"s,
       Code::corrupt, 5},
      {"\x82\xa1"
       "a\x01\xa1"
       "b\x02\x81\xa1"
       "b\x01"s,
       Code::corrupt, 7},
      {"\x82\xa1"
       "a\x01\xa1"
       "a\x01"s,
       Code::corrupt, 4},
      {"\x81\xa1"
       "a\x01\x05"s,
       Code::corrupt, 4},
      {"\x81\xa1"
       "a\x01\x81\x05\x05"s,
       Code::unsupported, 5},
      {"\xdd\xff\xff\xff\xff"s, Code::truncated, 0},
      {"\xdf\xff\xff\xff\xff"s, Code::truncated, 0},
      {"\xc6\xff\xff\xff\xff"s, Code::truncated, 0},
  };
  for (const auto& [file, code, at] : files) {
    MsgpackScanner scanner;
    const Status status = scanner.scan(as_bytes(file), kAll);
    expect_code(status, code);
    EXPECT_EQ(status.offset(), at);
  }
}

TEST(MsgpackScanner, Depth) {
  const auto nested = [](std::size_t levels) { return std::string(levels, '\x91') + "\x01"; };
  MsgpackScanner deep;
  expect_ok(deep.scan(as_bytes(nested(kMaxMsgpackDepth)), kAll));
  MsgpackScanner bomb;
  expect_code(bomb.scan(as_bytes(nested(kMaxMsgpackDepth + 1)), kAll), Code::too_large);
}

TEST(MsgpackNumbers, OfEveryWidth) {
  const std::string file = "\xd0\x80\xd1\x80\0\xd2\x80\0\0\0\xce\xff\xff\xff\xff\xe0\xc3"s;
  const Numbers offsets = {0, 2, 5, 10, 15, 16};
  const Numbers sizes = {2, 3, 5, 5, 1, 1};
  std::vector<std::int64_t> ints(6);
  expect_ok(decode_msgpack_ints(as_bytes(file), offsets, sizes, ints));
  EXPECT_EQ(ints, (std::vector<std::int64_t>{-128, -32768, INT32_MIN, UINT32_MAX, -32, 1}));
  const std::string floats = "\xca\x3f\x80\0\0\xcb\x40\0\0\0\0\0\0\0\x05"s;
  std::vector<double> doubles(3);
  expect_ok(decode_msgpack_floats(as_bytes(floats), Numbers{0, 5, 14}, Numbers{5, 9, 1}, doubles));
  EXPECT_EQ(doubles, (std::vector<double>{1, 2, 5}));
  const Status status = decode_msgpack_ints(as_bytes(floats), Numbers{14, 0}, Numbers{1, 5},
                                            std::span(ints).first(2));
  expect_code(status, Code::corrupt);
  EXPECT_EQ(status.offset(), 1);
  expect_code(
      decode_msgpack_ints(as_bytes(floats), Numbers{15}, Numbers{1}, std::span(ints).first(1)),
      Code::out_of_bounds);
}

}  // namespace
}  // namespace headrace
