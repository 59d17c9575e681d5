// libpng reports failure by a call that must not return. Ours jumps back to PngReader::run, which,
// like everything it calls, keeps no object with a destructor on the stack.
#include "core/png/libpng.hpp"

#ifdef HEADRACE_HAS_PNG

#include <png.h>

#include <algorithm>
#include <bit>
#include <csetjmp>
#include <cstring>
#include <new>
#include <vector>

#include "core/png/levels.hpp"

namespace headrace {
namespace {

class PngReader {
 public:
  PngReader(ByteSpan data, const PngInfo& info) noexcept : left_(data), info_(info) {}
  ~PngReader() { png_destroy_read_struct(&png_, &header_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // `step` is one of the functions below; `failure` says what libpng had to say.
  using Step = void (PngReader::*)();
  bool run(Step step) noexcept {
    if (png_ == nullptr && !create()) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    (this->*step)();
    return true;
  }

  // Everything before the pixels.
  void open();
  // The pixels, `channels` numbers each, into the rows at `rows_`.
  void read_rows();
  void read_row() { png_read_row(png_, rows_, nullptr); }

  void set_rows(std::uint8_t* rows, std::size_t stride) noexcept {
    rows_ = rows;
    stride_ = stride;
  }
  [[nodiscard]] const PngLevels& levels() const noexcept { return levels_; }
  [[nodiscard]] const Status& failure() const noexcept { return failure_; }

 private:
  bool create() noexcept;
  void fill_levels();
  static void on_read(png_structp png, png_bytep to, std::size_t size);
  [[noreturn]] static void on_error(png_structp png, png_const_charp message);
  static void on_warning(png_structp, png_const_charp) {}

  png_structp png_ = nullptr;
  png_infop header_ = nullptr;
  ByteSpan left_;
  PngInfo info_;
  int passes_ = 1;
  std::uint8_t* rows_ = nullptr;
  std::size_t stride_ = 0;
  PngLevels levels_{};
  bool is_cut_ = false;
  Status failure_;
};

void PngReader::on_read(png_structp png, png_bytep to, std::size_t size) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (size > reader.left_.size()) {
    reader.is_cut_ = true;
    png_error(png, "the file ends too early");
  }
  std::memcpy(to, reader.left_.data(), size);
  reader.left_ = reader.left_.subspan(size);
}

void PngReader::on_error(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  reader.failure_ = Status(reader.is_cut_ ? Code::truncated : Code::corrupt,
                           Detail("PNG: ") << (message == nullptr ? "damaged" : message));
  png_longjmp(png, 1);
}

bool PngReader::create() noexcept {
  png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
  header_ = png_ == nullptr ? nullptr : png_create_info_struct(png_);
  if (header_ != nullptr) return true;
  failure_ = Status(Code::out_of_memory, "no memory for a PNG");
  return false;
}

void PngReader::open() {
  png_set_read_fn(png_, this, on_read);
  png_set_user_limits(png_, info_.width, info_.height);
  // Of chunks that say nothing about pixels not even the compressed ones are looked into.
  png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_set_check_for_invalid_index(png_, 0);
  png_read_info(png_, header_);
  if (png_get_image_width(png_, header_) != info_.width ||
      png_get_image_height(png_, header_) != info_.height ||
      png_get_bit_depth(png_, header_) != info_.bit_depth ||
      png_get_color_type(png_, header_) != static_cast<int>(info_.colour)) {
    png_error(png_, "the header contradicts itself");
  }
  if (info_.bit_depth < 8) png_set_packing(png_);
  if constexpr (std::endian::native == std::endian::little) {
    if (info_.bit_depth == 16) png_set_swap(png_);
  }
  passes_ = png_set_interlace_handling(png_);
  png_read_update_info(png_, header_);
  if (png_get_rowbytes(png_, header_) !=
      info_.width * info_.channels() * (info_.bit_depth == 16 ? 2 : 1)) {
    png_error(png_, "its rows are not as its header says");
  }
  fill_levels();
}

void PngReader::fill_levels() {
  if (info_.colour == PngColour::grey && info_.bit_depth <= 8) {
    fill_greys(static_cast<unsigned>(info_.bit_depth), levels_);
  }
  if (info_.colour != PngColour::palette) return;
  png_colorp colours = nullptr;
  int count = 0;
  if (png_get_PLTE(png_, header_, &colours, &count) != PNG_INFO_PLTE) return;
  for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(count), levels_.size()); ++i) {
    levels_[i] = {colours[i].red, colours[i].green, colours[i].blue};
  }
}

void PngReader::read_rows() {
  for (int pass = 0; pass < passes_; ++pass) {
    std::uint8_t* row = rows_;
    for (std::uint32_t y = 0; y < info_.height; ++y, row += stride_) {
      png_read_row(png_, row, nullptr);
    }
  }
}

// Rows of one or two numbers a pixel are put at the end of the rows that they become.
Status decode_spread(PngReader& reader, const PngInfo& info, std::uint8_t* out) noexcept {
  const std::size_t width = info.width, row_size = width * kRgbChannels;
  const std::size_t channels = info.channels();
  reader.set_rows(out + (kRgbChannels - channels) * width, row_size);
  if (!reader.run(&PngReader::read_rows)) return reader.failure();
  for (std::uint32_t y = 0; channels < kRgbChannels && y < info.height; ++y) {
    std::uint8_t* row = out + y * row_size;
    const std::uint8_t* from = row + (kRgbChannels - channels) * width;
    if (channels == 1) {
      spread_levels(reader.levels(), from, width, row);
    } else if (!spread_grey(from, width, row)) {
      return is_transparent();
    }
  }
  return {};
}

// Throws std::bad_alloc.
Status decode_rgba(PngReader& reader, const PngInfo& info, std::uint8_t* out) {
  const std::size_t row_size = std::size_t{info.width} * 4;
  std::vector<std::uint8_t> rows(info.is_interlaced ? row_size * info.height : row_size);
  reader.set_rows(rows.data(), row_size);
  if (info.is_interlaced && !reader.run(&PngReader::read_rows)) return reader.failure();
  for (std::uint32_t y = 0; y < info.height; ++y) {
    if (!info.is_interlaced && !reader.run(&PngReader::read_row)) return reader.failure();
    const std::uint8_t* row = rows.data() + (info.is_interlaced ? y * row_size : 0);
    if (!drop_alpha(row, info.width, out + y * info.width * kRgbChannels)) return is_transparent();
  }
  return {};
}

}  // namespace

bool has_png_decoder() noexcept { return true; }

Status decode_by_libpng(ByteSpan data, const PngInfo& info, std::uint8_t* out) noexcept {
  PngReader reader(data, info);
  if (!reader.run(&PngReader::open)) return reader.failure();
  if (info.colour != PngColour::rgb_alpha) return decode_spread(reader, info, out);
  try {
    return decode_rgba(reader, info, out);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a PNG");
  }
}

Status decode_deep_by_libpng(ByteSpan data, const PngInfo& info, std::uint8_t* out) noexcept {
  PngReader reader(data, info);
  reader.set_rows(out, info.width * 2 * info.channels());
  if (!reader.run(&PngReader::open) || !reader.run(&PngReader::read_rows)) return reader.failure();
  return {};
}

}  // namespace headrace

#else

namespace headrace {
namespace {

Status no_decoder() noexcept {
  return Status(Code::unsupported, "PNG: this build of headrace has no libpng");
}

}  // namespace

bool has_png_decoder() noexcept { return false; }

Status decode_by_libpng(ByteSpan, const PngInfo&, std::uint8_t*) noexcept { return no_decoder(); }

Status decode_deep_by_libpng(ByteSpan, const PngInfo&, std::uint8_t*) noexcept {
  return no_decoder();
}

}  // namespace headrace

#endif
