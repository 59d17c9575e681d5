#include "headrace/jpeg/window.hpp"

#include <algorithm>
#include <new>

#include "core/jpeg/handle.hpp"

namespace headrace {
namespace {

struct WindowCall {
  JpegDecodeOptions options;
  unsigned denominator;
  ImageShape scaled;        // the whole image
  Window window;            // in the scaled image
  JDIMENSION first_column;  // of the rows that libjpeg returns
  JDIMENSION columns;
  std::byte* out;
};

Window scale_down(const Window& window, std::size_t denominator) noexcept {
  const std::size_t left = window.left / denominator;
  const std::size_t top = window.top / denominator;
  return {left, top, divide_up(window.left + window.width, denominator) - left,
          divide_up(window.top + window.height, denominator) - top};
}

// Where libjpeg guesses coefficients that no scan has brought, it looks at blocks further away than
// the margin of a window.
bool is_complete(jpeg_decompress_struct& cinfo) noexcept {
  if (cinfo.progressive_mode == FALSE || cinfo.coef_bits == nullptr) return true;
  constexpr int kGuessed = 10;  // coefficients at the start of a block
  for (int i = 0; i < cinfo.num_components; ++i) {
    const int* bits = cinfo.coef_bits[i];
    if (std::any_of(bits, bits + kGuessed, [](int missing) { return missing != 0; })) return false;
  }
  return true;
}

// Upsampling treats the first and last column it is given as the image's own border. One column of
// MCUs on each side keeps the window's pixels out of that.
void crop_columns(jpeg_decompress_struct& cinfo, WindowCall& call) {
  const auto mcu_width =
      static_cast<std::size_t>(cinfo.max_h_samp_factor) * DCTSIZE / call.denominator;
  const std::size_t left = call.window.left - std::min(call.window.left, mcu_width);
  const std::size_t right =
      std::min(call.scaled.width, call.window.left + call.window.width + mcu_width);
  call.first_column = static_cast<JDIMENSION>(left);
  call.columns = static_cast<JDIMENSION>(right - left);
  if (call.columns < cinfo.output_width) {
    jpeg_crop_scanline(&cinfo, &call.first_column, &call.columns);
  }
}

void start_window(JpegHandle& handle, void* context) {
  auto& call = *static_cast<WindowCall*>(context);
  jpeg_decompress_struct& cinfo = handle.cinfo();
  handle.start(call.options, call.denominator);
  handle.check_frame(call.scaled);
  call.first_column = 0;
  call.columns = cinfo.output_width;
  if (is_complete(cinfo)) crop_columns(cinfo, call);
}

void read_window(JpegHandle& handle, void* context) {
  const auto& call = *static_cast<const WindowCall*>(context);
  jpeg_decompress_struct& cinfo = handle.cinfo();
  const std::size_t stride = std::size_t{call.columns} * kRgbChannels;
  const std::size_t top = call.window.top;
  if (is_complete(cinfo)) {
    jpeg_skip_scanlines(&cinfo, static_cast<JDIMENSION>(top));
  } else {
    while (cinfo.output_scanline < top) {
      const std::size_t row = cinfo.output_scanline;
      handle.read_rows(call.out, stride, row, row + 1);
    }
  }
  handle.read_rows(call.out, stride, top, top + call.window.height);
  handle.check_end();
}

Status decode_window(JpegHandle& handle, WindowCall& call, DecodedWindow& out) noexcept {
  if (Status status = handle.run(start_window, &call); !status.is_ok()) return status;
  const auto size = rgb_size_bytes({call.columns, call.window.height});
  if (!size.is_ok()) return size.status();
  try {
    if (out.memory.size() < size.value()) out.memory.resize(size.value());
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the pixels of the window");
  }
  call.out = out.memory.data();
  if (Status status = handle.run(read_window, &call); !status.is_ok()) return status;
  out.scale_denominator = call.denominator;
  out.window = call.window;
  out.row_stride = std::size_t{call.columns} * kRgbChannels;
  out.pixels = out.memory.data() + (call.window.left - call.first_column) * kRgbChannels;
  return {};
}

}  // namespace

Status check_window(const Window& window, ImageShape stated) noexcept {
  if (window.width == 0 || window.height == 0 ||
      !is_inside(window.left, window.width, stated.width) ||
      !is_inside(window.top, window.height, stated.height)) {
    return Status(Code::out_of_bounds, Detail("the window of ")
                                           << window.width << "x" << window.height
                                           << " pixels at column " << window.left << ", row "
                                           << window.top << " is not inside the image of "
                                           << stated.width << "x" << stated.height);
  }
  return {};
}

unsigned scale_denominator_for(const Window& window, ImageShape least) noexcept {
  for (const unsigned denominator : {8U, 4U, 2U}) {
    if (window.width / denominator >= least.width && window.height / denominator >= least.height) {
      return denominator;
    }
  }
  return 1;
}

Status decode_jpeg_window(ByteSpan data, const JpegWindowOptions& options, ImageShape stated,
                          const Window& window, DecodedWindow& out) noexcept {
  if (Status status = check_window(window, stated); !status.is_ok()) return status;
  const auto info = read_jpeg_info(data);
  if (!info.is_ok()) return info.status();
  if (Status status = check_decodable(info.value(), stated); !status.is_ok()) return status;
  const unsigned denominator = options.scale_denominator;
  if (denominator != 1 && denominator != 2 && denominator != 4 && denominator != 8) {
    return Status(Code::invalid_argument, "the scale denominator must be 1, 2, 4 or 8");
  }
  WindowCall call{};
  call.options = {.fast_dct = options.fast_dct};
  call.denominator = denominator;
  call.scaled = {divide_up(stated.width, denominator), divide_up(stated.height, denominator)};
  call.window = scale_down(window, denominator);
  JpegHandle& handle = thread_jpeg_handle();
  if (Status status = handle.open(data); !status.is_ok()) return status;
  const Status status = decode_window(handle, call, out);
  handle.close();
  return status;
}

}  // namespace headrace
