#include "core/images/load_jpeg.hpp"

#include <algorithm>

#include "headrace/cpu.hpp"

namespace headrace {
namespace {

constexpr std::array<JpegCounter::Member, 7> kMembers = {&LoadCounts::window,
                                                         &LoadCounts::window_without_tile_index,
                                                         &LoadCounts::libjpeg_by_options,
                                                         &LoadCounts::libjpeg_by_kind,
                                                         &LoadCounts::libjpeg_by_damage,
                                                         &LoadCounts::rejected_tile_indices,
                                                         &LoadCounts::gpu};

// libjpeg-turbo has vector code where we have none: it gets the part that the tile index cuts out.
Status decode_slice(const IndexedJpeg& jpeg, ImageShape stated, const Window& window,
                    JpegScratch& scratch) noexcept {
  if (Status status = check_window(window, stated); !status.is_ok()) return status;
  JpegSlice& slice = scratch.slice;
  Status status = slice_jpeg(jpeg.bytes, jpeg.tile_index, window, slice);
  if (!status.is_ok()) return status;
  DecodedWindow& decoded = scratch.decoded;
  status = decode_jpeg_window(slice.bytes, {}, slice.shape,
                              {slice.left, slice.top, window.width, window.height}, decoded);
  decoded.window = window;
  return status;
}

bool has_own_decoder(JpegDecoder choice) noexcept {
  return choice == JpegDecoder::window && simd_level() >= SimdLevel::avx2;
}

// Without a tile index all codes before the window are read twice; narrower vectors do not make up
// for that.
bool can_search(JpegDecoder choice) noexcept {
  return choice == JpegDecoder::window && simd_level() >= SimdLevel::avx512;
}

// What is left when there is neither a tile index nor a search.
JpegCounter::Member reason_for_libjpeg(ByteSpan bytes, JpegScratch& scratch) noexcept {
  const bool is_other_kind = read_baseline(bytes, scratch.header).code() == Code::unsupported;
  return is_other_kind ? &LoadCounts::libjpeg_by_kind : &LoadCounts::libjpeg_by_options;
}

// Tries the tile index first; without one, or when that fails, the scan from its start. What is
// left to libjpeg-turbo, for the reason given, is not `ok`.
Status decode_by_window(IndexedJpeg jpeg, JpegDecoder choice, ImageShape stated,
                        const Window& window, JpegScratch& scratch, JpegCounter& counter,
                        JpegCounter::Member& reason) noexcept {
  reason = &LoadCounts::libjpeg_by_kind;
  if (!jpeg.tile_index.empty()) {
    const Status status = has_own_decoder(choice)
                              ? scratch.decoder.decode(jpeg, stated, window, scratch.decoded)
                              : decode_slice(jpeg, stated, window, scratch);
    if (status.is_ok()) counter.add(&LoadCounts::window);
    if (status.is_ok() || status.code() == Code::unsupported) return status;
    counter.add(&LoadCounts::rejected_tile_indices);
    scratch.note = {true, status};
    jpeg.tile_index = {};
  }
  if (!can_search(choice)) {
    reason = reason_for_libjpeg(jpeg.bytes, scratch);
    return Status(Code::unsupported, "libjpeg-turbo is faster");
  }
  const Status status = scratch.decoder.decode(jpeg, stated, window, scratch.decoded);
  if (status.is_ok()) counter.add(&LoadCounts::window_without_tile_index);
  if (status.is_ok() || status.code() == Code::unsupported) return status;
  reason = &LoadCounts::libjpeg_by_damage;
  if (scratch.note.status.is_ok()) scratch.note = {false, status};
  return status;
}

}  // namespace

LoadCounts& LoadCounts::operator+=(const LoadCounts& others) noexcept {
  for (const JpegCounter::Member member : kMembers) this->*member += others.*member;
  return *this;
}

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

Status decode_jpeg_samples(const IndexedJpeg& jpeg, JpegDecoder choice, ImageShape stated,
                           const Window& window, JpegScratch& scratch,
                           JpegCounter& counter) noexcept {
  // With shorter vectors, resampling the components one by one takes longer than the exact way.
  if (choice != JpegDecoder::window || simd_level() < SimdLevel::avx512) {
    return Status(Code::unsupported, "the exact way is faster");
  }
  const Status status = scratch.decoder.decode_samples(jpeg, stated, window, scratch.samples);
  if (!status.is_ok()) return status;
  counter.add(jpeg.tile_index.empty() ? &LoadCounts::window_without_tile_index
                                      : &LoadCounts::window);
  return {};
}

Status decode_jpeg_part(const IndexedJpeg& jpeg, JpegDecoder choice,
                        const JpegWindowOptions& options, ImageShape stated, const Window& window,
                        JpegScratch& scratch, JpegCounter& counter) noexcept {
  scratch.note = {};
  auto reason = &LoadCounts::libjpeg_by_options;
  if (choice != JpegDecoder::libjpeg && !options.fast_dct && options.scale_denominator == 1) {
    const Status status = decode_by_window(jpeg, choice, stated, window, scratch, counter, reason);
    if (status.is_ok()) return status;
  }
  counter.add(reason);
  return decode_jpeg_window(jpeg.bytes, options, stated, window, scratch.decoded);
}

}  // namespace headrace
