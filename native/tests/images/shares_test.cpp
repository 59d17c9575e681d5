#include "core/images/shares.hpp"

#include <algorithm>
#include <vector>

#include "tests/support.hpp"

namespace headrace {
namespace {

// Only the sides count.
struct Sides {
  Sides(std::size_t n, std::uint32_t side) : offsets(n), sides(n, side) {}

  [[nodiscard]] LoadBatch batch() const {
    LoadBatch batch;
    batch.offsets = offsets;
    batch.widths = sides;
    batch.heights = sides;
    return batch;
  }

  std::vector<std::uint64_t> offsets;
  std::vector<std::uint32_t> sides;
};

constexpr std::size_t kSmall = 32 * 32 * 3;
constexpr std::size_t kLarge = 224 * 224 * 3;

TEST(Shares, SmallImagesAreTakenSeveralAtATime) {
  const Sides small(512, 32);
  const Share share = share_work(small.batch(), kSmall, 1);
  EXPECT_EQ(share.images, 10U);  // 64 KiB by 6 KiB
  EXPECT_EQ(share.count, 52U);
}

TEST(Shares, LargeImagesAreTakenOneByOne) {
  for (const Sides& sides : {Sides(64, 500), Sides(64, 32)}) {
    const Share share = share_work(sides.batch(), kLarge, 1);
    EXPECT_EQ(share.images, 1U);
    EXPECT_EQ(share.count, 64U);
  }
  EXPECT_EQ(share_work(Sides(64, 500).batch(), kSmall, 1).images, 1U);  // decoded to be small
}

TEST(Shares, AllWorkersHaveSome) {
  const Sides small(64, 32);
  for (const std::size_t workers : {1U, 2U, 16U, 100U}) {
    EXPECT_GE(share_work(small.batch(), kSmall, workers).count, std::min<std::size_t>(64, workers));
  }
  EXPECT_EQ(share_work(small.batch(), kSmall, 16).images, 1U);
}

TEST(Shares, CopiesAreTakenInLargerPieces) {
  EXPECT_EQ(share_copies(Sides(80, 32).batch(), kSmall).count, 1U);
  EXPECT_EQ(share_copies(Sides(512, 32).batch(), kSmall).count, 7U);
  EXPECT_EQ(share_copies(Sides(8, 1000).batch(), 3'000'000).count, 8U);
}

TEST(Shares, SidesThatCannotBeAreNoTrouble) {
  const Share share = share_work(Sides(4, 0xFFFFFFFF).batch(), kSmall, 2);
  EXPECT_EQ(share.images, 1U);
  EXPECT_EQ(share.count, 4U);
  EXPECT_EQ(Share::of(0, 0).count, 0U);
}

}  // namespace
}  // namespace headrace
