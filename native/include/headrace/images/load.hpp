// Stored images to a batch: located, decoded, cropped, resampled, flipped, scaled and written into
// their slots, in one pass over each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/images/pixel_steps.hpp"
#include "headrace/output_type.hpp"
#include "headrace/resample/resample.hpp"
#include "headrace/status.hpp"
#include "headrace/thread_pool.hpp"

namespace headrace {

// PNG and WebP are decoded whole, by builds that have the libraries, and then treated as raw.
enum class StoredMode : std::uint8_t { jpeg = 0, raw = 1, png = 2, webp = 3 };

// One entry for each image in every span; four in `crops`: top, left, height, width. Without crops
// images are taken whole, without flips none is mirrored.
struct LoadBatch {
  std::span<const std::uint64_t> offsets;
  std::span<const std::uint64_t> sizes;
  std::span<const std::uint8_t> modes;
  std::span<const std::uint32_t> widths;
  std::span<const std::uint32_t> heights;
  std::span<const std::int32_t> crops;
  std::span<const std::uint8_t> flips;  // not 0: left and right change places
  // CRC-32C of the stored bytes, compared before they are decoded; may be left empty.
  std::span<const std::uint32_t> checksums{};
  // Done to each picture in this order, before its values are scaled.
  std::span<const PixelStep> steps{};
  // Packed tile indices of the JPEGs, in a region of their own; size 0: none. May be left empty.
  ByteSpan tile_indices{};
  std::span<const std::uint64_t> tile_index_offsets{};
  std::span<const std::uint64_t> tile_index_sizes{};
};

// `window`: our own decoder wherever it gives the pixels of libjpeg-turbo and is faster; on
// processors without AVX2 as `slice`. `slice`: libjpeg-turbo decodes what a tile index cuts out.
// `libjpeg`: libjpeg-turbo always.
enum class JpegDecoder : std::uint8_t { window, slice, libjpeg };

struct LoadOptions {
  ImageShape shape{};  // of every output image
  OutputType type = OutputType::uint8;
  bool is_channels_first = false;
  ResampleFilter filter = ResampleFilter::area;
  // Where there is one, crops of the output's size may stick out of their image: this stands there.
  std::optional<Colour> fill{};
  // Float outputs are value * scale + bias, by channel.
  std::array<float, kRgbChannels> scale{1, 1, 1};
  std::array<float, kRgbChannels> bias{0, 0, 0};
  // Or, where there is one, the entries of a table [3][256] of their type, by channel and value.
  ByteSpan table{};
  bool fast_dct = false;
  // Decode at 1/2, 1/4 or 1/8 where the crop stays above the output; not with `nearest` and
  // `opencv_area`, which promise what only the picture itself gives.
  bool is_reduced = false;
  JpegDecoder jpeg = JpegDecoder::window;
  // Colours at the size of the output and an inverse DCT in 16 bits, where our own decoder is used
  // with `area` and `bilinear`. All else is exact.
  bool is_fast = false;
};

struct LoadFailure {
  std::size_t position;
  Status status;  // `wrong_checksum` when the stored bytes are not those that were written
};

// A picture that was decoded, but not as it should be: without its broken tile index, or by
// libjpeg-turbo because the window decoder found damage.
struct LoadNote {
  std::size_t position;
  bool is_of_tile_index;
  Status status;
};

// How the JPEGs of a batch were decoded. Each is counted once, but for `rejected_tile_indices`.
struct LoadCounts {
  std::uint64_t window = 0;                     // from the entry points of a tile index
  std::uint64_t window_without_tile_index = 0;  // by the window decoder from the scan's start
  std::uint64_t libjpeg_by_options = 0;         // because of the options, or as the faster one here
  std::uint64_t libjpeg_by_kind = 0;        // a kind of JPEG that the window decoder does not know
  std::uint64_t libjpeg_by_damage = 0;      // the window decoder failed; libjpeg may have, too
  std::uint64_t rejected_tile_indices = 0;  // one was there, but broken or of other bytes
  std::uint64_t gpu = 0;                    // by a GPU, from the entry points of a tile index

  LoadCounts& operator+=(const LoadCounts& others) noexcept;
};

// How long the threads of a loader worked on a batch, all of them together, by stage.
struct LoadTimes {
  std::uint64_t check_ns = 0;   // finding the bytes and comparing checksums
  std::uint64_t decode_ns = 0;  // JPEG, PNG or WebP to pixels
  std::uint64_t resize_ns = 0;  // pixels to the rows of the output: resample, flip, scale, copy
  std::uint64_t ops_ns = 0;     // steps

  LoadTimes& operator+=(const LoadTimes& others) noexcept;
};

// What there is to tell of a batch; lists are sorted by position.
struct LoadReport {
  std::vector<LoadFailure> failures;
  std::vector<LoadNote> notes;
  LoadCounts counts;
  LoadTimes times;  // on a GPU: of what the CPU decodes
};

// Threads and their memory, for many batches. Any number of threads may call `load` at the same
// time, and after fork() too: see ThreadPool.
class ImageLoader {
 public:
  static Result<std::unique_ptr<ImageLoader>> create(std::size_t threads) noexcept;

  ImageLoader(const ImageLoader&) = delete;
  ImageLoader& operator=(const ImageLoader&) = delete;

  // The threads that decode; callers of `load` wait, or copy where there is nothing but copies.
  [[nodiscard]] std::size_t threads() const noexcept { return pool_->threads(); }
  // At any time: see ThreadPool.
  Status set_threads(std::size_t threads) noexcept { return pool_->set_threads(threads); }

  // The threads themselves, for other work on the same batches.
  [[nodiscard]] ThreadPool& pool() noexcept { return *pool_; }

  // Fills `out`: one slot for each image, without gaps. An image that fails is listed in the
  // report, and its slot is zero; only wrong arguments are a failure of the call. The report is
  // overwritten.
  Status load(ByteSpan base, const LoadBatch& batch, const LoadOptions& options,
              MutableByteSpan out, LoadReport& report) noexcept;

 private:
  explicit ImageLoader(std::unique_ptr<ThreadPool> pool) noexcept : pool_(std::move(pool)) {}

  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace headrace
