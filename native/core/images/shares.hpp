// How the images of a batch are shared out to workers: several at a time where they are small, for
// taking one takes time, too.
#pragma once

#include <cstddef>

#include "headrace/images/load.hpp"

namespace headrace {

struct Share {
  std::size_t images;  // in each but the last
  std::size_t count;

  [[nodiscard]] static Share of(std::size_t n, std::size_t images) noexcept;
};

// Shares of about so many bytes of pixels, read and written.
[[nodiscard]] Share share_by_bytes(const LoadBatch& batch, std::size_t slot_size,
                                   std::size_t share_bytes) noexcept;

// Shares for images on which there is more to do than to copy them.
[[nodiscard]] Share share_work(const LoadBatch& batch, std::size_t slot_size,
                               std::size_t workers) noexcept;

// Shares for copies. These are quick: what is less than one is not worth waking a thread for.
[[nodiscard]] Share share_copies(const LoadBatch& batch, std::size_t slot_size) noexcept;

}  // namespace headrace
