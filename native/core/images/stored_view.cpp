#include "core/images/stored_view.hpp"

#include <algorithm>
#include <cstdint>

namespace headrace {
namespace {

// Of a picture that is compressed: a few bytes can claim any size. codecs.jpeg.MAX_PIXELS is the
// same.
constexpr std::uint64_t kMostCompressedPixels = std::uint64_t{1} << 28;

// What lies inside the image along one axis, and where in the output.
struct Part {
  std::size_t begin = 0;
  std::size_t size = 0;
  std::size_t place = 0;
};

Part clip_crop(std::int64_t begin, std::int64_t size, std::size_t limit) noexcept {
  const std::int64_t first = std::max<std::int64_t>(begin, 0);
  const std::int64_t end = std::min(begin + size, static_cast<std::int64_t>(limit));
  if (first >= end) return {};
  return {static_cast<std::size_t>(first), static_cast<std::size_t>(end - first),
          static_cast<std::size_t>(first - begin)};
}

Status wrong_crop(const std::int32_t* crop, ImageShape shape) noexcept {
  Detail detail("the crop (top ");
  for (std::size_t i = 0; i < 4; ++i) {
    constexpr std::string_view kNames[] = {"", ", left ", ", height ", ", width "};
    const std::int64_t value = crop[i];
    detail << kNames[i] << (value < 0 ? "-" : "")
           << static_cast<std::uint64_t>(value < 0 ? -value : value);
  }
  detail << ") is not inside the image of " << shape.width << "x" << shape.height << " pixels";
  return Status(Code::out_of_bounds, detail);
}

struct Cut {
  Window crop;
  Window place;
};

Result<Cut> cut_of(const std::int32_t* crop, ImageShape shape,
                   const LoadOptions& options) noexcept {
  if (crop[2] <= 0 || crop[3] <= 0) return wrong_crop(crop, shape);
  const auto height = static_cast<std::size_t>(crop[2]);
  const auto width = static_cast<std::size_t>(crop[3]);
  const Part rows = clip_crop(crop[0], crop[2], shape.height);
  const Part columns = clip_crop(crop[1], crop[3], shape.width);
  const Window window{columns.begin, rows.begin, columns.size, rows.size};
  const ImageShape out = options.shape;
  if (rows.size == height && columns.size == width) {
    return Cut{window, {0, 0, out.width, out.height}};
  }
  if (!options.fill || height != out.height || width != out.width) return wrong_crop(crop, shape);
  return Cut{window, {columns.place, rows.place, columns.size, rows.size}};
}

Result<ByteSpan> tile_index_of(const LoadBatch& batch, std::size_t i) noexcept {
  if (batch.tile_index_sizes.empty()) return ByteSpan();
  if (!is_inside(batch.tile_index_offsets[i], batch.tile_index_sizes[i],
                 batch.tile_indices.size())) {
    return Status(Code::out_of_bounds, Detail("the tile index of ")
                                           << batch.tile_index_sizes[i] << " bytes at byte "
                                           << batch.tile_index_offsets[i]
                                           << " is not inside the region of "
                                           << batch.tile_indices.size() << " bytes");
  }
  return batch.tile_indices.subspan(batch.tile_index_offsets[i], batch.tile_index_sizes[i]);
}

}  // namespace

Result<StoredImageView> locate_image(ByteSpan base, const LoadBatch& batch,
                                     const LoadOptions& options, std::size_t i) noexcept {
  if (!is_inside(batch.offsets[i], batch.sizes[i], base.size())) {
    return Status(Code::out_of_bounds, Detail("the image of ")
                                           << batch.sizes[i] << " bytes at byte "
                                           << batch.offsets[i] << " is not inside the region of "
                                           << base.size() << " bytes");
  }
  const ImageShape shape{batch.widths[i], batch.heights[i]};
  const std::int32_t whole[] = {0, 0, static_cast<std::int32_t>(shape.height),
                                static_cast<std::int32_t>(shape.width)};
  const std::int32_t* crop_at = batch.crops.empty() ? whole : batch.crops.data() + 4 * i;
  const auto cut = cut_of(crop_at, shape, options);
  if (!cut.is_ok()) return cut.status();
  const ByteSpan bytes = base.subspan(batch.offsets[i], batch.sizes[i]);
  const auto mode = static_cast<StoredMode>(batch.modes[i]);
  if (mode > StoredMode::webp) {
    return Status(Code::invalid_argument,
                  Detail("unknown image mode ")
                      << std::uint64_t{batch.modes[i]}
                      << "; known are 0 (JPEG), 1 (raw), 2 (PNG), 3 (WebP)");
  }
  if (mode != StoredMode::raw &&
      std::uint64_t{shape.width} * shape.height > kMostCompressedPixels) {
    return Status(Code::too_large, Detail("the picture has ")
                                       << shape.width << "x" << shape.height
                                       << " pixels, and at most " << kMostCompressedPixels
                                       << " are decoded");
  }
  const auto tile_index = tile_index_of(batch, i);
  if (!tile_index.is_ok()) return tile_index.status();
  const bool is_flipped = !batch.flips.empty() && batch.flips[i] != 0;
  auto [crop, place] = cut.value();
  if (is_flipped) place.left = options.shape.width - place.left - place.width;
  return StoredImageView{bytes, mode, shape, crop, place, is_flipped, tile_index.value()};
}

}  // namespace headrace
