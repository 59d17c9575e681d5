// A smaller JPEG cut out of a larger one without loss: its codes are copied, not decoded.
#pragma once

#include <cstddef>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/jpeg/window.hpp"
#include "headrace/status.hpp"

namespace headrace {

struct JpegSlice {
  std::vector<std::byte> bytes;  // a complete baseline JPEG
  ImageShape shape{};
  std::size_t left = 0;  // where the window begins in it
  std::size_t top = 0;
};

// `packed` is the tile index of `jpeg`. Inside the window the slice decodes to the pixels of the
// whole image: it begins and ends at entry points and has the samples around the window that
// upsampling looks at.
Status slice_jpeg(ByteSpan jpeg, ByteSpan packed, const Window& window, JpegSlice& out) noexcept;

}  // namespace headrace
