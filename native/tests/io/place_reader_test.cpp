#include "headrace/io/place_reader.hpp"

#include <algorithm>

#include "headrace/checksum.hpp"
#include "tests/support.hpp"

namespace headrace {
namespace {

using testing::expect_code;
using testing::expect_ok;

std::vector<std::byte> numbered(std::size_t size, unsigned first) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(first + i);
  return bytes;
}

class PlaceReaderTest : public ::testing::Test {
 protected:
  std::vector<std::byte> first_ = numbered(1000, 0);
  std::vector<std::byte> third_ = numbered(300, 7);
  PlaceReader reader_{{first_, {}, third_}};

  [[nodiscard]] Status copy(std::span<const FilePlace> places, bool is_checked,
                            std::vector<std::int64_t>& used) {
    out_.clear();
    std::vector<std::byte*> destinations;
    for (const FilePlace& place : places) {
      out_.emplace_back(static_cast<std::size_t>(std::clamp<std::int64_t>(place.size, 0, 1000)));
      destinations.push_back(out_.back().data());
    }
    return reader_.copy(places, destinations, is_checked, used);
  }

  std::vector<std::vector<std::byte>> out_;
};

TEST_F(PlaceReaderTest, CopiesInTheOrderOfThePlaces) {
  const std::vector<FilePlace> places = {{2, 10, 20, kNoChecksum},
                                         {0, 900, 100, crc32c(ByteSpan(first_).subspan(900))},
                                         {7, 5, 0, kNoChecksum},
                                         {0, 0, 500, crc32c(ByteSpan(first_).first(500))}};
  for (const bool is_checked : {true, false}) {
    std::vector<std::int64_t> used;
    expect_ok(copy(places, is_checked, used));
    EXPECT_EQ(used, (std::vector<std::int64_t>{0, 2}));
    EXPECT_TRUE(std::ranges::equal(out_[0], ByteSpan(third_).subspan(10, 20)));
    EXPECT_TRUE(std::ranges::equal(out_[1], ByteSpan(first_).subspan(900)));
    EXPECT_TRUE(std::ranges::equal(out_[3], ByteSpan(first_).first(500)));
  }
}

TEST_F(PlaceReaderTest, TellsTheFirstThatIsDamaged) {
  const std::vector<FilePlace> places = {
      {2, 0, 9, kNoChecksum}, {2, 100, 9, 5}, {0, 0, 9, 5}, {0, 50, 9, kNoChecksum}};
  std::vector<std::int64_t> used;
  const Status status = copy(places, true, used);
  expect_code(status, Code::wrong_checksum);
  EXPECT_EQ(status.offset(), 1);
  expect_ok(copy(places, false, used));
}

TEST_F(PlaceReaderTest, RefusesWhatIsNotInAShard) {
  for (const FilePlace bad : {FilePlace{0, 1, 1000, 0}, FilePlace{0, -1, 5, 0},
                              FilePlace{0, 5, -1, 0}, FilePlace{1, 0, 1, 0}, FilePlace{3, 0, 1, 0},
                              FilePlace{-1, 0, 1, 0}, FilePlace{0, INT64_MAX, INT64_MAX, 0}}) {
    const std::vector<FilePlace> places = {{0, 0, 1, kNoChecksum}, bad};
    std::vector<std::int64_t> used;
    const Status status = copy(places, true, used);
    expect_code(status, Code::out_of_bounds);
    EXPECT_EQ(status.offset(), 1);
  }
  std::vector<std::int64_t> used;
  expect_code(reader_.copy(std::vector<FilePlace>(2), {}, true, used), Code::invalid_argument);
}

}  // namespace
}  // namespace headrace
