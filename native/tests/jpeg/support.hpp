// JPEG files of every kind for tests, written with libjpeg itself.
#pragma once

#include <random>
#include <string>

#include "headrace/image.hpp"
#include "headrace/jpeg/tile_index.hpp"
#include "headrace/jpeg/window.hpp"
#include "tests/support.hpp"

namespace headrace::testing {

enum class JpegKind { color, grayscale, rgb, cmyk, ycck };

struct JpegSpec {
  ImageShape shape{40, 24};
  JpegKind kind = JpegKind::color;
  bool is_progressive = false;
  bool is_arithmetic = false;
  unsigned restart_interval = 0;
  int horizontal_sampling = 2;  // luma samples for each one of chroma, in colour images
  int vertical_sampling = 2;
  bool is_noisy = false;  // random pixels instead of gradients
  int quality = 95;
  bool is_optimised = false;     // Huffman tables made for the image
  bool has_whole_scans = false;  // progressive, one component a scan, every scan in full precision
};

// Smooth gradients, so that compression changes little.
Bytes gradient(ImageShape shape, std::size_t channels);

// False when libjpeg was built without arithmetic coding.
bool can_encode(const JpegSpec& spec);

Bytes make_jpeg(const JpegSpec& spec);

// Its packed entry points.
Bytes index_of(const Bytes& file, unsigned tile);

// By libjpeg-turbo, all of it.
Bytes decode(const Bytes& file, ImageShape shape);

// The window's pixels of an image without gaps.
Bytes part_of(const Bytes& image, ImageShape shape, const Window& window);

Window random_window(std::mt19937& engine, ImageShape shape);

// As text, for messages.
std::string text_of(const Window& window);

// Markers and other test data in hexadecimal, blanks ignored.
Bytes from_hex(std::string_view text);

}  // namespace headrace::testing
