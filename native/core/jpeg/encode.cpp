#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

#include "core/jpeg/common.hpp"
#include "headrace/jpeg/codec.hpp"

namespace headrace {
namespace {

constexpr std::size_t kMinBufferSize = 4096;

struct Destination {
  jpeg_destination_mgr manager;  // first, so that cinfo->dest is also a Destination
  std::vector<std::byte>* out;
};

bool try_resize(std::vector<std::byte>& out, std::size_t size) noexcept {
  try {
    out.resize(size);
  } catch (...) {
    return false;
  }
  return true;
}

// Hands libjpeg the part of the output behind `used`, grown to `size`.
void provide(j_compress_ptr cinfo, std::size_t used, std::size_t size) {
  auto& destination = *reinterpret_cast<Destination*>(cinfo->dest);
  if (!try_resize(*destination.out, size)) {
    fail(reinterpret_cast<j_common_ptr>(cinfo), Code::out_of_memory, "no memory for the output");
  }
  destination.manager.next_output_byte = reinterpret_cast<JOCTET*>(destination.out->data() + used);
  destination.manager.free_in_buffer = size - used;
}

void on_start(j_compress_ptr cinfo) {
  // A photograph takes 1 to 3 bits a pixel.
  const std::size_t pixels = std::size_t{cinfo->image_width} * cinfo->image_height;
  provide(cinfo, 0, std::max(kMinBufferSize, pixels / 2));
}

boolean on_full(j_compress_ptr cinfo) {
  const std::size_t used = reinterpret_cast<Destination*>(cinfo->dest)->out->size();
  provide(cinfo, used, 2 * used);
  return TRUE;
}

void on_end(j_compress_ptr cinfo) {
  auto& destination = *reinterpret_cast<Destination*>(cinfo->dest);
  destination.out->resize(destination.out->size() - destination.manager.free_in_buffer);
}

struct EncodeJob {
  const std::byte* pixels;
  ImageShape shape;
  std::size_t row_stride;
  int quality;
};

// A thread's compressor.
class Encoder {
 public:
  Encoder() noexcept = default;
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() {
    if (is_created_) jpeg_destroy_compress(&cinfo_);
  }

  Status encode(const EncodeJob& job, std::vector<std::byte>& out) noexcept;

 private:
  bool create() noexcept;
  bool run(const EncodeJob& job) noexcept;
  void write_pixels(const EncodeJob& job);

  jpeg_compress_struct cinfo_{};
  JpegErrors errors_{};
  Destination destination_{};
  bool is_created_ = false;
};

bool Encoder::create() noexcept {
  cinfo_.err = install_errors(errors_);
  if (setjmp(errors_.jump) != 0) return false;
  jpeg_create_compress(&cinfo_);
  destination_.manager.init_destination = on_start;
  destination_.manager.empty_output_buffer = on_full;
  destination_.manager.term_destination = on_end;
  cinfo_.dest = &destination_.manager;
  is_created_ = true;
  return true;
}

void Encoder::write_pixels(const EncodeJob& job) {
  JSAMPROW rows[kRowsPerCall];
  while (cinfo_.next_scanline < cinfo_.image_height) {
    const std::size_t left = cinfo_.image_height - cinfo_.next_scanline;
    const std::size_t n = std::min(left, kRowsPerCall);
    const std::byte* first = job.pixels + cinfo_.next_scanline * job.row_stride;
    for (std::size_t i = 0; i < n; ++i) {
      // libjpeg takes rows as mutable but only reads them.
      rows[i] = reinterpret_cast<JSAMPROW>(const_cast<std::byte*>(first + i * job.row_stride));
    }
    jpeg_write_scanlines(&cinfo_, rows, static_cast<JDIMENSION>(n));
  }
}

bool Encoder::run(const EncodeJob& job) noexcept {
  errors_.code = Code::ok;
  if (setjmp(errors_.jump) != 0) return false;
  cinfo_.image_width = static_cast<JDIMENSION>(job.shape.width);
  cinfo_.image_height = static_cast<JDIMENSION>(job.shape.height);
  cinfo_.input_components = static_cast<int>(kRgbChannels);
  cinfo_.in_color_space = JCS_RGB;
  jpeg_set_defaults(&cinfo_);  // 4:2:0, exact DCT, standard Huffman tables
  jpeg_set_quality(&cinfo_, job.quality, TRUE);
  jpeg_start_compress(&cinfo_, TRUE);
  write_pixels(job);
  jpeg_finish_compress(&cinfo_);
  return true;
}

Status Encoder::encode(const EncodeJob& job, std::vector<std::byte>& out) noexcept {
  if (!is_created_ && !create()) {
    return Status(errors_.code, Detail("JPEG: ") << errors_.message);
  }
  destination_.out = &out;
  const bool is_encoded = run(job);
  destination_.out = nullptr;
  if (is_encoded) return {};
  jpeg_abort_compress(&cinfo_);
  out.clear();
  return Status(errors_.code, Detail("JPEG: ") << errors_.message);
}

Status check_arguments(ByteSpan pixels, ImageShape shape, std::size_t row_stride,
                       int quality) noexcept {
  if (quality < 1 || quality > 100) {
    return Status(Code::invalid_argument, "the JPEG quality must be between 1 and 100");
  }
  if (shape.width == 0 || shape.height == 0) {
    return Status(Code::invalid_argument, "an empty image cannot be written as JPEG");
  }
  if (shape.width > JPEG_MAX_DIMENSION || shape.height > JPEG_MAX_DIMENSION) {
    return Status(Code::too_large, Detail("JPEG sides are at most ")
                                       << std::uint64_t{JPEG_MAX_DIMENSION} << " pixels, not "
                                       << shape.width << "x" << shape.height);
  }
  const std::size_t row_size = shape.width * kRgbChannels;
  std::uint64_t before_last = 0;
  if (row_stride < row_size || !checked_multiply(row_stride, shape.height - 1, before_last) ||
      !is_inside(before_last, row_size, pixels.size())) {
    return Status(Code::invalid_argument, "the pixels do not fill the image");
  }
  return {};
}

}  // namespace

Status encode_jpeg(ByteSpan pixels, ImageShape shape, std::size_t row_stride, int quality,
                   std::vector<std::byte>& out) noexcept {
  if (Status status = check_arguments(pixels, shape, row_stride, quality); !status.is_ok()) {
    return status;
  }
  thread_local Encoder encoder;
  return encoder.encode({pixels.data(), shape, row_stride, quality}, out);
}

}  // namespace headrace
