#include "tests/jpeg/support.hpp"

#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

// clang-format off
#include <jpeglib.h>
// clang-format on

namespace headrace::testing {
namespace {

J_COLOR_SPACE input_space(JpegKind kind) {
  if (kind == JpegKind::grayscale) return JCS_GRAYSCALE;
  return kind == JpegKind::cmyk || kind == JpegKind::ycck ? JCS_CMYK : JCS_RGB;
}

J_COLOR_SPACE file_space(JpegKind kind) {
  switch (kind) {
    case JpegKind::grayscale:
      return JCS_GRAYSCALE;
    case JpegKind::rgb:
      return JCS_RGB;
    case JpegKind::cmyk:
      return JCS_CMYK;
    case JpegKind::ycck:
      return JCS_YCCK;
    case JpegKind::color:
      break;
  }
  return JCS_YCbCr;
}

std::size_t channels_of(JpegKind kind) {
  if (kind == JpegKind::grayscale) return 1;
  return kind == JpegKind::cmyk || kind == JpegKind::ycck ? 4 : 3;
}

// First the DC scans of all components, then their AC scans.
std::vector<jpeg_scan_info> whole_scans(int components) {
  std::vector<jpeg_scan_info> scans;
  for (const auto& [first, last] : {std::pair{0, 0}, std::pair{1, 63}}) {
    for (int i = 0; i < components; ++i) scans.push_back({1, {i, 0, 0, 0}, first, last, 0, 0});
  }
  return scans;
}

void configure(jpeg_compress_struct& cinfo, const JpegSpec& spec) {
  cinfo.image_width = static_cast<JDIMENSION>(spec.shape.width);
  cinfo.image_height = static_cast<JDIMENSION>(spec.shape.height);
  cinfo.input_components = static_cast<int>(channels_of(spec.kind));
  cinfo.in_color_space = input_space(spec.kind);
  jpeg_set_defaults(&cinfo);
  jpeg_set_colorspace(&cinfo, file_space(spec.kind));
  jpeg_set_quality(&cinfo, spec.quality, TRUE);
  if (spec.is_optimised) cinfo.optimize_coding = TRUE;
  if (spec.kind == JpegKind::color) {
    cinfo.comp_info[0].h_samp_factor = spec.horizontal_sampling;
    cinfo.comp_info[0].v_samp_factor = spec.vertical_sampling;
  }
  cinfo.restart_interval = spec.restart_interval;
  cinfo.arith_code = spec.is_arithmetic ? TRUE : FALSE;
  if (spec.is_progressive) jpeg_simple_progression(&cinfo);
}

// Errors of libjpeg end a test, not the program; nothing here owns memory that matters.
[[noreturn]] void on_error(j_common_ptr) { throw std::runtime_error("libjpeg cannot write this"); }

}  // namespace

Bytes gradient(ImageShape shape, std::size_t channels) {
  Bytes pixels;
  for (std::size_t y = 0; y < shape.height; ++y) {
    for (std::size_t x = 0; x < shape.width; ++x) {
      for (std::size_t c = 0; c < channels; ++c) {
        pixels.push_back(static_cast<std::byte>((x * (c + 1) + y * 2 + 40 * c) / 2 % 256));
      }
    }
  }
  return pixels;
}

Bytes make_jpeg(const JpegSpec& spec) {
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  jpeg_create_compress(&cinfo);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&cinfo, &memory, &size);
  configure(cinfo, spec);
  const std::vector<jpeg_scan_info> scans = whole_scans(cinfo.num_components);
  if (spec.has_whole_scans) {
    cinfo.scan_info = scans.data();
    cinfo.num_scans = static_cast<int>(scans.size());
  }
  jpeg_start_compress(&cinfo, TRUE);
  const std::size_t pixels_size = spec.shape.width * spec.shape.height * channels_of(spec.kind);
  Bytes pixels =
      spec.is_noisy ? random_bytes(pixels_size, 1) : gradient(spec.shape, channels_of(spec.kind));
  const std::size_t row_size = spec.shape.width * channels_of(spec.kind);
  while (cinfo.next_scanline < cinfo.image_height) {
    auto* row = reinterpret_cast<JSAMPROW>(pixels.data() + cinfo.next_scanline * row_size);
    jpeg_write_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_compress(&cinfo);
  jpeg_destroy_compress(&cinfo);
  const auto* begin = reinterpret_cast<const std::byte*>(memory);
  Bytes out(begin, begin + size);
  std::free(memory);
  return out;
}

bool can_encode(const JpegSpec& spec) {
#ifdef C_ARITH_CODING_SUPPORTED
  static_cast<void>(spec);
  return true;
#else
  return !spec.is_arithmetic;
#endif
}

Bytes index_of(const Bytes& file, unsigned tile) {
  TileIndex tile_index;
  expect_ok(make_tile_index(file, tile, tile_index));
  Bytes packed;
  expect_ok(pack_tile_index(tile_index, packed));
  return packed;
}

Bytes decode(const Bytes& file, ImageShape shape) {
  Bytes out(shape.width * shape.height * 3);
  expect_ok(decode_jpeg(file, {}, shape, out));
  return out;
}

Bytes part_of(const Bytes& image, ImageShape shape, const Window& window) {
  Bytes pixels;
  for (std::size_t y = 0; y < window.height; ++y) {
    const auto row = image.begin() + static_cast<std::ptrdiff_t>(
                                         ((window.top + y) * shape.width + window.left) * 3);
    pixels.insert(pixels.end(), row, row + static_cast<std::ptrdiff_t>(window.width * 3));
  }
  return pixels;
}

Window random_window(std::mt19937& engine, ImageShape shape) {
  const std::size_t width = 1 + engine() % shape.width;
  const std::size_t height = 1 + engine() % shape.height;
  return {engine() % (shape.width - width + 1), engine() % (shape.height - height + 1), width,
          height};
}

std::string text_of(const Window& window) {
  return std::to_string(window.left) + "," + std::to_string(window.top) + " " +
         std::to_string(window.width) + "x" + std::to_string(window.height);
}

Bytes from_hex(std::string_view text) {
  std::string digits;
  for (const char c : text) {
    if (c != ' ') digits.push_back(c);
  }
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

}  // namespace headrace::testing
