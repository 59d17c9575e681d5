// A thread's decompressor, shared by whole-image and window decoding.
#pragma once

#include <cstddef>

#include "core/jpeg/common.hpp"
#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/jpeg/codec.hpp"

namespace headrace {

class JpegHandle {
 public:
  // Runs between setjmp and longjmp: no object with a destructor may be on its stack.
  using Step = void (*)(JpegHandle& handle, void* job);

  JpegHandle() noexcept = default;
  JpegHandle(const JpegHandle&) = delete;
  JpegHandle& operator=(const JpegHandle&) = delete;
  ~JpegHandle() { destroy(); }

  // Every open that succeeds is followed by close; run as often as needed in between, until a step
  // fails.
  Status open(ByteSpan data) noexcept;
  Status run(Step step, void* job) noexcept;
  // Ready for the next image, and without the tables of this one: libjpeg would use them for an
  // image that defines none, and the result would depend on what the thread did before.
  void close() noexcept;

  // For steps.
  [[nodiscard]] jpeg_decompress_struct& cinfo() noexcept { return cinfo_; }
  void start(JpegDecodeOptions options, unsigned scale_denominator);
  void check_frame(ImageShape want);
  void check_end();
  // Reads rows up to `end` (not included); row `first` of the image goes to `out`.
  void read_rows(std::byte* out, std::size_t row_stride, std::size_t first, std::size_t end);

 private:
  struct Source {
    jpeg_source_mgr manager;  // first, so that cinfo->src is also a Source
    bool is_exhausted;
  };

  static boolean on_exhausted(j_decompress_ptr cinfo);
  static void on_skip(j_decompress_ptr cinfo, long count);
  bool create() noexcept;
  void destroy() noexcept;
  [[nodiscard]] Status failure() const noexcept;

  jpeg_decompress_struct cinfo_{};
  JpegErrors errors_{};
  jpeg_progress_mgr progress_{};
  Source source_{};
  std::size_t size_ = 0;
  bool is_created_ = false;
  int images_ = 0;
};

// The calling thread's own; freed when the thread ends.
[[nodiscard]] JpegHandle& thread_jpeg_handle() noexcept;

// Whether the image can become RGB of `want` pixels.
Status check_decodable(const JpegInfo& info, ImageShape want) noexcept;

}  // namespace headrace
