#include "headrace/formats/text_records.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::as_bytes;
using testing::expect_code;
using testing::expect_ok;
using Texts = std::vector<std::string>;

Texts texts_of(const std::string& file, TextRecords records, std::uint64_t step) {
  for (std::uint64_t until = step; records.position() < file.size(); until += step) {
    expect_ok(records.scan(as_bytes(file), until));
  }
  Texts found;
  for (std::size_t i = 0; i < records.offsets().size(); ++i) {
    found.push_back(file.substr(records.offsets()[i], records.sizes()[i]));
  }
  return found;
}

TEST(TextRecords, Lines) {
  const std::string file = "\xef\xbb\xbf{1}\r\n\n  \t\r\n {2} \n{}";
  for (const std::uint64_t step : {1U, 4U, 1000U}) {
    EXPECT_EQ(texts_of(file, TextRecords(), step), (Texts{"{1}", "{2} ", "{}"}));
  }
}

TEST(TextRecords, LinesThatAreNoObjects) {
  TextRecords records;
  const Status status = records.scan(as_bytes("{}\n\n [1]\n"), 1000);
  expect_code(status, Code::corrupt);
  EXPECT_EQ(status.offset(), 5);
  EXPECT_EQ(records.line(), 3U);
}

TEST(TextRecords, Csv) {
  const std::string file =
      "a,b\r\n1,\"x\ny\"\r\n\r\n2,\"say \"\"\n\"\", ok\"\n3,x\"y\n\"\",\"\"\"\"\n\"q\"";
  for (const std::uint64_t step : {1U, 7U, 1000U}) {
    EXPECT_EQ(texts_of(file, TextRecords(','), step),
              (Texts{"a,b", "1,\"x\ny\"", "2,\"say \"\"\n\"\", ok\"", "3,x\"y", "\"\",\"\"\"\"",
                     "\"q\""}));
  }
  EXPECT_EQ(texts_of("1;\"\n\"", TextRecords(';'), 1), (Texts{"1;\"\n\""}));
}

TEST(TextRecords, QuoteThatIsNeverClosed) {
  TextRecords records(',');
  const Status status = records.scan(as_bytes("a\n\"x\ny\",\"\"\"\n\n"), 1000);
  expect_code(status, Code::corrupt);
  EXPECT_EQ(status.offset(), 8);
}

TEST(TextRecords, RecordsAreBounded) {
  std::string file(kMaxRecordSize + 1, ' ');
  file[0] = '{';
  expect_code(TextRecords().scan(as_bytes(file), 1), Code::too_large);
  expect_code(TextRecords(',').scan(as_bytes(file), 1), Code::too_large);
  expect_ok(TextRecords().scan(as_bytes(file).first(kMaxRecordSize), 1));
}

TEST(TextRecords, Empty) {
  TextRecords records;
  expect_ok(records.scan({}, 1000));
  EXPECT_TRUE(records.offsets().empty());
}

}  // namespace
}  // namespace headrace
