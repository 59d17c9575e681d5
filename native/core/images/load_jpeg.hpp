// Which decoder a JPEG of a batch goes to, and how often each was used.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "core/jpeg/baseline.hpp"
#include "headrace/images/load.hpp"
#include "headrace/jpeg/slice.hpp"
#include "headrace/jpeg/window.hpp"
#include "headrace/jpeg/window_decoder.hpp"

namespace headrace {

// LoadCounts, for many threads at once.
class JpegCounter {
 public:
  using Member = std::uint64_t LoadCounts::*;

  void add(Member member) noexcept;
  // Only when nobody adds any more.
  void add_to(LoadCounts& counts) const noexcept;

 private:
  std::array<std::atomic<std::uint64_t>, 7> counts_{};
};

// What a picture was decoded in spite of; `ok` when there is nothing to tell.
struct JpegNote {
  bool is_of_tile_index = false;
  Status status;
};

struct JpegScratch {
  JpegWindowDecoder decoder;
  JpegSlice slice;
  BaselineJpeg header;
  JpegNote note;  // of the last picture
  DecodedWindow decoded;
  DecodedSamples samples;
};

// The window's samples in scratch.samples, up to a level off. When it fails nothing is counted, and
// decode_jpeg_part is the next to try.
Status decode_jpeg_samples(const IndexedJpeg& jpeg, JpegDecoder choice, ImageShape stated,
                           const Window& window, JpegScratch& scratch,
                           JpegCounter& counter) noexcept;

// The window's pixels in scratch.decoded, the same ones whichever decoder made them.
Status decode_jpeg_part(const IndexedJpeg& jpeg, JpegDecoder choice,
                        const JpegWindowOptions& options, ImageShape stated, const Window& window,
                        JpegScratch& scratch, JpegCounter& counter) noexcept;

}  // namespace headrace
