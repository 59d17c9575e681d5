#include "headrace/formats/beton_spans.hpp"

#include <array>

#include "tests/formats/beton_support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::expect_code;
using testing::expect_ok;
using testing::table_bytes;

constexpr std::uint64_t kStart = 1000;
constexpr std::uint64_t kEnd = 9000;

struct Picture {
  unsigned mode;
  unsigned width;
  unsigned height;
  std::uint64_t pointer;
};

// Records of a number, a picture and an array, with nothing aligned.
class Records {
 public:
  static constexpr std::size_t kPictureAt = 8;
  static constexpr std::size_t kArrayAt = 21;
  static constexpr std::size_t kSize = 31;

  void add(const Picture& picture, std::uint64_t array = kStart) {
    put(~std::uint64_t{0}, 8);
    put(picture.mode, 1);
    put(picture.width, 2);
    put(picture.height, 2);
    put(picture.pointer, 8);
    put(array, 8);
    put(0xEEEE, 2);
  }

  [[nodiscard]] BetonColumn column(std::size_t member_at) const {
    return {bytes_, kSize, member_at, kStart, kEnd};
  }

 private:
  void put(std::uint64_t value, int size) {
    for (int i = 0; i < size; ++i) bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
  }

  Bytes bytes_;
};

struct Found {
  explicit Found(std::size_t n) : pointers(n), sizes(n), modes(n), widths(n), heights(n) {}

  [[nodiscard]] PicturePlaces places() { return {pointers, sizes, modes, widths, heights}; }

  std::vector<std::uint64_t> pointers;
  std::vector<std::uint64_t> sizes;
  std::vector<std::uint8_t> modes;
  std::vector<std::uint32_t> widths;
  std::vector<std::uint32_t> heights;
};

bool is_sound(const Records& records, const std::vector<TableRow>& rows,
              const std::vector<std::int64_t>& samples, Found& found) {
  const Bytes bytes = table_bytes(rows, 0);
  const auto result = locate_pictures(records.column(Records::kPictureAt), AllocationTable(bytes),
                                      {2, 0}, samples, found.places());
  expect_ok(result.status());
  return result.value();
}

TEST(BetonSpans, PicturesOfManySamples) {
  Records records;
  records.add({1, 4, 5, 1000});
  records.add({0, 300, 200, 2000});
  records.add({1, 1, 1, 8997});
  const std::vector<TableRow> rows{{0, 1000, 60}, {0, 1060, 5}, {1, 2000, 777},
                                   {1, 2777, 5},  {2, 8997, 3}, {2, 8000, 5}};
  const std::vector<std::int64_t> samples{2, 0, 1, 0};
  Found found(4);
  EXPECT_TRUE(is_sound(records, rows, samples, found));
  EXPECT_EQ(found.pointers, (std::vector<std::uint64_t>{8997, 1000, 2000, 1000}));
  EXPECT_EQ(found.sizes, (std::vector<std::uint64_t>{3, 60, 777, 60}));
  EXPECT_EQ(found.modes, (std::vector<std::uint8_t>{1, 1, 0, 1}));
  EXPECT_EQ(found.widths, (std::vector<std::uint32_t>{1, 4, 300, 4}));
  EXPECT_EQ(found.heights, (std::vector<std::uint32_t>{1, 5, 200, 5}));
  // The table need not be in order.
  EXPECT_TRUE(is_sound(records, {rows[4], rows[2], rows[0]}, samples, found));
  EXPECT_EQ(found.sizes, (std::vector<std::uint64_t>{3, 60, 777, 60}));
  Found none(0);
  EXPECT_TRUE(is_sound(records, rows, {}, none));
}

TEST(BetonSpans, PicturesThatAreNotSound) {
  const auto is_one_sound = [](const Picture& picture, const TableRow& row) {
    Records records;
    records.add(picture);
    Found found(1);
    return is_sound(records, {row}, {0}, found);
  };
  EXPECT_TRUE(is_one_sound({1, 4, 5, 1000}, {0, 1000, 60}));
  EXPECT_FALSE(is_one_sound({2, 4, 5, 1000}, {0, 1000, 60}));    // unknown mode
  EXPECT_FALSE(is_one_sound({1, 0, 5, 1000}, {0, 1000, 60}));    // no pixels
  EXPECT_FALSE(is_one_sound({0, 4, 0, 1000}, {0, 1000, 60}));    // no pixels
  EXPECT_FALSE(is_one_sound({1, 4, 5, 1000}, {0, 1000, 59}));    // too few bytes
  EXPECT_FALSE(is_one_sound({1, 4, 5, 1000}, {0, 1001, 60}));    // not in the table
  EXPECT_FALSE(is_one_sound({1, 4, 5, 1000}, {0, 1000, 0}));     // empty rows do not count
  EXPECT_FALSE(is_one_sound({1, 4, 5, 999}, {0, 999, 60}));      // before the data
  EXPECT_TRUE(is_one_sound({1, 4, 5, 8940}, {0, 8940, 60}));     // up to the end
  EXPECT_FALSE(is_one_sound({1, 4, 5, 8941}, {0, 8941, 60}));    // beyond it
  EXPECT_FALSE(is_one_sound({0, 4, 5, 1000}, {0, 1000, kEnd}));  // beyond it
  EXPECT_FALSE(is_one_sound({0, 4, 5, 1000}, {0, 1000, UINT64_MAX - 1}));
  EXPECT_FALSE(is_one_sound({0, 4, 5, UINT64_MAX}, {0, UINT64_MAX, 60}));
}

TEST(BetonSpans, SamplesThatAreNotThere) {
  Records records;
  records.add({1, 4, 5, 1000});
  for (const std::int64_t sample : {std::int64_t{1}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    Found found(2);
    EXPECT_FALSE(is_sound(records, {{0, 1000, 60}}, {0, sample}, found));
    std::array<std::uint64_t, 1> pointers{};
    const auto arrays = locate_arrays(records.column(Records::kArrayAt), 8, {{sample}}, pointers);
    expect_ok(arrays.status());
    EXPECT_FALSE(arrays.value());
  }
}

TEST(BetonSpans, Arrays) {
  Records records;
  for (const std::uint64_t pointer : {kStart, kEnd - 16, kEnd - 15, kStart - 1, UINT64_MAX}) {
    records.add({1, 4, 5, 1000}, pointer);
  }
  const auto locate = [&](const std::vector<std::int64_t>& samples, std::uint64_t size,
                          std::vector<std::uint64_t>& pointers) {
    pointers.resize(samples.size());
    const auto found = locate_arrays(records.column(Records::kArrayAt), size, samples, pointers);
    expect_ok(found.status());
    return found.value();
  };
  std::vector<std::uint64_t> pointers;
  EXPECT_TRUE(locate({1, 0, 1}, 16, pointers));
  EXPECT_EQ(pointers, (std::vector<std::uint64_t>{kEnd - 16, kStart, kEnd - 16}));
  for (const std::int64_t bad : {2, 3, 4}) EXPECT_FALSE(locate({0, bad}, 16, pointers));
  EXPECT_FALSE(locate({0}, UINT64_MAX, pointers));
  EXPECT_TRUE(locate({4, 3}, 0, pointers));  // nothing may be anywhere
  EXPECT_EQ(pointers, (std::vector<std::uint64_t>{0, 0}));
}

TEST(BetonSpans, WrongArgumentsAreErrors) {
  Records records;
  records.add({1, 4, 5, 1000});
  std::array<std::uint64_t, 1> pointers{};
  BetonColumn column = records.column(Records::kSize - 7);
  expect_code(locate_arrays(column, 8, {{std::int64_t{0}}}, pointers).status(),
              Code::invalid_argument);
  column.record_size = 0;
  expect_code(locate_arrays(column, 8, {{std::int64_t{0}}}, pointers).status(),
              Code::invalid_argument);
  column = records.column(Records::kArrayAt);
  expect_code(locate_arrays(column, 8, {}, pointers).status(), Code::invalid_argument);
  const Bytes table = table_bytes({{0, 1000, 60}}, 0);
  Found found(2);
  expect_code(locate_pictures(records.column(Records::kPictureAt), AllocationTable(table), {1, 0},
                              {{std::int64_t{0}}}, found.places())
                  .status(),
              Code::invalid_argument);
  expect_code(locate_pictures(records.column(Records::kSize - 12), AllocationTable(table), {1, 0},
                              {{std::int64_t{0}, std::int64_t{0}}}, found.places())
                  .status(),
              Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
