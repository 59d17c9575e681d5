#include "gpu/batch.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/images/source_window.hpp"
#include "core/images/stored_view.hpp"
#include "core/jpeg/mcus.hpp"
#include "core/jpeg/scan.hpp"
#include "core/memory.hpp"
#include "core/resample/filter_plan.hpp"
#include "core/resample/opencv_taps.hpp"
#include "gpu/axes.hpp"
#include "gpu/resample_floats.hpp"
#include "gpu/step_words.hpp"
#include "gpu/stream_copy.hpp"
#include "headrace/checksum.hpp"

namespace headrace::gpu {

// A picture, and the part of it that is used.
struct SourcePlace {
  const StoredImageView& image;
  Window window;
  std::uint32_t crc32c;
  bool has_crc32c;
  bool is_fetched;  // by the device, which looks at the checksum, too
};

// The tiles of a window.
struct TileRange {
  const StoredImageView& image;
  const BaselineJpeg& jpeg;
  const TileIndex& index;
  McuRange mcus;
  std::size_t first, end;  // columns of tiles

  [[nodiscard]] std::size_t rows() const noexcept { return mcus.bottom - mcus.top; }
  // Before a restart marker codes fill a byte. So do the last ones here, if one were due behind
  // them; the tile index has their last bit.
  [[nodiscard]] std::uint32_t position(std::size_t row, std::size_t column) const noexcept {
    const std::size_t entry = row * index.info.columns + column;
    const std::uint32_t found = index.positions[entry];
    const bool is_last = entry == jpeg.mcu_rows * index.info.columns;
    if (!is_last || jpeg.restart_interval == 0) return found;
    const bool is_restart_due = jpeg.mcu_rows * jpeg.mcu_columns % jpeg.restart_interval == 0;
    return is_restart_due ? (found + 7) / 8 * 8 : found;
  }
  struct Bytes {
    std::size_t begin, size;
  };
  // Those with codes of a row.
  [[nodiscard]] Bytes bytes(std::size_t row) const noexcept {
    const std::size_t begin_byte = position(row, first) / 8;
    return {begin_byte, (position(row, end) + 7) / 8 - begin_byte};
  }
};

namespace {

// Of blocks of samples, and of words of weights.
constexpr std::size_t kMaxNumber = 0xFFFFFFFF;
// What every GPU gives a thread block.
constexpr std::size_t kSharedBytes = 48 << 10;
constexpr std::uint32_t kPartRows = 32;
// Units whose longest tiles differ by less are not sorted.
constexpr std::size_t kUnitBucketBits = 128;
constexpr std::size_t kUnitBuckets = 256;
// Of an output: places in it have 16 bits, and sums of its levels 32.
constexpr std::size_t kMaxSide = 0xFFFF;
constexpr std::size_t kMaxPixels = std::size_t{1} << 24;
constexpr std::size_t kNoTable = kJpegTableSlots;

Axis axis_of(std::size_t window_begin, std::size_t window_size, std::size_t crop_begin,
             std::size_t crop_size, std::size_t out, bool is_mirrored) noexcept {
  return {static_cast<std::uint32_t>(crop_begin - window_begin),
          static_cast<std::uint32_t>(crop_size),
          static_cast<std::uint32_t>(window_size),
          static_cast<std::uint32_t>(window_begin),
          static_cast<std::uint32_t>(out),
          is_mirrored ? 1U : 0U,
          0,
          0};
}

// Which of the two tables of a kind that the GPU takes is `slot`; kNoTable: there are more.
std::size_t table_number(std::array<std::size_t, 2>& slots, std::size_t slot) noexcept {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] == kNoTable) slots[i] = slot;
    if (slots[i] == slot) return i;
  }
  return kNoTable;
}

bool copy_tables(const BaselineJpeg& jpeg, Picture& out) noexcept {
  std::array<std::size_t, 2> dc{kNoTable, kNoTable}, ac{kNoTable, kNoTable};
  for (std::size_t c = 0; c < jpeg.components; ++c) {
    const BaselineComponent& component = jpeg.component[c];
    const std::size_t dc_table = table_number(dc, component.dc_table);
    const std::size_t ac_table = table_number(ac, component.ac_table);
    if (dc_table == kNoTable || ac_table == kNoTable) return false;
    const HuffmanSpec& dc_spec = jpeg.dc[component.dc_table];
    const HuffmanSpec& ac_spec = jpeg.ac[component.ac_table];
    if (dc_spec.size > std::size(out.dc_symbols[0])) return false;
    out.dc_table[c] = static_cast<std::uint8_t>(dc_table);
    out.ac_table[c] = static_cast<std::uint8_t>(ac_table);
    std::copy(dc_spec.counts.begin(), dc_spec.counts.end(), out.counts[dc_table]);
    std::copy(ac_spec.counts.begin(), ac_spec.counts.end(), out.counts[2 + ac_table]);
    std::copy_n(dc_spec.symbols.begin(), dc_spec.size, out.dc_symbols[dc_table]);
    std::copy_n(ac_spec.symbols.begin(), ac_spec.size, out.ac_symbols[ac_table]);
    const Quantiser& quantiser = jpeg.quantisers[component.quantiser];
    for (std::size_t i = 0; i < kBlockSize; ++i) {
      out.quantiser[c][i % kBlockSide * kBlockSide + i / kBlockSide] = quantiser[i];
    }
  }
  return true;
}

// Header and tile index, as the CPU's own decoder checks them.
bool read_jpeg(const SourcePlace& place, BatchScratch& scratch, McuRange& mcus,
               std::uint32_t& crc) noexcept {
  const StoredImageView& image = place.image;
  BaselineJpeg& jpeg = scratch.jpeg;
  if (image.tile_index.empty() || !read_baseline(image.bytes, jpeg).is_ok()) return false;
  if (jpeg.shape.width != image.shape.width || jpeg.shape.height != image.shape.height) {
    return false;
  }
  if (jpeg.h == 2 && jpeg.shape.width < kLeastMixedWidth) return false;
  mcus = mcus_of(jpeg, place.window);
  if (!unpack_tile_index(image.tile_index, mcus.bottom, scratch.tile_index).is_ok()) return false;
  const TileIndexInfo& info = scratch.tile_index.info;
  crc = place.has_crc32c ? place.crc32c : place.is_fetched ? info.jpeg_crc32c : crc32c(image.bytes);
  return check_tile_index_belongs(info, image.bytes, crc).is_ok() &&
         check_tile_index_fits(info, jpeg).is_ok();
}

// False: more taps than the GPU takes.
bool plan_opencv(bool is_growing, Picture& picture) noexcept {
  bool is_whole = true;
  std::size_t most = 0;
  for (Axis& axis : picture.axes) {
    const OpenCvScale scale(axis.length, axis.size);
    is_whole = is_whole && scale.is_whole();
    most = std::max(most, is_growing ? 2 : scale.most_taps());
    axis.taps = is_growing ? 2 : static_cast<std::uint32_t>(scale.most_taps());
  }
  picture.way = is_growing ? kOpenCvNeighbours : is_whole ? kOpenCvBoxes : kOpenCvCells;
  return most <= kMostTaps;
}

// The CPU calculates with floats where an output has many taps, so the GPU has to know how many
// there are: an upper limit is enough unless it is above theirs. False: more than the GPU takes.
bool plan_filter(ResampleFilter filter, bool is_growing, AxisPlan& plan,
                 Picture& picture) noexcept {
  const AxisKind kind = axis_kind_of(filter, is_growing);
  std::size_t most = 0;
  for (Axis& axis : picture.axes) {
    const double scale = static_cast<double>(axis.length) / static_cast<double>(axis.size);
    const std::size_t taps = most_taps(kind, scale);
    axis.taps = static_cast<std::uint32_t>(taps);
    most = std::max(most, taps);
  }
  picture.way = kWholeNumbers;
  if (most <= kMaxFixedTaps) return true;
  if (most > kMostTaps) return false;
  try {
    for (Axis& axis : picture.axes) {
      plan_axis(request_of(axis, kind), plan);
      axis.taps = static_cast<std::uint32_t>(plan.taps);
      if (plan.taps > kMaxFixedTaps) picture.way = kFloats;
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

}  // namespace

bool Batch::is_possible(const LoadOptions& options) noexcept {
  const ImageShape shape = options.shape;
  return options.jpeg == JpegDecoder::window && !options.is_fast && !options.fast_dct &&
         !options.is_reduced && shape.width <= kMaxSide && shape.height <= kMaxSide &&
         shape.width * shape.height <= kMaxPixels;
}

Picture* Batch::pictures() const noexcept { return reinterpret_cast<Picture*>(memory_.data()); }

void Batch::start(MutableByteSpan memory, std::size_t count, const LoadOptions& options,
                  std::size_t fetchable) {
  memory_ = memory.first(std::min(memory.size(), kMaxBytes));
  fetchable_ = fetchable;
  fetched_ = 0;
  options_ = &options;
  count_ = count;
  used_ = round_up(count * sizeof(Picture), kLineBytes);
  blocks_ = 0;
  words_ = 0;
  has_fill_ = false;
  has_steps_ = false;
  for (PartList* const list : {&parts_, &float_parts_}) {
    list->parts.clear();
    list->shared_bytes = 0;
  }
  sizes_ = {};
}

// What is left over is part of the memory, though nobody writes it: `used_` says how much is
// missing.
std::byte* Batch::take(std::size_t size) noexcept {
  const std::size_t rounded = round_up(size, kLineBytes);
  const std::size_t at = used_.fetch_add(rounded, std::memory_order_relaxed);
  return at > memory_.size() || memory_.size() - at < rounded ? nullptr : memory_.data() + at;
}

// Units count from the first one that is fetched; `finish` knows where that is. False: there are
// too many.
bool Batch::take_fetched(ByteSpan bytes, Picture& picture) noexcept {
  const auto source = reinterpret_cast<std::uint64_t>(bytes.data());
  const std::size_t lead = source % kFetchedUnit;
  const std::size_t rounded = round_up(lead + bytes.size(), kFetchedUnit);
  const std::size_t found = fetched_.fetch_add(rounded, std::memory_order_relaxed);
  if (found > kMaxFetchedBytes || rounded > kMaxFetchedBytes - found) return false;
  picture.fetched = static_cast<std::uint32_t>(found / kFetchedUnit);
  picture.fetched_lead = static_cast<std::uint32_t>(lead);
  picture.fetched_size = static_cast<std::uint32_t>(bytes.size());
  picture.source[0] = static_cast<std::uint32_t>(source);
  picture.source[1] = static_cast<std::uint32_t>(source >> 32);
  return true;
}

// False: there are too many.
bool Batch::take_words(std::size_t count, std::uint32_t& first) noexcept {
  const std::size_t at = words_.fetch_add(count, std::memory_order_relaxed);
  first = static_cast<std::uint32_t>(at);
  return at + count <= kMaxNumber;
}

bool Batch::plan_axes(const SourcePlace& place, BatchScratch& scratch, Picture& picture) noexcept {
  const StoredImageView& image = place.image;
  picture.place_left = static_cast<std::uint32_t>(image.place.left);
  picture.place_top = static_cast<std::uint32_t>(image.place.top);
  picture.axes[0] = axis_of(place.window.left, place.window.width, image.crop.left,
                            image.crop.width, image.place.width, image.is_flipped);
  picture.axes[1] = axis_of(place.window.top, place.window.height, image.crop.top,
                            image.crop.height, image.place.height, false);
  const bool is_growing =
      image.crop.width < image.place.width || image.crop.height < image.place.height;
  const bool is_planned = options_->filter == ResampleFilter::opencv_area
                              ? plan_opencv(is_growing, picture)
                              : plan_filter(options_->filter, is_growing, scratch.plan, picture);
  if (!is_planned) return false;
  for (Axis& axis : picture.axes) {
    const std::size_t words = weight_words(picture.way == kWholeNumbers, axis.taps, axis.size);
    if (!take_words(words, axis.weights)) return false;
  }
  return true;
}

// False: no room.
bool Batch::add_steps(const LoadBatch& batch, std::size_t i, Picture& picture) noexcept {
  if (batch.steps.empty()) return true;
  has_steps_.store(true, std::memory_order_relaxed);
  const ImageShape shape = options_->shape;
  const std::size_t words = write_step_words(batch.steps, i, shape, nullptr);
  if (words == 0) return true;
  std::byte* const memory = take(words * sizeof(std::uint32_t));
  if (memory == nullptr) return false;
  write_step_words(batch.steps, i, shape, reinterpret_cast<std::uint32_t*>(memory));
  picture.steps =
      static_cast<std::uint32_t>((memory - memory_.data()) / std::ptrdiff_t{sizeof(std::uint32_t)});
  return true;
}

Verdict Batch::add_raw(const SourcePlace& place, Picture& picture) noexcept {
  const StoredImageView& image = place.image;
  const auto size = rgb_size_bytes(image.shape);
  if (!size.is_ok() || image.bytes.size() != size.value())
    return Verdict::on_cpu;  // which says what is wrong
  const Window& window = place.window;
  const std::size_t row_size = window.width * kRgbChannels;
  const std::size_t row_stride = round_up(row_size, kLineBytes);
  std::byte* const rows = take(row_stride * window.height);
  if (rows == nullptr) return Verdict::no_room;
  for (std::size_t y = 0; y < window.height; ++y) {
    const std::size_t from = ((window.top + y) * image.shape.width + window.left) * kRgbChannels;
    stream_copy(rows + y * row_stride, image.bytes.subspan(from), row_size);
  }
  finish_stream_copies();
  picture.kind = kRaw;
  picture.rows = static_cast<std::uint32_t>(rows - memory_.data());
  picture.row_stride = static_cast<std::uint32_t>(row_stride);
  return Verdict::on_gpu;
}

Verdict Batch::copy_tiles(const TileRange& range, Picture& picture) noexcept {
  const std::size_t columns = range.end - range.first, rows = range.rows();
  const bool is_fetched = picture.fetched_size != 0;
  std::size_t code_bytes = 0;
  for (std::size_t row = range.mcus.top; row < range.mcus.bottom && !is_fetched; ++row) {
    code_bytes += round_up(range.bytes(row).size, kLineBytes);
  }
  if (!take_words(rows * columns, picture.order)) return Verdict::on_cpu;
  const std::size_t tile_bytes = round_up(rows * columns * sizeof(Tile), kLineBytes);
  std::byte* const memory = take(tile_bytes + code_bytes);
  if (memory == nullptr) return Verdict::no_room;
  auto* const tiles = reinterpret_cast<Tile*>(memory);
  std::uint32_t longest = 0;
  std::uint64_t sum = 0;
  const auto first_byte = static_cast<std::size_t>(memory - memory_.data());
  std::size_t to = first_byte + tile_bytes;
  for (std::size_t row = range.mcus.top; row < range.mcus.bottom; ++row) {
    std::uint32_t shift = picture.fetched_lead * 8;
    if (!is_fetched) {
      const auto [begin, size] = range.bytes(row);
      stream_copy(memory_.data() + to, range.image.bytes.subspan(begin), size);
      shift = static_cast<std::uint32_t>((to - begin) * 8);  // modulo 2^32
      to += round_up(size, kLineBytes);
    }
    for (std::size_t column = range.first; column < range.end; ++column) {
      Tile& tile = tiles[(column - range.first) * rows + row - range.mcus.top];
      tile.begin = range.position(row, column) + shift;
      tile.end = range.position(row, column + 1) + shift;
      longest = std::max(longest, tile.end - tile.begin);
      sum += tile.end - tile.begin;
      const std::size_t interval = range.jpeg.restart_interval;
      const std::size_t mcu = row * range.jpeg.mcu_columns + column * range.index.info.tile;
      tile.until_restart =
          static_cast<std::uint16_t>(interval == 0 ? 0 : interval - mcu % interval);
      // Behind a restart marker nothing is predicted, whatever the tile index says; of a row's
      // first tile the CPU's decoder believes it.
      const bool is_restarted = interval != 0 && mcu % interval == 0 && column > range.first;
      auto predictors = range.index.predictors[row * range.index.info.columns + column];
      if (is_restarted) predictors = {};
      std::copy(predictors.begin(), predictors.end(), tile.predictors);
    }
  }
  finish_stream_copies();
  picture.tiles = static_cast<std::uint32_t>(first_byte / sizeof(Tile));
  if (is_fetched) to = round_up(picture.fetched_lead + picture.fetched_size, kFetchedUnit);
  picture.last_word = static_cast<std::uint32_t>((to - 1) / 4);
  picture.longest = longest;
  picture.usual = static_cast<std::uint32_t>(sum / (rows * columns));
  return Verdict::on_gpu;
}

Verdict Batch::add_jpeg(const SourcePlace& place, BatchScratch& scratch,
                        Picture& picture) noexcept {
  McuRange mcus{};
  if (!read_jpeg(place, scratch, mcus, picture.crc32c)) return Verdict::on_cpu;
  const BaselineJpeg& jpeg = scratch.jpeg;
  const std::size_t tile = scratch.tile_index.info.tile;
  const TileRange range{
      place.image, jpeg, scratch.tile_index, mcus, mcus.left / tile, divide_up(mcus.right, tile)};
  const std::size_t mcu_count = (mcus.right - mcus.left) * range.rows();
  const std::size_t blocks = mcu_count * (jpeg.h * jpeg.v + jpeg.components - 1);
  // A block takes two bits at least: no memory is asked for that the data do not stand for.
  if (blocks > place.image.bytes.size() * 4 || !copy_tables(jpeg, picture)) return Verdict::on_cpu;
  if (const Verdict verdict = copy_tiles(range, picture); verdict != Verdict::on_gpu) {
    return verdict;
  }
  std::size_t block = blocks_.fetch_add(blocks, std::memory_order_relaxed);
  if (block + blocks > kMaxNumber) return Verdict::on_cpu;
  for (std::size_t c = 0; c < jpeg.components; ++c) {
    const std::size_t h = c == 0 ? jpeg.h : 1, v = c == 0 ? jpeg.v : 1;
    picture.planes[c] = static_cast<std::uint32_t>(block);
    picture.across[c] = static_cast<std::uint32_t>((mcus.right - mcus.left) * h);
    block += mcu_count * h * v;
  }
  picture.kind = kJpeg;
  picture.tile_columns = static_cast<std::uint32_t>(range.end - range.first);
  picture.tile_rows = static_cast<std::uint32_t>(range.rows());
  picture.tile = static_cast<std::uint32_t>(tile);
  picture.mcus = static_cast<std::uint32_t>(mcus.right - range.first * tile);
  picture.skipped = static_cast<std::uint32_t>(mcus.left - range.first * tile);
  picture.ends_at_entry = mcus.right == std::min(range.end * tile, jpeg.mcu_columns) ? 1 : 0;
  picture.restart_interval = static_cast<std::uint32_t>(jpeg.restart_interval);
  picture.components = static_cast<std::uint32_t>(jpeg.components);
  picture.h = static_cast<std::uint32_t>(jpeg.h);
  picture.v = static_cast<std::uint32_t>(jpeg.v);
  picture.is_ycc = jpeg.color_space == JpegColorSpace::ycbcr ? 1 : 0;
  picture.left = static_cast<std::uint32_t>(place.window.left - mcus.left * jpeg.mcu_width());
  picture.top = static_cast<std::uint32_t>(place.window.top - mcus.top * jpeg.mcu_height());
  picture.chroma_right =
      static_cast<std::uint32_t>(divide_up(jpeg.shape.width, jpeg.h) - 1 - mcus.left * kBlockSide);
  picture.chroma_bottom =
      static_cast<std::uint32_t>(divide_up(jpeg.shape.height, jpeg.v) - 1 - mcus.top * kBlockSide);
  return Verdict::on_gpu;
}

Verdict Batch::prepare(ByteSpan base, const LoadBatch& batch, std::size_t i, BatchScratch& scratch,
                       Picture& picture, Status& failure) noexcept {
  const auto located = locate_image(base, batch, *options_, i);
  if (!located.is_ok()) {
    failure = located.status();
    return Verdict::failed;
  }
  const StoredImageView& image = located.value();
  const bool has_crc32c = !batch.checksums.empty();
  const bool is_fetched = image.mode == StoredMode::jpeg && !image.is_empty() &&
                          !image.tile_index.empty() && image.bytes.size() <= fetchable_ &&
                          batch.offsets[i] <= fetchable_ - image.bytes.size() &&
                          take_fetched(image.bytes, picture);
  if (has_crc32c && !is_fetched) {
    if (const std::uint32_t found = crc32c(image.bytes); found != batch.checksums[i]) {
      failure = wrong_checksum(batch.checksums[i], found);
      return Verdict::failed;
    }
  }
  const ImageShape shape = options_->shape;
  if (image.place.width != shape.width || image.place.height != shape.height) has_fill_ = true;
  if (!add_steps(batch, i, picture)) return Verdict::no_room;
  if (image.is_empty()) {
    picture.kind = kEmpty;
    return Verdict::on_gpu;
  }
  if (image.mode != StoredMode::jpeg && image.mode != StoredMode::raw) return Verdict::on_cpu;
  const SourcePlace place{image, source_window(*options_, image, 1),
                          has_crc32c ? batch.checksums[i] : 0, has_crc32c, is_fetched};
  if (!plan_axes(place, scratch, picture)) return Verdict::on_cpu;
  return image.mode == StoredMode::jpeg ? add_jpeg(place, scratch, picture)
                                        : add_raw(place, picture);
}

Verdict Batch::add(ByteSpan base, const LoadBatch& batch, std::size_t i, std::size_t number,
                   BatchScratch& scratch, Status& failure) noexcept {
  const bool has_place = memory_.size() / sizeof(Picture) > number;
  Picture& picture = has_place ? pictures()[number] : scratch.without_place;
  picture = {};
  const Verdict verdict = prepare(base, batch, i, scratch, picture, failure);
  if (verdict != Verdict::on_gpu) picture = {};
  return verdict;
}

// As few as fit: each reads the rows and columns around it, too.
void Batch::add_parts(uint32_t number, const Picture& picture, PartList& list) {
  const auto support = static_cast<std::uint32_t>(support_of(options_->filter));
  const auto bytes = picture.way != kWholeNumbers                      ? float_bytes
                     : is_sharp(axis_kind_of(options_->filter, false)) ? sharp_bytes
                                                                       : smooth_bytes;
  const std::uint32_t width = picture.axes[0].size, height = picture.axes[1].size;
  for (std::uint32_t x = 0, columns = width; x < width; x += columns) {
    columns = std::min(columns, width - x);
    while (columns > 1 && bytes(picture, support, x, columns) > kSharedBytes) {
      columns = (columns + 1) / 2;
    }
    list.shared_bytes = std::max(list.shared_bytes, bytes(picture, support, x, columns));
    for (std::uint32_t y = 0; y < height; y += kPartRows) {
      list.parts.push_back({number, static_cast<std::uint16_t>(y),
                            static_cast<std::uint16_t>(std::min(kPartRows, height - y)),
                            static_cast<std::uint16_t>(x), static_cast<std::uint16_t>(columns)});
    }
  }
}

// Where a list is in the blob.
PartSizes Batch::put_parts(const PartList& list) noexcept {
  const std::size_t bytes = list.parts.size() * sizeof(Part);
  std::byte* const memory = take(bytes);
  if (memory == nullptr || bytes == 0) return {};
  std::memcpy(memory, list.parts.data(), bytes);
  return {static_cast<std::size_t>(memory - memory_.data()), list.parts.size(), list.shared_bytes};
}

// What takes longest comes first, nearly. The first unit of a picture has its longest tiles, and
// from unit to unit they become shorter: as if that went evenly.
void Batch::put_units() noexcept {
  std::array<std::size_t, kUnitBuckets> begins{};
  const auto for_units = [this](auto&& act) {
    for (uint32_t i = 0; i < count_; ++i) {
      const Picture& picture = pictures()[i];
      if (picture.kind != kJpeg) continue;
      const uint32_t tiles = picture.tile_columns * picture.tile_rows;
      const uint32_t fall = std::min(picture.longest, 2 * (picture.longest - picture.usual));
      for (uint32_t first = 0; first < tiles; first += kUnitTiles) {
        const auto part = static_cast<uint32_t>(uint64_t{fall} * first / tiles);
        const std::size_t length = (picture.longest - part) / kUnitBucketBits;
        act(Unit{i, first}, kUnitBuckets - 1 - std::min(length, kUnitBuckets - 1));
      }
    }
  };
  for_units([&](const Unit&, std::size_t bucket) { ++begins[bucket]; });
  std::size_t count = 0;
  for (std::size_t& begin : begins) count += std::exchange(begin, count);
  std::byte* const memory = take(count * sizeof(Unit));
  if (memory == nullptr) return;
  auto* const units = reinterpret_cast<Unit*>(memory);
  for_units([&](const Unit& unit, std::size_t bucket) { units[begins[bucket]++] = unit; });
  sizes_.units_at = static_cast<std::size_t>(memory - memory_.data());
  sizes_.units = count;
}

const BatchSizes& Batch::finish() {
  if (used_ <= memory_.size()) {
    for (uint32_t i = 0; i < count_; ++i) {
      const Picture& picture = pictures()[i];
      if (picture.kind == kAbsent || picture.kind == kEmpty) continue;
      add_parts(i, picture, picture.way == kWholeNumbers ? parts_ : float_parts_);
    }
    put_units();
    sizes_.parts = put_parts(parts_);
    sizes_.float_parts = put_parts(float_parts_);
  }
  sizes_.blob_bytes = used_;
  sizes_.missing_bytes =
      sizes_.blob_bytes > memory_.size() ? sizes_.blob_bytes - memory_.size() : 0;
  if (sizes_.missing_bytes > 0) return sizes_;
  sizes_.has_jpegs = sizes_.units > 0;
  sizes_.fetched_bytes = std::min<std::size_t>(fetched_, kMaxFetchedBytes);
  for (uint32_t i = 0; i < count_; ++i) {
    Picture& picture = pictures()[i];
    if (picture.fetched_size != 0) {
      picture.fetched += static_cast<uint32_t>(sizes_.blob_bytes / kFetchedUnit);
    }
  }
  sizes_.sample_blocks = blocks_;
  sizes_.axis_size = static_cast<uint32_t>(std::max(options_->shape.width, options_->shape.height));
  sizes_.words = words_;
  sizes_.has_fill = has_fill_;
  if (has_steps_) {
    const ImageShape shape = options_->shape;
    const std::size_t fours = divide_up(shape.width * shape.height, 4);
    sizes_.picture_bytes = round_up(fours * 4 * kRgbChannels, kLineBytes);
  }
  return sizes_;
}

}  // namespace headrace::gpu
