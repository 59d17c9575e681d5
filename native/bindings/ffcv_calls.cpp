// FFCV's C library: what functions that a user has compiled call by address, without Python.
//
// Names and arguments are FFCV's, so pointers come without the size of what they point to; a
// caller vouches for it, as there. Any number of threads may call. What goes wrong gives -1, and
// `take_failure` tells it, since compiled functions rarely look at what a call gives.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "headrace/image.hpp"
#include "headrace/jpeg/window.hpp"
#include "headrace/resample/opencv_area.hpp"
#include "headrace/status.hpp"

#define HEADRACE_EXPORTED extern "C" __attribute__((visibility("default")))

HEADRACE_EXPORTED int imdecode(const std::byte* source, std::uint64_t size, std::uint32_t height,
                               std::uint32_t width, std::byte* out, std::uint32_t crop_height,
                               std::uint32_t crop_width, std::uint32_t left, std::uint32_t top,
                               std::uint32_t scale, std::uint32_t scale_denominator,
                               bool is_cropped, bool is_flipped) noexcept;
HEADRACE_EXPORTED int resize(std::int64_t, const std::uint8_t* source, std::int64_t height,
                             std::int64_t width, std::int64_t start_row, std::int64_t end_row,
                             std::int64_t start_column, std::int64_t end_column, std::uint8_t* out,
                             std::int64_t out_height, std::int64_t out_width) noexcept;
HEADRACE_EXPORTED void my_memcpy(const void* source, void* out, std::uint64_t size) noexcept;
HEADRACE_EXPORTED int take_failure(char* text, std::uint64_t room) noexcept;

namespace headrace {
namespace {

struct Failures {
  std::mutex mutex;
  Status first;  // since the last one that was taken
};

Failures& failures() noexcept {
  static Failures instance;
  return instance;
}

int noted(const Status& status) noexcept {
  if (status.is_ok()) return 0;
  Failures& kept = failures();
  const std::lock_guard lock(kept.mutex);
  if (kept.first.is_ok()) kept.first = status;
  return -1;
}

void copy_row(const std::byte* from, std::size_t width, bool is_flipped, std::byte* to) noexcept {
  if (!is_flipped) {
    std::memcpy(to, from, width * kRgbChannels);
    return;
  }
  for (std::size_t x = 0; x < width; ++x) {
    std::memcpy(to + (width - 1 - x) * kRgbChannels, from + x * kRgbChannels, kRgbChannels);
  }
}

Status decode(ByteSpan data, ImageShape shape, const Window& window, unsigned denominator,
              bool is_flipped, std::byte* out) noexcept {
  if (Status status = check_window(window, shape); !status.is_ok()) return status;
  thread_local DecodedWindow decoded;
  const JpegWindowOptions options{.fast_dct = true, .scale_denominator = denominator};
  if (Status status = decode_jpeg_window(data, options, shape, window, decoded); !status.is_ok()) {
    return status;
  }
  for (std::size_t y = 0; y < decoded.window.height; ++y) {
    copy_row(decoded.pixels + y * decoded.row_stride, decoded.window.width, is_flipped,
             out + y * decoded.window.width * kRgbChannels);
  }
  return {};
}

// A reduction by 1, 2, 4 or 8, or 0.
unsigned reduction(std::uint32_t scale, std::uint32_t denominator) noexcept {
  for (const unsigned by : {1U, 2U, 4U, 8U}) {
    if (scale != 0 && std::uint64_t{scale} * by == denominator) return by;
  }
  return 0;
}

Status resize_part(const std::uint8_t* source, std::size_t row_stride, ImageShape part,
                   ImageShape out_shape, std::uint8_t* out) noexcept {
  thread_local OpenCvArea area;
  if (Status status = area.plan(part, out_shape, false); !status.is_ok()) return status;
  for (std::size_t y = 0; y < out_shape.height; ++y) {
    area.write_row(source, row_stride, y, out + y * out_shape.width * kRgbChannels);
  }
  return {};
}

}  // namespace
}  // namespace headrace

int imdecode(const std::byte* source, std::uint64_t size, std::uint32_t height, std::uint32_t width,
             std::byte* out, std::uint32_t crop_height, std::uint32_t crop_width,
             std::uint32_t left, std::uint32_t top, std::uint32_t scale,
             std::uint32_t scale_denominator, bool is_cropped, bool is_flipped) noexcept {
  using namespace headrace;
  const unsigned denominator = reduction(scale, scale_denominator);
  if (denominator == 0) {
    return noted(Status(Code::invalid_argument, "imdecode scales by 1, 1/2, 1/4 and 1/8"));
  }
  const Window window =
      is_cropped ? Window{left, top, crop_width, crop_height} : Window{0, 0, width, height};
  return noted(decode({source, size}, {.width = width, .height = height}, window, denominator,
                      is_flipped, out));
}

int resize(std::int64_t, const std::uint8_t* source, std::int64_t height, std::int64_t width,
           std::int64_t start_row, std::int64_t end_row, std::int64_t start_column,
           std::int64_t end_column, std::uint8_t* out, std::int64_t out_height,
           std::int64_t out_width) noexcept {
  using namespace headrace;
  const bool is_inside = 0 <= start_row && start_row < end_row && end_row <= height &&
                         0 <= start_column && start_column < end_column && end_column <= width;
  if (!is_inside || out_height < 1 || out_width < 1) {
    return noted(Status(Code::invalid_argument,
                        "resize_crop needs a part that is inside the picture and not empty, and "
                        "room for at least a pixel"));
  }
  const auto side = [](std::int64_t pixels) { return static_cast<std::size_t>(pixels); };
  const std::size_t row_stride = side(width) * kRgbChannels;
  const std::uint8_t* first =
      source + side(start_row) * row_stride + side(start_column) * kRgbChannels;
  return noted(
      resize_part(first, row_stride,
                  {.width = side(end_column - start_column), .height = side(end_row - start_row)},
                  {.width = side(out_width), .height = side(out_height)}, out));
}

void my_memcpy(const void* source, void* out, std::uint64_t size) noexcept {
  std::memcpy(out, source, size);
}

// 1, and the text of the first failure since the last call, cut to `room` with its zero; or 0.
int take_failure(char* text, std::uint64_t room) noexcept {
  using namespace headrace;
  Failures& kept = failures();
  const std::lock_guard lock(kept.mutex);
  if (kept.first.is_ok() || room == 0) return 0;
  const std::size_t length = std::min<std::size_t>(kept.first.detail().size(), room - 1);
  std::memcpy(text, kept.first.detail().data(), length);
  text[length] = '\0';
  kept.first = {};
  return 1;
}
