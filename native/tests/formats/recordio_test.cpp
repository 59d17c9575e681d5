#include "headrace/formats/recordio.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

const std::string kMagicText("\x0a\x23\xd7\xce", 4);

ByteSpan view_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

struct Found {
  std::vector<std::uint64_t> offsets = std::vector<std::uint64_t>(9);
  std::vector<std::uint64_t> sizes = std::vector<std::uint64_t>(9);
  std::vector<std::uint8_t> is_split = std::vector<std::uint8_t>(9);
  RecordioScan scan;

  Status read(std::string_view file) {
    return scan_recordio(view_of(file), 0, {offsets, sizes, is_split}, scan);
  }
};

TEST(Recordio, WhatIsEncodedIsFoundAndJoined) {
  const std::vector<std::string> records{"",
                                         "abc",
                                         "abcd" + kMagicText + "e",
                                         kMagicText,
                                         "ab" + kMagicText,
                                         kMagicText + kMagicText + "1"};
  std::string file;
  for (const std::string& record : records) expect_ok(encode_recordio(view_of(record), file));
  Found found;
  expect_ok(found.read(file));
  ASSERT_EQ(found.scan.count, records.size());
  EXPECT_EQ(found.scan.next, file.size());
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::string joined;
    const std::string_view stored = std::string_view(file).substr(found.offsets[i], found.sizes[i]);
    expect_ok(join_recordio(view_of(stored), joined));
    EXPECT_EQ(joined, records[i]);
    EXPECT_EQ(found.is_split[i] != 0, i == 2 || i == 3 || i == 5);
  }
}

TEST(Recordio, EveryCutIsSeen) {
  std::string file;
  expect_ok(encode_recordio(view_of("abcd" + kMagicText + "e"), file));
  Found found;
  for (std::size_t cut = 1; cut < file.size() - 3; ++cut) {  // the zeros at the end may be missing
    expect_code(found.read(file.substr(0, cut)), Code::truncated);
  }
}

TEST(Recordio, PartsInTheWrongOrder) {
  std::string file;
  expect_ok(encode_recordio(view_of("abcd"), file));
  Found found;
  for (const int flag : {2, 3, 4, 7}) {
    file[7] = static_cast<char>(flag << 5);
    expect_code(found.read(file), Code::corrupt);
  }
  file[7] = 1 << 5;
  expect_code(found.read(file), Code::truncated);
  std::string joined;
  expect_code(join_recordio(view_of(file + file), joined), Code::corrupt);
}

}  // namespace
}  // namespace headrace
