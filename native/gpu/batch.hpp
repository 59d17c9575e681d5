// One batch for the GPU: every picture is checked, and what the GPU needs of it copied to one piece
// of memory that it can fetch (layout.hpp).
//
// What stays with the CPU (Verdict::on_cpu), because it is rare: JPEGs without a tile index or with
// one that is not right; of kinds that the tile index does not know (progressive, arithmetic,
// CMYK); with halved chroma across and less than five columns; with more than two Huffman tables of
// a kind, or a DC table of more than 16 codes; with less than two bits for each block;
// raw pictures of a wrong size; filters of more than 128 taps, as where a side shrinks by
// more than 63 (bilinear), 31 (bicubic), 21 (lanczos) or 125 (area). Of the options (is_possible):
// other decoders than `window`, fast and reduced decoding, and outputs of more than 65535 rows or
// columns or 2^24 pixels. All steps are possible.
//
// Contract. `start` first; then `add` once for each picture, by any number of threads, each with a
// scratch of its own; then, when all are done, `finish`. A picture that does not fit any more is
// counted in `missing_bytes`: the caller gives more memory and begins again.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/jpeg/baseline.hpp"
#include "core/resample/taps.hpp"
#include "gpu/layout.hpp"
#include "headrace/images/load.hpp"
#include "headrace/jpeg/tile_index.hpp"
#include "headrace/resample/axis_plan.hpp"

namespace headrace::gpu {

// Of one thread that adds pictures; used from picture to picture.
struct BatchScratch {
  BaselineJpeg jpeg;
  TileIndex tile_index;
  Picture without_place;  // of a batch that does not fit
  AxisPlan plan;
};

enum class Verdict : uint8_t {
  on_gpu,
  on_cpu,   // of a kind that the GPU does not decode, or without a tile index
  no_room,  // see BatchSizes::missing_bytes
  failed,   // wrong, whoever decodes it
};

// What a kernel of the resampling does.
struct PartSizes {
  std::size_t at = 0, count = 0;
  std::size_t shared_bytes = 0;
};

struct BatchSizes {
  std::size_t blob_bytes = 0;
  std::size_t sample_blocks = 0;
  std::size_t units_at = 0, units = 0;
  PartSizes parts, float_parts;  // of whole numbers, of floats
  uint32_t axis_size = 0;
  std::size_t words = 0;  // of weights, and of the order of tiles
  bool has_jpegs = false;
  bool has_fill = false;          // some pictures do not fill their place
  std::size_t picture_bytes = 0;  // of a picture before its steps; 0 without steps
  std::size_t fetched_bytes = 0;  // of JPEGs that the device fetches, behind the blob
  std::size_t missing_bytes = 0;
};

class Batch {
 public:
  // Positions of bits have 32 bits: the rest of a larger memory is not used.
  static constexpr std::size_t kMaxBytes = (std::size_t{1} << 29) - 1;
  // That are fetched for one batch; the codes of the rest are copied.
  static constexpr std::size_t kMaxFetchedBytes = std::size_t{1} << 30;

  // True when the GPU can do what the options ask for; it can do all steps.
  [[nodiscard]] static bool is_possible(const LoadOptions& options) noexcept;

  // `memory` is aligned to 16 bytes, better to 64. JPEGs in the first `fetchable` bytes of what
  // pictures are in are fetched by the device: their codes are not read here, and their checksums
  // are left to it. Throws std::bad_alloc.
  void start(MutableByteSpan memory, std::size_t pictures, const LoadOptions& options,
             std::size_t fetchable = 0);

  // Picture `number` of the blob is picture `i` of the batch. `failure` is set where it failed.
  Verdict add(ByteSpan base, const LoadBatch& batch, std::size_t i, std::size_t number,
              BatchScratch& scratch, Status& failure) noexcept;

  // Throws std::bad_alloc.
  const BatchSizes& finish();

 private:
  struct PartList {
    std::vector<Part> parts;
    std::size_t shared_bytes = 0;
  };

  [[nodiscard]] Picture* pictures() const noexcept;
  std::byte* take(std::size_t size) noexcept;
  Verdict prepare(ByteSpan base, const LoadBatch& batch, std::size_t i, BatchScratch& scratch,
                  Picture& picture, Status& failure) noexcept;
  bool take_words(std::size_t count, std::uint32_t& first) noexcept;
  bool plan_axes(const struct SourcePlace& place, BatchScratch& scratch, Picture& picture) noexcept;
  bool add_steps(const LoadBatch& batch, std::size_t i, Picture& picture) noexcept;
  Verdict add_raw(const struct SourcePlace& place, Picture& picture) noexcept;
  Verdict add_jpeg(const struct SourcePlace& place, BatchScratch& scratch,
                   Picture& picture) noexcept;
  Verdict copy_tiles(const struct TileRange& range, Picture& picture) noexcept;
  bool take_fetched(ByteSpan bytes, Picture& picture) noexcept;
  void add_parts(uint32_t number, const Picture& picture, PartList& list);
  void put_units() noexcept;
  PartSizes put_parts(const PartList& list) noexcept;

  MutableByteSpan memory_;
  const LoadOptions* options_ = nullptr;
  std::size_t count_ = 0;
  std::size_t fetchable_ = 0;
  std::atomic<std::size_t> used_{0};
  std::atomic<std::size_t> fetched_{0};
  std::atomic<std::size_t> blocks_{0};
  std::atomic<std::size_t> words_{0};
  std::atomic<bool> has_fill_{false};
  std::atomic<bool> has_steps_{false};
  PartList parts_, float_parts_;
  BatchSizes sizes_;
};

}  // namespace headrace::gpu
