#include <algorithm>
#include <cstddef>

#include "core/jpeg_common.hpp"
#include "penstock/jpeg.hpp"

namespace penstock {
namespace {

// A progressive file of a few kilobytes can hold thousands of scans, each as costly as an image.
constexpr int kMaxScans = 500;
// libjpeg returns fewer rows a call than this; more would never be used.
constexpr std::size_t kRowsPerCall = 16;
// A handle that forgets its tables leaves their memory in its pool; a new handle frees it.
constexpr int kImagesPerHandle = 128;

constexpr JOCTET kEndOfImage[2] = {0xFF, JPEG_EOI};

struct Source {
  jpeg_source_mgr manager;  // first, so that cinfo->src is also a Source
  bool is_exhausted;
};

void on_source(j_decompress_ptr) {}

// Called when the data are used up: libjpeg sees an end marker from our own memory instead.
boolean on_exhausted(j_decompress_ptr cinfo) {
  auto* source = reinterpret_cast<Source*>(cinfo->src);
  source->is_exhausted = true;
  source->manager.next_input_byte = kEndOfImage;
  source->manager.bytes_in_buffer = sizeof kEndOfImage;
  return TRUE;
}

void on_skip(j_decompress_ptr cinfo, long count) {
  if (count <= 0) return;
  jpeg_source_mgr* source = cinfo->src;
  const auto bytes = static_cast<std::size_t>(count);
  if (bytes > source->bytes_in_buffer) {
    on_exhausted(cinfo);
    return;
  }
  source->next_input_byte += bytes;
  source->bytes_in_buffer -= bytes;
}

void on_progress(j_common_ptr cinfo) {
  if (reinterpret_cast<j_decompress_ptr>(cinfo)->input_scan_number > kMaxScans) {
    fail(cinfo, Code::too_large, "more than 500 scans");
  }
}

struct DecodeJob {
  ByteSpan data;
  JpegDecodeOptions options;
  ImageShape want;
  std::byte* out;
};

// A thread's decompressor. Plain functions below do the work between setjmp and longjmp.
class Decoder {
 public:
  Decoder() noexcept = default;
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { destroy(); }

  Status decode(const DecodeJob& job) noexcept;

 private:
  bool create() noexcept;
  void destroy() noexcept;
  bool run(const DecodeJob& job) noexcept;
  void set_source(ByteSpan data) noexcept;
  void read_pixels(const DecodeJob& job);
  void forget() noexcept;
  [[nodiscard]] Status failure(const DecodeJob& job) const noexcept;

  jpeg_decompress_struct cinfo_{};
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
  Source source_{};
  bool is_created_ = false;
  int images_ = 0;
};

bool Decoder::create() noexcept {
  cinfo_.err = install_errors(errors_);
  if (setjmp(errors_.jump) != 0) return false;
  jpeg_create_decompress(&cinfo_);
  progress_.progress_monitor = on_progress;
  cinfo_.progress = &progress_;
  cinfo_.src = &source_.manager;
  is_created_ = true;
  images_ = 0;
  return true;
}

void Decoder::destroy() noexcept {
  if (is_created_) jpeg_destroy_decompress(&cinfo_);
  is_created_ = false;
}

void Decoder::set_source(ByteSpan data) noexcept {
  source_.manager.init_source = on_source;
  source_.manager.fill_input_buffer = on_exhausted;
  source_.manager.skip_input_data = on_skip;
  source_.manager.resync_to_restart = jpeg_resync_to_restart;
  source_.manager.term_source = on_source;
  source_.manager.next_input_byte = reinterpret_cast<const JOCTET*>(data.data());
  source_.manager.bytes_in_buffer = data.size();
  source_.is_exhausted = false;
}

// libjpeg fills components that no scan mentions with grey and says nothing.
void check_components(j_decompress_ptr cinfo) {
  for (int i = 0; i < cinfo->num_components; ++i) {
    if (cinfo->comp_info[i].quant_table == nullptr) {
      fail(reinterpret_cast<j_common_ptr>(cinfo), Code::corrupt, "a component has no scan");
    }
  }
}

void Decoder::read_pixels(const DecodeJob& job) {
  const auto common = reinterpret_cast<j_common_ptr>(&cinfo_);
  if (jpeg_has_multiple_scans(&cinfo_) && source_.is_exhausted) {
    // Scans that never came would have refined the image; nothing else tells.
    fail(common, Code::truncated, "the file ends before its last scan");
  }
  check_components(&cinfo_);
  if (cinfo_.output_width != job.want.width || cinfo_.output_height != job.want.height ||
      cinfo_.output_components != static_cast<int>(kRgbChannels)) {
    fail(common, Code::corrupt, "the frame does not match the header");
  }
  const std::size_t row_size = job.want.width * kRgbChannels;
  JSAMPROW rows[kRowsPerCall];
  while (cinfo_.output_scanline < cinfo_.output_height) {
    const std::size_t left = cinfo_.output_height - cinfo_.output_scanline;
    const std::size_t n = std::min(left, kRowsPerCall);
    std::byte* first = job.out + cinfo_.output_scanline * row_size;
    for (std::size_t i = 0; i < n; ++i) rows[i] = reinterpret_cast<JSAMPROW>(first + i * row_size);
    jpeg_read_scanlines(&cinfo_, rows, static_cast<JDIMENSION>(n));
  }
  if (cinfo_.arith_code != FALSE && source_.is_exhausted) {
    // An arithmetic decoder reads zeros behind the end by design and cannot tell that data are
    // missing.
    fail(common, Code::truncated, "the file ends inside its scan");
  }
}

bool Decoder::run(const DecodeJob& job) noexcept {
  errors_.code = Code::ok;
  set_source(job.data);
  if (setjmp(errors_.jump) != 0) return false;
  jpeg_read_header(&cinfo_, TRUE);
  cinfo_.out_color_space = JCS_RGB;
  cinfo_.dct_method = job.options.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  cinfo_.do_fancy_upsampling = TRUE;
  jpeg_start_decompress(&cinfo_);
  read_pixels(job);
  return true;
}

// Ready for the next image, and without the tables of this one: libjpeg would use them for an image
// that defines none, and the result would depend on what the thread did before.
void Decoder::forget() noexcept {
  jpeg_abort_decompress(&cinfo_);
  std::fill(std::begin(cinfo_.quant_tbl_ptrs), std::end(cinfo_.quant_tbl_ptrs), nullptr);
  std::fill(std::begin(cinfo_.dc_huff_tbl_ptrs), std::end(cinfo_.dc_huff_tbl_ptrs), nullptr);
  std::fill(std::begin(cinfo_.ac_huff_tbl_ptrs), std::end(cinfo_.ac_huff_tbl_ptrs), nullptr);
  if (++images_ >= kImagesPerHandle) destroy();
}

Status Decoder::failure(const DecodeJob& job) const noexcept {
  // Where data are left, a scan that ends early was damaged, not cut off.
  const bool is_cut = source_.is_exhausted;
  const Code code = errors_.code == Code::truncated && !is_cut ? Code::corrupt : errors_.code;
  const std::size_t left = is_cut ? 0 : source_.manager.bytes_in_buffer;
  return Status(code, Detail("JPEG: ") << errors_.message,
                static_cast<std::int64_t>(job.data.size() - left));
}

Status Decoder::decode(const DecodeJob& job) noexcept {
  if (!is_created_ && !create()) {
    return Status(errors_.code, Detail("JPEG: ") << errors_.message);
  }
  const Status status = run(job) ? Status() : failure(job);
  forget();
  return status;
}

Status check_decodable(const JpegInfo& info, ImageShape want) noexcept {
  if (info.precision != 8 || info.is_lossless) {
    return Status(Code::unsupported, Detail("JPEG of ")
                                         << static_cast<std::uint64_t>(info.precision)
                                         << " bits a channel"
                                         << (info.is_lossless ? ", lossless or hierarchical" : ""));
  }
  const JpegColorSpace space = info.color_space;
  if (space != JpegColorSpace::grayscale && space != JpegColorSpace::ycbcr &&
      space != JpegColorSpace::rgb) {
    return Status(Code::unsupported, Detail("JPEG with ")
                                         << static_cast<std::uint64_t>(info.components)
                                         << " components in colour space "
                                         << color_space_name(space) << " has no RGB pixels");
  }
  if (info.width != want.width || info.height != want.height) {
    return Status(Code::corrupt, Detail("JPEG is ")
                                     << std::uint64_t{info.width} << "x"
                                     << std::uint64_t{info.height} << " pixels, expected "
                                     << want.width << "x" << want.height);
  }
  return {};
}

}  // namespace

Status decode_jpeg(ByteSpan data, JpegDecodeOptions options, ImageShape want,
                   MutableByteSpan out) noexcept {
  const auto info = read_jpeg_info(data);
  if (!info.is_ok()) return info.status();
  if (Status status = check_decodable(info.value(), want); !status.is_ok()) return status;
  const auto size = rgb_size_bytes(want);
  if (!size.is_ok()) return size.status();
  if (out.size() != size.value()) {
    return Status(Code::invalid_argument, "the output does not have the size of the image");
  }
  thread_local Decoder decoder;
  return decoder.decode({data, options, want, out.data()});
}

}  // namespace penstock
