// Which decoder a JPEG of a batch goes to, and how often each was used.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "penstock/jpeg_window.hpp"
#include "penstock/jpeg_window_decoder.hpp"
#include "penstock/load.hpp"

namespace penstock {

// LoadCounts, for many threads at once.
class JpegCounter {
 public:
  using Member = std::uint64_t LoadCounts::*;

  void add(Member member) noexcept;
  // Only when nobody adds any more.
  void add_to(LoadCounts& counts) const noexcept;

 private:
  std::array<std::atomic<std::uint64_t>, 6> counts_{};
};

struct JpegScratch {
  JpegWindowDecoder decoder;
  DecodedWindow decoded;
};

// The window's pixels in scratch.decoded, the same ones whichever decoder made them.
Status decode_jpeg_part(const TiledJpeg& jpeg, JpegDecoder choice, const JpegWindowOptions& options,
                        ImageShape stated, const Window& window, JpegScratch& scratch,
                        JpegCounter& counter) noexcept;

}  // namespace penstock
