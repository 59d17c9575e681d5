// JPEG files on their way into a dataset: kept as they are, or decoded, shrunk and encoded anew.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/status.hpp"

namespace headrace {

struct StoreOptions {
  std::uint32_t max_side = 0;  // shrink images with a longer side; 0: never
  int quality = 90;            // 1 to 100, for images that are encoded anew
};

struct StoredImage {
  ImageShape shape{};
  bool is_jpeg = false;
  bool is_source = false;  // the source's own bytes are to be stored, and `bytes` is empty
  std::vector<std::byte> bytes;
};

// Memory that is reused from image to image; one for each thread.
struct StoreScratch {
  std::vector<std::byte> pixels;
  std::vector<std::byte> shrunk;
};

// Width and height after shrinking to `max_side`: rounded down as FFCV does, but never to nothing.
[[nodiscard]] ImageShape stored_shape(ImageShape shape, std::uint32_t max_side) noexcept;

// Stores a JPEG as JPEG when its raw size after shrinking is above `jpg_above` bytes, as raw pixels
// otherwise. A JPEG that needs no shrinking and ends properly stays as it is. Kinds that cannot
// become RGB here (CMYK, more than 8 bits, lossless) are `unsupported`.
Result<StoredImage> store_jpeg(ByteSpan jpeg, const StoreOptions& options, std::uint64_t jpg_above,
                               StoreScratch& scratch) noexcept;

// Reads a whole file. Fails with `unsupported` when that is not possible; why is the caller's to
// find out, with the means of its own language.
Status read_file(const char* path, std::vector<std::byte>& out) noexcept;

}  // namespace headrace
