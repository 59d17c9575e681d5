#include "core/images/shares.hpp"

#include <algorithm>

namespace headrace {
namespace {

constexpr std::size_t kWorkBytes = 64 << 10;
constexpr std::size_t kCopyBytes = 512 << 10;
constexpr std::size_t kSharesOfWorker = 4;  // or more, so that none waits long for the last one

}  // namespace

Share Share::of(std::size_t n, std::size_t images) noexcept {
  images = std::max<std::size_t>(1, images);
  return {images, divide_up(n, images)};
}

Share share_by_bytes(const LoadBatch& batch, std::size_t slot_size,
                     std::size_t share_bytes) noexcept {
  const std::size_t n = batch.offsets.size();
  double bytes = static_cast<double>(slot_size) * static_cast<double>(n);
  for (std::size_t i = 0; i < n; ++i) {
    bytes += static_cast<double>(kRgbChannels) * batch.widths[i] * batch.heights[i];
  }
  const double images = static_cast<double>(share_bytes) * static_cast<double>(n) / bytes;
  return Share::of(n, images >= static_cast<double>(n) ? n : static_cast<std::size_t>(images));
}

Share share_work(const LoadBatch& batch, std::size_t slot_size, std::size_t workers) noexcept {
  const std::size_t n = batch.offsets.size();
  const Share share = share_by_bytes(batch, slot_size, kWorkBytes);
  return Share::of(n, std::min(share.images, n / (kSharesOfWorker * workers)));
}

Share share_copies(const LoadBatch& batch, std::size_t slot_size) noexcept {
  return share_by_bytes(batch, slot_size, kCopyBytes);
}

}  // namespace headrace
