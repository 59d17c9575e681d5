#include "core/load_jpeg.hpp"

#include <algorithm>

#include "penstock/cpu.hpp"

namespace penstock {
namespace {

constexpr std::array<JpegCounter::Member, 6> kMembers = {
    &LoadCounts::window,          &LoadCounts::window_without_tiles,
    &LoadCounts::libjpeg_chosen,  &LoadCounts::libjpeg_unsupported,
    &LoadCounts::libjpeg_damaged, &LoadCounts::rejected_tiles};

// libjpeg-turbo has vector code where we have none: it gets the part that our index cuts out.
Status decode_slice(const TiledJpeg& jpeg, ImageShape stated, const Window& window,
                    JpegScratch& scratch) noexcept {
  if (Status status = check_window(window, stated); !status.is_ok()) return status;
  JpegSlice& slice = scratch.slice;
  Status status = slice_jpeg(jpeg.bytes, jpeg.tiles, window, slice);
  if (!status.is_ok()) return status;
  DecodedWindow& decoded = scratch.decoded;
  status = decode_jpeg_window(slice.bytes, {}, slice.shape,
                              {slice.left, slice.top, window.width, window.height}, decoded);
  decoded.window = window;
  return status;
}

Status decode_tiled(const TiledJpeg& jpeg, ImageShape stated, const Window& window,
                    JpegScratch& scratch) noexcept {
  if (simd_level() >= SimdLevel::avx2) {
    return scratch.decoder.decode(jpeg, stated, window, scratch.decoded);
  }
  if (!jpeg.tiles.empty()) return decode_slice(jpeg, stated, window, scratch);
  return Status(Code::unsupported, "no vector code for this processor");
}

// Without an index all codes before the window are read twice; narrower vectors do not make up for
// that.
bool is_worth_trying(const TiledJpeg& jpeg, const JpegWindowOptions& options) noexcept {
  return !options.fast_dct && options.scale_denominator == 1 &&
         (!jpeg.tiles.empty() || simd_level() >= SimdLevel::avx512);
}

// Tries the index first; without one, or when that fails, the scan from its start.
Status decode_by_window(TiledJpeg jpeg, ImageShape stated, const Window& window,
                        JpegScratch& scratch, JpegCounter& counter) noexcept {
  if (!jpeg.tiles.empty()) {
    const Status status = decode_tiled(jpeg, stated, window, scratch);
    if (status.is_ok()) counter.add(&LoadCounts::window);
    if (status.is_ok() || status.code() == Code::unsupported) return status;
    counter.add(&LoadCounts::rejected_tiles);
    jpeg.tiles = {};
  }
  const Status status = decode_tiled(jpeg, stated, window, scratch);
  if (status.is_ok()) counter.add(&LoadCounts::window_without_tiles);
  return status;
}

}  // namespace

void JpegCounter::add(Member member) noexcept {
  const auto place = static_cast<std::size_t>(std::find(kMembers.begin(), kMembers.end(), member) -
                                              kMembers.begin());
  counts_[place].fetch_add(1, std::memory_order_relaxed);
}

void JpegCounter::add_to(LoadCounts& counts) const noexcept {
  for (std::size_t i = 0; i < kMembers.size(); ++i) {
    counts.*kMembers[i] += counts_[i].load(std::memory_order_relaxed);
  }
}

Status decode_jpeg_part(const TiledJpeg& jpeg, JpegDecoder choice, const JpegWindowOptions& options,
                        ImageShape stated, const Window& window, JpegScratch& scratch,
                        JpegCounter& counter) noexcept {
  auto reason = &LoadCounts::libjpeg_chosen;
  if (choice == JpegDecoder::window && is_worth_trying(jpeg, options)) {
    const Status status = decode_by_window(jpeg, stated, window, scratch, counter);
    if (status.is_ok()) return status;
    reason = status.code() == Code::unsupported ? &LoadCounts::libjpeg_unsupported
                                                : &LoadCounts::libjpeg_damaged;
  }
  counter.add(reason);
  return decode_jpeg_window(jpeg.bytes, options, stated, window, scratch.decoded);
}

}  // namespace penstock
