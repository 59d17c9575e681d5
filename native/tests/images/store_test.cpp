#include "headrace/images/store.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "headrace/jpeg/codec.hpp"
#include "headrace/resample/resize.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace {
namespace {

using testing::Bytes;
using testing::JpegKind;
using testing::make_jpeg;

constexpr std::uint64_t kAlwaysJpeg = 0;
constexpr std::uint64_t kNeverJpeg = UINT64_MAX;

Result<StoredImage> store(const Bytes& jpeg, StoreOptions options, std::uint64_t jpg_above) {
  StoreScratch scratch;
  return store_jpeg(jpeg, options, jpg_above, scratch);
}

Bytes decoded(const Bytes& jpeg, ImageShape shape) {
  Bytes pixels(shape.width * shape.height * kRgbChannels);
  EXPECT_TRUE(decode_jpeg(jpeg, {}, shape, pixels).is_ok());
  return pixels;
}

TEST(Store, KeepsWhatNeedsNoShrinking) {
  for (const JpegKind kind : {JpegKind::color, JpegKind::grayscale, JpegKind::rgb}) {
    const Result<StoredImage> stored = store(make_jpeg({.kind = kind}), {}, kAlwaysJpeg);
    ASSERT_TRUE(stored.is_ok());
    EXPECT_TRUE(stored.value().is_source);
    EXPECT_TRUE(stored.value().is_jpeg);
    EXPECT_EQ(stored.value().shape.width, 40u);
    EXPECT_EQ(stored.value().shape.height, 24u);
  }
}

TEST(Store, RawPixelsAreTheDecodedOnes) {
  const Bytes jpeg = make_jpeg({});
  const Result<StoredImage> stored = store(jpeg, {}, kNeverJpeg);
  ASSERT_TRUE(stored.is_ok());
  EXPECT_FALSE(stored.value().is_jpeg);
  EXPECT_EQ(stored.value().bytes, decoded(jpeg, {40, 24}));
}

TEST(Store, ThresholdIsOnTheRawSize) {
  const Bytes jpeg = make_jpeg({});
  EXPECT_TRUE(store(jpeg, {}, 40 * 24 * 3 - 1).value().is_jpeg);
  EXPECT_FALSE(store(jpeg, {}, 40 * 24 * 3).value().is_jpeg);
}

TEST(Store, ShrinksAsResizeDoes) {
  const Bytes jpeg = make_jpeg({});
  const Result<StoredImage> stored = store(jpeg, {.max_side = 20}, kNeverJpeg);
  ASSERT_TRUE(stored.is_ok());
  EXPECT_EQ(stored.value().shape.width, 20u);
  EXPECT_EQ(stored.value().shape.height, 12u);
  Bytes small(20 * 12 * 3);
  ASSERT_TRUE(resize_area(decoded(jpeg, {40, 24}), {40, 24}, small, {20, 12}).is_ok());
  EXPECT_EQ(stored.value().bytes, small);
}

TEST(Store, ShrunkJpegDecodesToItsShape) {
  const Result<StoredImage> stored = store(make_jpeg({}), {.max_side = 15}, kAlwaysJpeg);
  ASSERT_TRUE(stored.is_ok());
  EXPECT_FALSE(stored.value().is_source);
  const Result<JpegInfo> info = read_jpeg_info(stored.value().bytes);
  ASSERT_TRUE(info.is_ok());
  EXPECT_EQ(info.value().width, 15u);
  EXPECT_EQ(info.value().height, 9u);
}

TEST(Store, ShapeNeverVanishes) {
  EXPECT_EQ(stored_shape({1000, 1}, 10).height, 1u);
  EXPECT_EQ(stored_shape({1000, 1}, 10).width, 10u);
  EXPECT_EQ(stored_shape({7, 5}, 0).width, 7u);
  EXPECT_EQ(stored_shape({7, 5}, 7).height, 5u);
}

TEST(Store, RefusesOtherKinds) {
  for (const JpegKind kind : {JpegKind::cmyk, JpegKind::ycck}) {
    EXPECT_EQ(store(make_jpeg({.kind = kind}), {}, kAlwaysJpeg).status().code(), Code::unsupported);
  }
}

TEST(Store, NoTruncationPassesUnnoticed) {
  const Bytes jpeg = make_jpeg({});
  for (std::size_t size = 0; size + 2 < jpeg.size(); ++size) {
    Bytes cut(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(size));
    const Result<StoredImage> stored = store(cut, {}, kAlwaysJpeg);
    // Bytes cut off behind the last coded block are no loss: then all pixels are still there.
    if (stored.is_ok()) {
      EXPECT_EQ(decoded(cut, {40, 24}), decoded(jpeg, {40, 24}));
    }
  }
}

TEST(Store, ReadsWholeFiles) {
  const std::string path = ::testing::TempDir() + "headrace_store_test";
  std::ofstream(path, std::ios::binary) << "abc";
  std::vector<std::byte> data;
  ASSERT_TRUE(read_file(path.c_str(), data).is_ok());
  EXPECT_EQ(data.size(), 3u);
  EXPECT_EQ(data[2], std::byte{'c'});
  std::remove(path.c_str());
  EXPECT_EQ(read_file(path.c_str(), data).code(), Code::unsupported);
  EXPECT_EQ(read_file("/", data).code(), Code::unsupported);
}

}  // namespace
}  // namespace headrace
