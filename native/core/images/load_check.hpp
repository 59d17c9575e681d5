// Arguments of ImageLoader::load.
#pragma once

#include <cstddef>

#include "headrace/images/load.hpp"

namespace headrace {

// Everything but the images themselves; tells the bytes of one output image.
Status check_load(ByteSpan base, const LoadBatch& batch, const LoadOptions& options,
                  MutableByteSpan out, std::size_t& slot_size) noexcept;

}  // namespace headrace
