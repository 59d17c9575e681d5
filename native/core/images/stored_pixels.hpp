// Raw pictures that go into a batch as they are stored, without resampling.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/images/stored_view.hpp"
#include "headrace/images/load.hpp"

namespace headrace {

// True when every image is raw, of the output's size, inside the region and wanted whole, and its
// bytes are those of its slot: then a batch takes one copy for each and nothing else.
[[nodiscard]] bool are_plain_copies(ByteSpan base, const LoadBatch& batch,
                                    const LoadOptions& options) noexcept;

// Asks for the memory of an image of such a batch before it is used.
void prefetch_image(ByteSpan base, const LoadBatch& batch, std::size_t i) noexcept;

// Raw, and its crop has the size of its place in the output.
[[nodiscard]] bool is_unscaled(const StoredImageView& image) noexcept;

// True when the rows of the crop lie in the file as they do in a whole output.
[[nodiscard]] bool is_in_order(const StoredImageView& image, ImageShape out) noexcept;

// First stored pixel of the crop.
[[nodiscard]] const std::uint8_t* crop_pixels(const StoredImageView& image) noexcept;

// Copies the crop of an unscaled image to its place in an interleaved output, mirrored if that is
// wanted. The rest of the output is left as it is.
void copy_crop(const StoredImageView& image, ImageShape out, std::uint8_t* pixels) noexcept;

}  // namespace headrace
