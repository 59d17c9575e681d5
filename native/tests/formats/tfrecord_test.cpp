#include "headrace/formats/tfrecord.hpp"

#include <string>
#include <string_view>
#include <vector>

#include "headrace/checksum.hpp"
#include "headrace/formats/tf_example.hpp"
#include "headrace/formats/wire.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

ByteSpan bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::string field(unsigned number, std::string_view content) {
  std::string out;
  out += static_cast<char>(number << 3 | 2);
  out += static_cast<char>(content.size());  // all of them are short
  out += content;
  return out;
}

std::string example(std::string_view name, std::string_view feature) {
  return field(1, field(1, field(1, name) + field(2, feature)));
}

std::string ints(std::string_view packed) { return field(3, field(1, packed)); }

// A file of records, and where they are.
struct File {
  std::string bytes;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;

  explicit File(const std::vector<std::string>& records) {
    for (const std::string& record : records) {
      const ByteSpan data = bytes_of(record);
      std::vector<std::byte> frame(kTfrecordHeadSize + kTfrecordTailSize);
      expect_ok(frame_tfrecords(std::span(&data, 1), frame));
      const auto* text = reinterpret_cast<const char*>(frame.data());
      bytes.append(text, kTfrecordHeadSize);
      offsets.push_back(bytes.size());
      sizes.push_back(record.size());
      bytes += record;
      bytes.append(text + kTfrecordHeadSize, kTfrecordTailSize);
    }
  }

  [[nodiscard]] SpanList spans() const { return {offsets, sizes}; }
};

TEST(Tfrecord, ScanFindsWhatWasFramed) {
  const File file({"one", "", std::string(100, 'x')});
  std::vector<std::uint64_t> offsets(2), sizes(2);
  TfrecordScan found;
  expect_ok(scan_tfrecord(bytes_of(file.bytes), 0, offsets, sizes, found));
  EXPECT_EQ(found.count, 2U);
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{file.offsets[0], file.offsets[1]}));
  expect_ok(scan_tfrecord(bytes_of(file.bytes), found.next, offsets, sizes, found));
  EXPECT_EQ(found.count, 1U);
  EXPECT_EQ(sizes[0], 100U);
  EXPECT_EQ(found.next, file.bytes.size());
  std::vector<std::uint32_t> checksums(3);
  expect_ok(check_tfrecords(bytes_of(file.bytes), file.spans(), checksums));
  EXPECT_EQ(checksums[0], crc32c(bytes_of("one")));
  EXPECT_EQ(checksums[1], 0U);
}

TEST(Tfrecord, EveryCutIsSeen) {
  const File file({"one", "two"});
  std::vector<std::uint64_t> offsets(9), sizes(9);
  TfrecordScan found;
  const std::size_t second = file.bytes.size() / 2;
  for (std::size_t cut = second + 1; cut < file.bytes.size(); ++cut) {
    const ByteSpan data = bytes_of(file.bytes).first(cut);
    const Status status = scan_tfrecord(data, 0, offsets, sizes, found);
    expect_code(status, Code::truncated);
    EXPECT_EQ(status.offset(), static_cast<std::int64_t>(second));
  }
}

TEST(Tfrecord, EveryFlippedBitIsSeen) {
  const File file({"one record"});
  std::vector<std::uint64_t> offsets(9), sizes(9);
  TfrecordScan found;
  for (std::size_t bit = 0; bit < file.bytes.size() * 8; ++bit) {
    std::string changed = file.bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << (bit % 8)));
    const bool is_found = scan_tfrecord(bytes_of(changed), 0, offsets, sizes, found).is_ok() &&
                          check_tfrecords(bytes_of(changed), file.spans()).is_ok();
    EXPECT_FALSE(is_found) << bit;
  }
}

TEST(Tfrecord, CopiesOnlyPartsOfGoodRecords) {
  File file({"one", "two"});
  std::string out(4, '.');
  auto* to = reinterpret_cast<std::byte*>(out.data());
  const std::vector<std::byte*> destinations{to, to + 2};
  std::vector<std::uint64_t> offsets{file.offsets[0] + 1, file.offsets[1]};
  std::vector<std::uint64_t> sizes{2, 2};
  expect_ok(
      copy_checked_tfrecords(bytes_of(file.bytes), file.spans(), {offsets, sizes}, destinations));
  EXPECT_EQ(out, "netw");
  offsets[1] = file.offsets[0];
  expect_code(
      copy_checked_tfrecords(bytes_of(file.bytes), file.spans(), {offsets, sizes}, destinations),
      Code::out_of_bounds);
  file.bytes[file.offsets[0]] = 'O';
  const Status status =
      copy_checked_tfrecords(bytes_of(file.bytes), file.spans(), {offsets, sizes}, destinations);
  expect_code(status, Code::wrong_checksum);
  EXPECT_EQ(status.offset(), 0);
}

TEST(Wire, Varints) {
  const auto read = [](std::string_view text, std::uint64_t& value) {
    const std::byte* at = bytes_of(text).data();
    return read_varint(at, at + text.size(), value);
  };
  std::uint64_t value = 0;
  EXPECT_TRUE(read("\xac\x02", value));
  EXPECT_EQ(value, 300U);
  EXPECT_TRUE(read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", value));
  EXPECT_EQ(value, ~std::uint64_t{0});
  EXPECT_FALSE(read("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", value));
  EXPECT_FALSE(read("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", value));
  EXPECT_FALSE(read("\x80", value));
  EXPECT_FALSE(read("", value));
}

TEST(TfExample, ColumnsAndPlaces) {
  const File file({example("a", ints("\x05")), example("b", field(1, field(1, "text"))),
                   example("a", field(3, "\x08\x01\x08\x02"))});
  TfExampleTable table(1000);
  expect_ok(table.add(bytes_of(file.bytes), file.spans()));
  const std::vector<TfColumn> columns = table.columns();
  ASSERT_EQ(columns.size(), 2U);
  EXPECT_EQ(columns[0].kind, TfKind::ints);
  EXPECT_EQ(columns[0].max_count, 2U);
  EXPECT_TRUE(columns[0].is_message);  // two values that are not packed
  EXPECT_EQ(columns[1].min_count, 0U);
  std::vector<std::uint64_t> offsets(6), sizes(6);
  table.places(0, 2, offsets, sizes);
  const std::vector<std::uint64_t> a_offsets{offsets[0], offsets[2], offsets[4]};
  const std::vector<std::uint64_t> a_sizes{sizes[0], sizes[2], sizes[4]};
  std::vector<std::int64_t> values, ends(3);
  expect_ok(read_tf_ints(bytes_of(file.bytes), {a_offsets, a_sizes}, true, values, ends));
  EXPECT_EQ(values, (std::vector<std::int64_t>{5, 1, 2}));
  EXPECT_EQ(ends, (std::vector<std::int64_t>{1, 1, 3}));
}

TEST(TfExample, DamagedRecordsDoNotCount) {
  File file({example("a", ints("\x05")), example("b", ints("\x05")), example("a", ints("\x06"))});
  file.bytes[file.offsets[1] + 6] = 'c';  // another name
  TfExampleTable table(1000);
  const Status status = table.add(bytes_of(file.bytes), file.spans());
  expect_code(status, Code::corrupt);
  EXPECT_EQ(status.offset(), 1);
  EXPECT_EQ(table.rows(), 1U);
  EXPECT_EQ(table.columns().size(), 1U);
  expect_ok(table.add_bad());
  const SpanList rest{std::span(file.offsets).subspan(2), std::span(file.sizes).subspan(2)};
  expect_ok(table.add(bytes_of(file.bytes), rest));
  EXPECT_EQ(table.columns()[0].min_count, 1U);
}

// What lies at the places of a table, summed up afterwards.
std::vector<std::uint32_t> summed(const TfExampleTable& table, const File& file) {
  const std::size_t stride = table.columns().size() + 1;
  std::vector<std::uint64_t> offsets(table.rows() * stride), sizes(table.rows() * stride);
  table.places(1, stride, offsets, sizes);
  for (std::size_t i = 0; i < table.rows(); ++i) {
    offsets[i * stride] = file.offsets[i];
    sizes[i * stride] = file.sizes[i];
  }
  std::vector<std::uint32_t> out(offsets.size());
  expect_ok(crc32c_spans(bytes_of(file.bytes), offsets, sizes, out));
  return out;
}

TEST(TfExample, ChecksumsInTheSamePass) {
  const std::string two = field(1, field(1, "x") + field(1, "y"));
  const std::string list = field(2, field(1, field(1, "s") + field(2, field(1, ints("\x05")))));
  const File file({example("a", ints("\x05")) + example("t", field(1, field(1, "text"))),
                   example("a", ints("\x06\x07")) + example("t", field(1, field(1, "more"))), list,
                   example("a", field(3, "\x08\x01\x08\x02")) + example("t", two), std::string()});
  TfExampleTable table(1000, true);
  expect_ok(table.add(bytes_of(file.bytes),
                      {std::span(file.offsets).first(2), std::span(file.sizes).first(2)}));
  EXPECT_FALSE(table.columns()[0].is_message);
  EXPECT_FALSE(table.columns()[1].is_message);
  expect_ok(table.add(bytes_of(file.bytes),
                      {std::span(file.offsets).subspan(2), std::span(file.sizes).subspan(2)}));
  EXPECT_TRUE(table.columns()[0].is_message);  // so that the first rows have other places now
  EXPECT_TRUE(table.columns()[1].is_message);
  std::vector<std::uint32_t> found(5 * 4);
  table.checksums(bytes_of(file.bytes), found);
  EXPECT_EQ(found, summed(table, file));
  EXPECT_NE(found[1], 0U);
}

TEST(TfExample, EveryRecordIsComparedWhereChecksumsAreMade) {
  File file({example("a", ints("\x05")), example("a", ints("\x06"))});
  file.bytes[file.offsets[1] + file.sizes[1] - 1] ^= 1;  // another number, nothing unusual
  TfExampleTable trusting(1000);
  expect_ok(trusting.add(bytes_of(file.bytes), file.spans()));
  TfExampleTable table(1000, true);
  const Status status = table.add(bytes_of(file.bytes), file.spans());
  expect_code(status, Code::corrupt);
  EXPECT_EQ(status.offset(), 1);
  expect_ok(table.add_bad());
  std::vector<std::uint32_t> found(4, 1);
  table.checksums(bytes_of(file.bytes), found);
  EXPECT_EQ(found[3], 0U);
  EXPECT_NE(found[0], 0U);
}

TEST(TfExample, LimitOfCells) {
  const File file({example("a", ints("\x05")), example("b", ints("\x05"))});
  TfExampleTable table(3);
  expect_code(table.add(bytes_of(file.bytes), file.spans()), Code::too_large);
}

}  // namespace
}  // namespace headrace
