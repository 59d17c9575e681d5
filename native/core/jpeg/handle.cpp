#include "core/jpeg/handle.hpp"

#include <algorithm>

namespace headrace {
namespace {

// A progressive file of a few kilobytes can hold thousands of scans, each as costly as an image.
constexpr int kMaxScans = 500;
// A handle that forgets its tables leaves their memory in its pool; a new handle frees it.
constexpr int kImagesPerHandle = 128;

constexpr JOCTET kEndOfImage[2] = {0xFF, JPEG_EOI};

void on_source(j_decompress_ptr) {}

void on_progress(j_common_ptr cinfo) {
  if (reinterpret_cast<j_decompress_ptr>(cinfo)->input_scan_number > kMaxScans) {
    fail(cinfo, Code::too_large, "more than 500 scans");
  }
}

// libjpeg fills components that no scan mentions with grey and says nothing.
void check_components(j_decompress_ptr cinfo) {
  for (int i = 0; i < cinfo->num_components; ++i) {
    if (cinfo->comp_info[i].quant_table == nullptr) {
      fail(reinterpret_cast<j_common_ptr>(cinfo), Code::corrupt, "a component has no scan");
    }
  }
}

}  // namespace

// Called when the data are used up: libjpeg sees an end marker from our own memory instead.
boolean JpegHandle::on_exhausted(j_decompress_ptr cinfo) {
  auto* source = reinterpret_cast<Source*>(cinfo->src);
  source->is_exhausted = true;
  source->manager.next_input_byte = kEndOfImage;
  source->manager.bytes_in_buffer = sizeof kEndOfImage;
  return TRUE;
}

void JpegHandle::on_skip(j_decompress_ptr cinfo, long count) {
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

bool JpegHandle::create() noexcept {
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

void JpegHandle::destroy() noexcept {
  if (is_created_) jpeg_destroy_decompress(&cinfo_);
  is_created_ = false;
}

Status JpegHandle::open(ByteSpan data) noexcept {
  if (!is_created_ && !create()) {
    return Status(errors_.code, Detail("JPEG: ") << errors_.message);
  }
  errors_.code = Code::ok;
  size_ = data.size();
  source_.manager.init_source = on_source;
  source_.manager.fill_input_buffer = on_exhausted;
  source_.manager.skip_input_data = on_skip;
  source_.manager.resync_to_restart = jpeg_resync_to_restart;
  source_.manager.term_source = on_source;
  source_.manager.next_input_byte = reinterpret_cast<const JOCTET*>(data.data());
  source_.manager.bytes_in_buffer = data.size();
  source_.is_exhausted = false;
  return {};
}

Status JpegHandle::run(Step step, void* job) noexcept {
  if (setjmp(errors_.jump) != 0) return failure();
  step(*this, job);
  return {};
}

void JpegHandle::close() noexcept {
  jpeg_abort_decompress(&cinfo_);
  std::fill(std::begin(cinfo_.quant_tbl_ptrs), std::end(cinfo_.quant_tbl_ptrs), nullptr);
  std::fill(std::begin(cinfo_.dc_huff_tbl_ptrs), std::end(cinfo_.dc_huff_tbl_ptrs), nullptr);
  std::fill(std::begin(cinfo_.ac_huff_tbl_ptrs), std::end(cinfo_.ac_huff_tbl_ptrs), nullptr);
  if (++images_ >= kImagesPerHandle) destroy();
}

Status JpegHandle::failure() const noexcept {
  // Where data are left, a scan that ends early was damaged, not cut off.
  const bool is_cut = source_.is_exhausted;
  const Code code = errors_.code == Code::truncated && !is_cut ? Code::corrupt : errors_.code;
  const std::size_t left = is_cut ? 0 : source_.manager.bytes_in_buffer;
  return Status(code, Detail("JPEG: ") << errors_.message, static_cast<std::int64_t>(size_ - left));
}

void JpegHandle::start(JpegDecodeOptions options, unsigned scale_denominator) {
  jpeg_read_header(&cinfo_, TRUE);
  cinfo_.out_color_space = JCS_RGB;
  cinfo_.dct_method = options.fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  cinfo_.do_fancy_upsampling = TRUE;
  cinfo_.scale_num = 1;
  cinfo_.scale_denom = scale_denominator;
  jpeg_start_decompress(&cinfo_);
}

void JpegHandle::check_frame(ImageShape want) {
  const auto common = reinterpret_cast<j_common_ptr>(&cinfo_);
  if (jpeg_has_multiple_scans(&cinfo_) && source_.is_exhausted) {
    // Scans that never came would have refined the image; nothing else tells.
    fail(common, Code::truncated, "the file ends before its last scan");
  }
  check_components(&cinfo_);
  if (cinfo_.output_width != want.width || cinfo_.output_height != want.height ||
      cinfo_.output_components != static_cast<int>(kRgbChannels)) {
    fail(common, Code::corrupt, "the frame does not match the header");
  }
}

void JpegHandle::read_rows(std::byte* out, std::size_t row_stride, std::size_t first,
                           std::size_t end) {
  JSAMPROW rows[kRowsPerCall];
  while (cinfo_.output_scanline < end) {
    const std::size_t n = std::min(end - cinfo_.output_scanline, kRowsPerCall);
    std::byte* row = out + (cinfo_.output_scanline - first) * row_stride;
    for (std::size_t i = 0; i < n; ++i) rows[i] = reinterpret_cast<JSAMPROW>(row + i * row_stride);
    jpeg_read_scanlines(&cinfo_, rows, static_cast<JDIMENSION>(n));
  }
}

void JpegHandle::check_end() {
  if (cinfo_.arith_code != FALSE && source_.is_exhausted) {
    // An arithmetic decoder reads zeros behind the end by design and cannot tell that data are
    // missing.
    fail(reinterpret_cast<j_common_ptr>(&cinfo_), Code::truncated, "the file ends inside its scan");
  }
}

JpegHandle& thread_jpeg_handle() noexcept {
  thread_local JpegHandle handle;
  return handle;
}

}  // namespace headrace
