#include "core/images/stored_pixels.hpp"

#include <algorithm>
#include <cstring>

#include "core/dispatch.hpp"

namespace headrace {
namespace {

constexpr std::size_t kLineSize = 64;
// What lies behind them the processor fetches by itself.
constexpr std::size_t kPrefetchBytes = 4096;

struct MirrorKernels {
  decltype(&kernels::scalar::mirror_row) mirror_row;
};

#define HEADRACE_MIRROR_KERNELS(level) \
  MirrorKernels { kernels::level::mirror_row }
constexpr KernelTables<MirrorKernels> kMirrorKernels =
    HEADRACE_KERNEL_TABLES(HEADRACE_MIRROR_KERNELS);
#undef HEADRACE_MIRROR_KERNELS

// All of a picture, as it is.
bool is_untouched(const LoadBatch& batch, std::size_t i) noexcept {
  if (!batch.flips.empty() && batch.flips[i] != 0) return false;
  if (batch.crops.empty()) return true;
  const std::int32_t* crop = batch.crops.data() + 4 * i;
  return crop[0] == 0 && crop[1] == 0 && crop[2] >= 0 && crop[3] >= 0 &&
         static_cast<std::uint32_t>(crop[2]) == batch.heights[i] &&
         static_cast<std::uint32_t>(crop[3]) == batch.widths[i];
}

}  // namespace

bool are_plain_copies(ByteSpan base, const LoadBatch& batch, const LoadOptions& options) noexcept {
  if (options.type != OutputType::uint8 || options.is_channels_first || !batch.steps.empty()) {
    return false;
  }
  const std::size_t size = options.shape.width * options.shape.height * kRgbChannels;
  for (std::size_t i = 0; i < batch.offsets.size(); ++i) {
    if (batch.modes[i] != static_cast<std::uint8_t>(StoredMode::raw) ||
        batch.widths[i] != options.shape.width || batch.heights[i] != options.shape.height ||
        batch.sizes[i] != size || !is_inside(batch.offsets[i], size, base.size()) ||
        !is_untouched(batch, i)) {
      return false;
    }
  }
  return true;
}

void prefetch_image(ByteSpan base, const LoadBatch& batch, std::size_t i) noexcept {
  if (i >= batch.offsets.size() || !is_inside(batch.offsets[i], batch.sizes[i], base.size())) {
    return;
  }
  const std::size_t size = std::min<std::size_t>(batch.sizes[i], kPrefetchBytes);
  const std::byte* from = base.data() + batch.offsets[i];
  for (std::size_t at = 0; at < size; at += kLineSize) __builtin_prefetch(from + at);
}

bool is_unscaled(const StoredImageView& image) noexcept {
  return image.mode == StoredMode::raw && image.crop.width == image.place.width &&
         image.crop.height == image.place.height;
}

bool is_in_order(const StoredImageView& image, ImageShape out) noexcept {
  return !image.is_flipped && image.shape.width == out.width && image.place.width == out.width &&
         image.place.height == out.height;
}

const std::uint8_t* crop_pixels(const StoredImageView& image) noexcept {
  return reinterpret_cast<const std::uint8_t*>(image.bytes.data()) +
         (image.crop.top * image.shape.width + image.crop.left) * kRgbChannels;
}

void copy_crop(const StoredImageView& image, ImageShape out, std::uint8_t* pixels) noexcept {
  if (image.is_empty()) return;
  const std::uint8_t* from = crop_pixels(image);
  const std::size_t width = image.place.width;
  std::uint8_t* to = pixels + (image.place.top * out.width + image.place.left) * kRgbChannels;
  if (!image.is_flipped && image.shape.width == width && out.width == width) {
    std::memcpy(to, from, image.place.height * width * kRgbChannels);
    return;
  }
  const auto mirror_row = in_use(kMirrorKernels).mirror_row;
  for (std::size_t y = 0; y < image.place.height; ++y) {
    std::memcpy(to, from, width * kRgbChannels);
    if (image.is_flipped) mirror_row(to, width);
    from += image.shape.width * kRgbChannels;
    to += out.width * kRgbChannels;
  }
}

}  // namespace headrace
