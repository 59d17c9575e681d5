#include "penstock/load.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "core/row_writer.hpp"
#include "penstock/jpeg_window.hpp"

namespace penstock {

struct LoadScratch {
  DecodedWindow decoded;
  Resampler resampler;
  std::vector<std::uint8_t> rows;  // one interleaved row, and what the writer needs
  std::vector<LoadFailure> failures;
  bool is_out_of_memory = false;
};

namespace {

// One image of a batch, checked.
struct StoredImageView {
  ByteSpan bytes;
  StoredMode mode;
  ImageShape shape;
  Window crop;
  bool is_flipped;
};

struct Job {
  ByteSpan base;
  const LoadBatch& batch;
  const LoadOptions& options;
  const RowWriter& writer;
  std::byte* out;
  std::size_t slot_size;
};

Status wrong_crop(const std::int32_t* crop, ImageShape shape) noexcept {
  Detail detail("the crop (top ");
  for (std::size_t i = 0; i < 4; ++i) {
    constexpr std::string_view kNames[] = {"", ", left ", ", height ", ", width "};
    const std::int64_t value = crop[i];
    detail << kNames[i] << (value < 0 ? "-" : "")
           << static_cast<std::uint64_t>(value < 0 ? -value : value);
  }
  detail << ") is not inside the image of " << shape.width << "x" << shape.height << " pixels";
  return Status(Code::out_of_bounds, detail);
}

Result<Window> crop_of(const std::int32_t* crop, ImageShape shape) noexcept {
  if (crop[0] < 0 || crop[1] < 0 || crop[2] <= 0 || crop[3] <= 0) return wrong_crop(crop, shape);
  const Window window{static_cast<std::size_t>(crop[1]), static_cast<std::size_t>(crop[0]),
                      static_cast<std::size_t>(crop[3]), static_cast<std::size_t>(crop[2])};
  if (!is_inside(window.left, window.width, shape.width) ||
      !is_inside(window.top, window.height, shape.height)) {
    return wrong_crop(crop, shape);
  }
  return window;
}

Result<StoredImageView> locate(const Job& job, std::size_t i) noexcept {
  const LoadBatch& batch = job.batch;
  if (!is_inside(batch.offsets[i], batch.sizes[i], job.base.size())) {
    return Status(Code::out_of_bounds, Detail("the image of ")
                                           << batch.sizes[i] << " bytes at byte "
                                           << batch.offsets[i] << " is not inside the region of "
                                           << job.base.size() << " bytes");
  }
  const ImageShape shape{batch.widths[i], batch.heights[i]};
  const auto crop = crop_of(batch.crops.data() + 4 * i, shape);
  if (!crop.is_ok()) return crop.status();
  const ByteSpan bytes = job.base.subspan(batch.offsets[i], batch.sizes[i]);
  const auto mode = static_cast<StoredMode>(batch.modes[i]);
  if (mode != StoredMode::jpeg && mode != StoredMode::raw) {
    return Status(Code::invalid_argument, Detail("unknown image mode ")
                                              << std::uint64_t{batch.modes[i]}
                                              << "; known are 0 (JPEG) and 1 (raw)");
  }
  return StoredImageView{bytes, mode, shape, crop.value(), batch.flips[i] != 0};
}

// Pixels that the filter uses around the crop.
std::size_t margin_of(ResampleFilter filter, std::size_t crop, std::size_t out,
                      unsigned denominator) noexcept {
  if (filter == ResampleFilter::area) return 0;
  const std::size_t shrinking = crop / (out * denominator) + 1;  // rounded up, at least 1
  return (shrinking + 1) * denominator;
}

void widen(std::size_t& begin, std::size_t& size, std::size_t margin, std::size_t limit) noexcept {
  const std::size_t first = begin - std::min(begin, margin);
  size = std::min(limit, begin + size + margin) - first;
  begin = first;
}

Status decode(const Job& job, const StoredImageView& image, LoadScratch& scratch, PixelView& view,
              Region& region) noexcept {
  const LoadOptions& options = job.options;
  const unsigned denominator =
      options.is_reduced ? scale_denominator_for(image.crop, options.shape) : 1;
  const Window& crop = image.crop;
  Window window = crop;
  widen(window.left, window.width,
        margin_of(options.filter, crop.width, options.shape.width, denominator), image.shape.width);
  widen(window.top, window.height,
        margin_of(options.filter, crop.height, options.shape.height, denominator),
        image.shape.height);
  DecodedWindow& decoded = scratch.decoded;
  const Status status = decode_jpeg_window(
      image.bytes, {.fast_dct = options.fast_dct, .scale_denominator = denominator}, image.shape,
      window, decoded);
  if (!status.is_ok()) return status;
  view = {decoded.pixels, decoded.row_stride, {decoded.window.width, decoded.window.height}};
  const double part = 1.0 / denominator;
  region = {static_cast<double>(crop.left) * part - static_cast<double>(decoded.window.left),
            static_cast<double>(crop.top) * part - static_cast<double>(decoded.window.top),
            static_cast<double>(crop.width) * part, static_cast<double>(crop.height) * part};
  return {};
}

Status view_raw(const StoredImageView& image, PixelView& view, Region& region) noexcept {
  const auto size = rgb_size_bytes(image.shape);
  if (!size.is_ok()) return size.status();
  if (image.bytes.size() != size.value()) {
    return Status(Code::corrupt, Detail("raw image of ")
                                     << image.shape.width << "x" << image.shape.height
                                     << " pixels has " << image.bytes.size() << " bytes, not "
                                     << size.value());
  }
  view = {image.bytes.data(), image.shape.width * kRgbChannels, image.shape};
  region = {static_cast<double>(image.crop.left), static_cast<double>(image.crop.top),
            static_cast<double>(image.crop.width), static_cast<double>(image.crop.height)};
  return {};
}

void write_rows(const Job& job, const PixelView& view, LoadScratch& scratch,
                std::byte* slot) noexcept {
  const RowWriter& writer = job.writer;
  const ImageShape shape = job.options.shape;
  std::uint8_t* row = scratch.rows.data();
  for (std::size_t y = 0; y < shape.height; ++y) {
    if (writer.is_direct()) {
      scratch.resampler.write_row(view, y, writer.row_at(slot, y));
      continue;
    }
    scratch.resampler.write_row(view, y, row);
    writer.write(row, y, row + shape.width * kRgbChannels, slot);
  }
}

Status load_image(const Job& job, std::size_t i, LoadScratch& scratch, std::byte* slot) noexcept {
  const auto located = locate(job, i);
  if (!located.is_ok()) return located.status();
  const StoredImageView& image = located.value();
  PixelView view;
  Region region{};
  Status status = image.mode == StoredMode::jpeg ? decode(job, image, scratch, view, region)
                                                 : view_raw(image, view, region);
  if (!status.is_ok()) return status;
  status = scratch.resampler.plan(view.shape, region, job.options.filter, job.options.shape,
                                  image.is_flipped);
  if (!status.is_ok()) return status;
  write_rows(job, view, scratch, slot);
  return {};
}

void load_into_slot(const Job& job, std::size_t i, LoadScratch& scratch) noexcept {
  std::byte* slot = job.out + i * job.slot_size;
  const Status status = load_image(job, i, scratch, slot);
  if (status.is_ok()) return;
  std::memset(slot, 0, job.slot_size);
  try {
    scratch.failures.push_back({i, status});
  } catch (const std::bad_alloc&) {
    scratch.is_out_of_memory = true;
  }
}

Status check_counts(const LoadBatch& batch) noexcept {
  const std::size_t n = batch.offsets.size();
  if (batch.sizes.size() != n || batch.modes.size() != n || batch.widths.size() != n ||
      batch.heights.size() != n || batch.flips.size() != n || batch.crops.size() / 4 != n ||
      batch.crops.size() % 4 != 0) {
    return Status(Code::invalid_argument, "every array must have one entry for each image");
  }
  return {};
}

Result<std::size_t> slot_size_of(const LoadOptions& options) noexcept {
  if (options.shape.width == 0 || options.shape.height == 0) {
    return Status(Code::invalid_argument, "the output images are empty");
  }
  const auto size = rgb_size_bytes(options.shape);
  if (!size.is_ok()) return size.status();
  std::uint64_t bytes = 0;
  if (!checked_multiply(size.value(), size_bytes_of(options.type), bytes)) {
    return Status(Code::too_large, "an output image does not fit in memory");
  }
  return static_cast<std::size_t>(bytes);
}

Status check_out(ByteSpan base, MutableByteSpan out, std::size_t count, std::size_t slot_size,
                 std::size_t alignment) noexcept {
  std::uint64_t total = 0;
  if (!checked_multiply(count, slot_size, total) || total != out.size()) {
    return Status(Code::invalid_argument, "the output does not have the size of the batch");
  }
  if (reinterpret_cast<std::uintptr_t>(out.data()) % alignment != 0) {
    return Status(Code::invalid_argument, "the output is not aligned to its values");
  }
  if (is_overlapping(base, out)) {
    return Status(Code::invalid_argument, "the output overlaps the stored images");
  }
  return {};
}

// Moves the workers' failures together.
Status collect(std::vector<std::unique_ptr<LoadScratch>>& workers,
               std::vector<LoadFailure>& failures) {
  bool is_out_of_memory = false;
  for (const auto& worker : workers) {
    failures.insert(failures.end(), worker->failures.begin(), worker->failures.end());
    is_out_of_memory |= worker->is_out_of_memory;
  }
  if (is_out_of_memory) return Status(Code::out_of_memory, "no memory for the list of failures");
  std::sort(failures.begin(), failures.end(),
            [](const LoadFailure& a, const LoadFailure& b) { return a.position < b.position; });
  return {};
}

void reset(std::vector<std::unique_ptr<LoadScratch>>& workers, std::size_t rows_size) {
  for (const auto& worker : workers) {
    worker->failures.clear();
    worker->is_out_of_memory = false;
    if (worker->rows.size() < rows_size) worker->rows.resize(rows_size);
  }
}

}  // namespace

std::size_t size_bytes_of(OutputType type) noexcept {
  switch (type) {
    case OutputType::uint8:
      return 1;
    case OutputType::float16:
      return 2;
    case OutputType::float32:
      break;
  }
  return 4;
}

ImageLoader::ImageLoader() noexcept = default;
ImageLoader::~ImageLoader() = default;

Result<std::unique_ptr<ImageLoader>> ImageLoader::create(std::size_t threads) noexcept {
  auto pool = ThreadPool::create(threads);
  if (!pool.is_ok()) return pool.status();
  try {
    std::unique_ptr<ImageLoader> loader(new ImageLoader);
    loader->pool_ = std::move(pool.value());
    for (std::size_t i = 0; i < threads; ++i) {
      loader->scratch_.push_back(std::make_unique<LoadScratch>());
    }
    return loader;
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the loader");
  }
}

Status ImageLoader::load(ByteSpan base, const LoadBatch& batch, const LoadOptions& options,
                         MutableByteSpan out, std::vector<LoadFailure>& failures) noexcept {
  failures.clear();
  if (Status status = check_counts(batch); !status.is_ok()) return status;
  const auto slot_size = slot_size_of(options);
  if (!slot_size.is_ok()) return slot_size.status();
  const std::size_t count = batch.offsets.size();
  if (Status status = check_out(base, out, count, slot_size.value(), size_bytes_of(options.type));
      !status.is_ok()) {
    return status;
  }
  const RowWriter writer(options);
  try {
    reset(scratch_, options.shape.width * kRgbChannels + writer.scratch_size());
    const Job job{base, batch, options, writer, out.data(), slot_size.value()};
    pool_->run(count, [&](std::size_t i, std::size_t worker) noexcept {
      load_into_slot(job, i, *scratch_[worker]);
    });
    return collect(scratch_, failures);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the batch");
  }
}

}  // namespace penstock
