#include "headrace/images/load.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "core/images/load_check.hpp"
#include "core/images/load_jpeg.hpp"
#include "core/images/row_writer.hpp"
#include "core/images/shared_list.hpp"
#include "core/images/shares.hpp"
#include "core/images/source_window.hpp"
#include "core/images/stage_clock.hpp"
#include "core/images/stored_pixels.hpp"
#include "core/images/stored_view.hpp"
#include "core/memory.hpp"
#include "core/resample/late_colour.hpp"
#include "headrace/checksum.hpp"
#include "headrace/png.hpp"
#include "headrace/webp.hpp"

namespace headrace {

namespace {

struct LoadScratch : WorkerMemory {
  StageClock* clock = nullptr;  // of the share that is worked on
  JpegScratch jpeg;
  Resampler resampler;
  LateColour late_colour;
  bool is_late = false;               // the rows are those of late_colour, not of resampler
  PixelView view;                     // of the pixels that resampler takes
  std::vector<std::byte> whole;       // a PNG or WebP, decoded
  std::vector<std::uint8_t> row;      // interleaved
  std::vector<std::uint8_t> picture;  // interleaved, for steps
  StepScratch steps;
};

// What is the same for all images of a batch.
struct LoadCall {
  ByteSpan base;
  const LoadBatch& batch;
  const LoadOptions& options;
  const RowWriter& writer;
  std::byte* out;
  std::size_t slot_size;
  SharedList<LoadFailure>& failures;
  SharedList<LoadNote>& notes;
  JpegCounter& counter;
  StageTotals& times;
};

Status check_bytes(const LoadBatch& batch, std::size_t i, ByteSpan bytes) noexcept {
  if (batch.checksums.empty()) return {};
  const std::uint32_t found = crc32c(bytes);
  if (found == batch.checksums[i]) return {};
  return wrong_checksum(batch.checksums[i], found);
}

unsigned denominator_of(const LoadOptions& options, const StoredImageView& image) noexcept {
  const bool is_reduced = options.is_reduced && options.filter != ResampleFilter::nearest &&
                          options.filter != ResampleFilter::opencv_area;
  return is_reduced ? scale_denominator_for(image.crop, image.out_shape()) : 1;
}

// False when the exact way has to be gone.
bool decode_fast(const LoadCall& call, const IndexedJpeg& jpeg, const StoredImageView& image,
                 LoadScratch& scratch) noexcept {
  const LoadOptions& options = call.options;
  if (!options.is_fast || options.fast_dct ||
      !LateColour::is_possible(options.filter, image.crop, image.out_shape()) ||
      denominator_of(options, image) != 1) {
    return false;
  }
  const Window window = source_window(options, image, 1);
  return decode_jpeg_samples(jpeg, options.jpeg, image.shape, window, scratch.jpeg, call.counter)
             .is_ok() &&
         scratch.late_colour
             .plan(scratch.jpeg.samples, image.crop, options.filter, image.out_shape(),
                   image.is_flipped)
             .is_ok();
}

Status decode(const LoadCall& call, std::size_t i, const IndexedJpeg& jpeg,
              const StoredImageView& image, LoadScratch& scratch, Region& region) noexcept {
  const LoadOptions& options = call.options;
  const Window& crop = image.crop;
  const unsigned denominator = denominator_of(options, image);
  const Window window = source_window(options, image, denominator);
  const Status status = decode_jpeg_part(
      jpeg, options.jpeg, {.fast_dct = options.fast_dct, .scale_denominator = denominator},
      image.shape, window, scratch.jpeg, call.counter);
  if (!status.is_ok()) return status;
  if (const JpegNote& note = scratch.jpeg.note; !note.status.is_ok()) {
    call.notes.add({i, note.is_of_tile_index, note.status});
  }
  const DecodedWindow& decoded = scratch.jpeg.decoded;
  scratch.view = {
      decoded.pixels, decoded.row_stride, {decoded.window.width, decoded.window.height}};
  const double part = 1.0 / denominator;
  const auto left = static_cast<double>(decoded.window.left);
  const auto top = static_cast<double>(decoded.window.top);
  region = {static_cast<double>(crop.left) * part - left,
            static_cast<double>(crop.top) * part - top,
            static_cast<double>(crop.width) * part,
            static_cast<double>(crop.height) * part,
            left,
            top};
  return {};
}

Status check_raw(const StoredImageView& image) noexcept {
  const auto size = rgb_size_bytes(image.shape);
  if (!size.is_ok()) return size.status();
  if (image.bytes.size() != size.value()) {
    return Status(Code::corrupt, Detail("raw image of ")
                                     << image.shape.width << "x" << image.shape.height
                                     << " pixels has " << image.bytes.size() << " bytes, not "
                                     << size.value());
  }
  return {};
}

bool is_decoded_whole(const StoredImageView& image) noexcept {
  return image.mode == StoredMode::png || image.mode == StoredMode::webp;
}

// A PNG or WebP becomes a raw picture in `memory`.
Status decode_whole(StoredImageView& image, std::vector<std::byte>& memory) noexcept {
  const auto size = rgb_size_bytes(image.shape);
  if (!size.is_ok()) return size.status();
  try {
    grow(memory, size.value());
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a picture");
  }
  const MutableByteSpan pixels(memory.data(), size.value());
  const Status status = image.mode == StoredMode::png
                            ? decode_png(image.bytes, image.shape, pixels)
                            : decode_webp(image.bytes, image.shape, pixels);
  image.bytes = pixels;
  image.mode = StoredMode::raw;
  return status;
}

Status view_raw(const StoredImageView& image, PixelView& view, Region& region) noexcept {
  if (Status status = check_raw(image); !status.is_ok()) return status;
  view = {image.bytes.data(), image.shape.width * kRgbChannels, image.shape};
  region = {static_cast<double>(image.crop.left), static_cast<double>(image.crop.top),
            static_cast<double>(image.crop.width), static_cast<double>(image.crop.height)};
  return {};
}

bool is_whole(const LoadCall& call, const StoredImageView& image) noexcept {
  const ImageShape shape = call.options.shape;
  return image.place.width == shape.width && image.place.height == shape.height;
}

// Steps, and what stands beside a crop, need the whole picture at once.
bool needs_picture(const LoadCall& call, const StoredImageView& image) noexcept {
  return !call.batch.steps.empty() || !is_whole(call, image);
}

// Throws std::bad_alloc.
void prepare(const LoadCall& call, const StoredImageView& image, LoadScratch& scratch) {
  const ImageShape shape = call.options.shape;
  grow(scratch.row, shape.width * kRgbChannels);
  prepare_steps(call.batch.steps, shape, scratch.steps);
  if (!needs_picture(call, image) || call.writer.is_direct()) return;
  grow(scratch.picture, shape.width * shape.height * kRgbChannels);
}

void write_row(const RowWriter& writer, std::size_t y, LoadScratch& scratch,
               std::byte* slot) noexcept {
  if (scratch.is_late) {
    const std::uint8_t* row = scratch.late_colour.row(y);
    if (!writer.is_direct()) return writer.write(row, y, slot);
    std::memcpy(writer.row_at(slot, y), row, writer.row_size());
    return;
  }
  Resampler& resampler = scratch.resampler;
  if (resampler.has_values() && !writer.has_table()) {
    return resampler.write_values(scratch.view, y, writer.values_at(slot, y));
  }
  if (writer.is_direct()) return resampler.write_row(scratch.view, y, writer.row_at(slot, y));
  resampler.write_row(scratch.view, y, scratch.row.data());
  writer.write(scratch.row.data(), y, slot);
}

void run_steps(const LoadCall& call, std::size_t i, std::uint8_t* pixels,
               LoadScratch& scratch) noexcept {
  if (call.batch.steps.empty()) return;
  scratch.clock->enter(LoadStage::ops);
  apply_steps(call.batch.steps, i, call.options.shape, pixels, scratch.steps);
  scratch.clock->enter(LoadStage::resize);
}

void write_picture(const LoadCall& call, std::size_t i, const StoredImageView& image,
                   LoadScratch& scratch, std::byte* slot) noexcept {
  const RowWriter& writer = call.writer;
  const ImageShape shape = call.options.shape;
  const std::size_t row_size = shape.width * kRgbChannels;
  const Window& place = image.place;
  std::uint8_t* pixels = writer.is_direct() ? writer.row_at(slot, 0) : scratch.picture.data();
  if (!is_whole(call, image)) fill_pixels(pixels, shape.width * shape.height, *call.options.fill);
  for (std::size_t y = 0; y < (image.is_empty() ? 0 : place.height); ++y) {
    std::uint8_t* row = pixels + (place.top + y) * row_size + place.left * kRgbChannels;
    if (scratch.is_late) {
      std::memcpy(row, scratch.late_colour.row(y), place.width * kRgbChannels);
    } else {
      scratch.resampler.write_row(scratch.view, y, row);
    }
  }
  run_steps(call, i, pixels, scratch);
  if (!writer.is_direct()) writer.write_all(pixels, slot);
}

// What is needed to make rows of the output, in `scratch`.
Status make_rows(const LoadCall& call, std::size_t i, const StoredImageView& image,
                 LoadScratch& scratch) noexcept {
  scratch.clock->enter(LoadStage::decode);
  Region region{};
  IndexedJpeg jpeg{image.bytes, image.tile_index, {}};
  if (!call.batch.checksums.empty()) jpeg.crc32c = call.batch.checksums[i];  // found to be right
  const bool is_jpeg = image.mode == StoredMode::jpeg;
  scratch.is_late = is_jpeg && decode_fast(call, jpeg, image, scratch);
  if (scratch.is_late) return {};
  const Status status = is_jpeg ? decode(call, i, jpeg, image, scratch, region)
                                : view_raw(image, scratch.view, region);
  if (!status.is_ok()) return status;
  scratch.clock->enter(LoadStage::resize);
  return scratch.resampler.plan(scratch.view.shape, region, call.options.filter, image.out_shape(),
                                image.is_flipped);
}

// Only for images that are not scaled: their pixels are used where they are stored, or copied once.
// Throws std::bad_alloc.
void write_unscaled(const LoadCall& call, std::size_t i, const StoredImageView& image,
                    LoadScratch& scratch, std::byte* slot) {
  const RowWriter& writer = call.writer;
  const ImageShape shape = call.options.shape;
  const bool is_direct = writer.is_direct();
  if (!is_direct && call.batch.steps.empty() && is_in_order(image, shape)) {
    return writer.write_all(crop_pixels(image), slot);
  }
  if (!is_direct) grow(scratch.picture, shape.width * shape.height * kRgbChannels);
  std::uint8_t* pixels = is_direct ? writer.row_at(slot, 0) : scratch.picture.data();
  if (!is_whole(call, image)) fill_pixels(pixels, shape.width * shape.height, *call.options.fill);
  copy_crop(image, shape, pixels);
  prepare_steps(call.batch.steps, shape, scratch.steps);
  run_steps(call, i, pixels, scratch);
  if (!is_direct) writer.write_all(pixels, slot);
}

Status load_unscaled(const LoadCall& call, std::size_t i, const StoredImageView& image,
                     LoadScratch& scratch, std::byte* slot) noexcept {
  if (!image.is_empty()) {
    if (Status status = check_raw(image); !status.is_ok()) return status;
  }
  try {
    write_unscaled(call, i, image, scratch, slot);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a picture");
  }
  return {};
}

Status load_image(const LoadCall& call, std::size_t i, LoadScratch& scratch,
                  std::byte* slot) noexcept {
  if (!call.batch.checksums.empty()) scratch.clock->enter(LoadStage::check);
  auto located = locate_image(call.base, call.batch, call.options, i);
  if (!located.is_ok()) return located.status();
  StoredImageView& image = located.value();
  Status status = check_bytes(call.batch, i, image.bytes);
  if (!status.is_ok()) return status;
  if (is_decoded_whole(image) && !image.is_empty()) {
    scratch.clock->enter(LoadStage::decode);
    status = decode_whole(image, scratch.whole);
  }
  if (!status.is_ok()) return status;
  if (is_unscaled(image)) {
    scratch.clock->enter(LoadStage::resize);
    return load_unscaled(call, i, image, scratch, slot);
  }
  if (!image.is_empty()) status = make_rows(call, i, image, scratch);
  if (!status.is_ok()) return status;
  scratch.clock->enter(LoadStage::resize);
  try {
    prepare(call, image, scratch);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a picture");
  }
  if (needs_picture(call, image)) {
    write_picture(call, i, image, scratch, slot);
    return {};
  }
  for (std::size_t y = 0; y < call.options.shape.height; ++y) {
    write_row(call.writer, y, scratch, slot);
  }
  return {};
}

void load_into_slot(const LoadCall& call, std::size_t i, LoadScratch& scratch) noexcept {
  std::byte* slot = call.out + i * call.slot_size;
  const Status status = load_image(call, i, scratch, slot);
  if (status.is_ok()) return;
  std::memset(slot, 0, call.slot_size);
  call.failures.add({i, status});
}

// Only for batches of plain copies.
void copy_into_slot(const LoadCall& call, std::size_t i) noexcept {
  std::byte* slot = call.out + i * call.slot_size;
  const ByteSpan bytes = call.base.subspan(call.batch.offsets[i], call.slot_size);
  if (call.batch.checksums.empty()) {
    std::memcpy(slot, bytes.data(), bytes.size());
    return;
  }
  const std::uint32_t wanted = call.batch.checksums[i];
  const std::uint32_t found = copy_with_checksum(ChecksumKind::crc32c, bytes, slot);
  if (found == wanted) return;
  std::memset(slot, 0, call.slot_size);
  call.failures.add({i, wrong_checksum(wanted, found)});
}

constexpr std::size_t kPrefetchImages = 2;
constexpr std::size_t kTimedPictures = 8;  // of so many small ones in a share, one is timed

template <typename Work>
void for_images(const LoadCall& call, Share share, std::size_t index, Work&& work) noexcept {
  const std::size_t begin = index * share.images;
  const std::size_t end = std::min(begin + share.images, call.batch.offsets.size());
  for (std::size_t i = begin; i < end; ++i) {
    if (share.images > 1) prefetch_image(call.base, call.batch, i + kPrefetchImages);
    work(i);
  }
}

Status copy_all(const LoadCall& call, ThreadPool& pool) noexcept {
  const auto copy = [&call](std::size_t i) { copy_into_slot(call, i); };
  const Share share = share_copies(call.batch, call.slot_size);
  if (share.count == 1 || pool.threads() == 1) {  // by the caller: it would only wait
    const StageClock clock(call.times, LoadStage::resize);
    for_images(call, {call.batch.offsets.size(), 1}, 0, copy);
    return {};
  }
  return pool.run(share.count, [&](std::size_t index, WorkerMemory&) noexcept {
    const StageClock clock(call.times, LoadStage::resize);
    for_images(call, share, index, copy);
  });
}

Status load_all(const LoadCall& call, ThreadPool& pool) noexcept {
  const Share share = share_work(call.batch, call.slot_size, pool.threads());
  return pool.run(share.count, [&](std::size_t index, WorkerMemory& memory) noexcept {
    auto& scratch = static_cast<LoadScratch&>(memory);
    StageClock clock(call.times, LoadStage::check,
                     share.images < kTimedPictures ? 1 : kTimedPictures);
    scratch.clock = &clock;
    for_images(call, share, index, [&](std::size_t i) {
      clock.begin_picture(i - index * share.images);
      load_into_slot(call, i, scratch);
    });
    scratch.clock = nullptr;
  });
}

}  // namespace

Result<std::unique_ptr<ImageLoader>> ImageLoader::create(std::size_t threads) noexcept {
  auto pool = ThreadPool::create(
      threads, []() -> std::unique_ptr<WorkerMemory> { return std::make_unique<LoadScratch>(); });
  if (!pool.is_ok()) return pool.status();
  std::unique_ptr<ImageLoader> loader(new (std::nothrow) ImageLoader(std::move(pool.value())));
  if (loader == nullptr) return Status(Code::out_of_memory, "no memory for the loader");
  return loader;
}

Status ImageLoader::load(ByteSpan base, const LoadBatch& batch, const LoadOptions& options,
                         MutableByteSpan out, LoadReport& report) noexcept {
  report.failures.clear();
  report.notes.clear();
  report.counts = {};
  report.times = {};
  std::size_t slot_size = 0;
  if (Status status = check_load(base, batch, options, out, slot_size); !status.is_ok()) {
    return status;
  }
  const RowWriter writer(options);
  SharedList<LoadFailure> failures(report.failures);
  SharedList<LoadNote> notes(report.notes);
  JpegCounter counter;
  StageTotals times;
  const LoadCall call{base,      batch,    options, writer,  out.data(),
                      slot_size, failures, notes,   counter, times};
  if (batch.offsets.empty()) return {};
  const Status status =
      are_plain_copies(base, batch, options) ? copy_all(call, *pool_) : load_all(call, *pool_);
  if (!status.is_ok()) return status;
  counter.add_to(report.counts);
  times.add_to(report.times);
  const Status noted = notes.finish();
  return noted.is_ok() ? failures.finish() : noted;
}

}  // namespace headrace
