#include "headrace/images/store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "headrace/jpeg/codec.hpp"
#include "headrace/resample/resize.hpp"

namespace headrace {
namespace {

constexpr std::size_t kMaxSide = 65'535;
constexpr std::uint64_t kMaxPixels = std::uint64_t{1} << 28;

bool try_resize(std::vector<std::byte>& memory, std::size_t size) noexcept {
  try {
    memory.resize(size);
  } catch (...) {
    return false;
  }
  return true;
}

Status out_of_memory() noexcept { return {Code::out_of_memory, "no memory for the pixels"}; }

bool is_rgb_capable(const JpegInfo& info) noexcept {
  const bool has_rgb = info.color_space == JpegColorSpace::grayscale ||
                       info.color_space == JpegColorSpace::ycbcr ||
                       info.color_space == JpegColorSpace::rgb;
  return has_rgb && info.precision == 8 && !info.is_lossless;
}

bool ends_properly(ByteSpan jpeg) noexcept {
  return jpeg.size() >= 2 && jpeg[jpeg.size() - 2] == std::byte{0xFF} &&
         jpeg[jpeg.size() - 1] == std::byte{0xD9};
}

bool is_same(ImageShape a, ImageShape b) noexcept {
  return a.width == b.width && a.height == b.height;
}

// Decodes into scratch.pixels and shrinks into scratch.shrunk; `out` is where the result is.
Status decode_and_shrink(ByteSpan jpeg, ImageShape shape, ImageShape small, StoreScratch& scratch,
                         ByteSpan& out) noexcept {
  const Result<std::size_t> size = rgb_size_bytes(shape);
  if (!size.is_ok()) return size.status();
  if (!try_resize(scratch.pixels, size.value())) return out_of_memory();
  if (const Status status = decode_jpeg(jpeg, {}, shape, scratch.pixels); !status.is_ok()) {
    return status;
  }
  out = scratch.pixels;
  if (is_same(shape, small)) return {};
  if (!try_resize(scratch.shrunk, small.width * small.height * kRgbChannels)) {
    return out_of_memory();
  }
  out = scratch.shrunk;
  return resize_area(scratch.pixels, shape, scratch.shrunk, small);
}

}  // namespace

ImageShape stored_shape(ImageShape shape, std::uint32_t max_side) noexcept {
  const std::size_t longer = std::max(shape.width, shape.height);
  if (max_side == 0 || longer <= max_side) return shape;
  const double ratio = static_cast<double>(max_side) / static_cast<double>(longer);
  const auto shrink = [ratio](std::size_t side) {
    return std::max<std::size_t>(1, static_cast<std::size_t>(ratio * static_cast<double>(side)));
  };
  return {shrink(shape.width), shrink(shape.height)};
}

Result<StoredImage> store_jpeg(ByteSpan jpeg, const StoreOptions& options, std::uint64_t jpg_above,
                               StoreScratch& scratch) noexcept {
  const Result<JpegInfo> found = read_jpeg_info(jpeg);
  if (!found.is_ok()) return found.status();
  const JpegInfo& info = found.value();
  if (!is_rgb_capable(info)) return Status(Code::unsupported, "not an 8-bit grey or RGB JPEG");
  const ImageShape shape{info.width, info.height};
  if (std::uint64_t{info.width} * info.height > kMaxPixels) {
    return Status(Code::too_large, "the image has too many pixels");
  }
  StoredImage stored;
  stored.shape = stored_shape(shape, options.max_side);
  if (std::max(stored.shape.width, stored.shape.height) > kMaxSide) {
    return Status(Code::too_large, "a side of the image is too long");
  }
  stored.is_jpeg = stored.shape.width * stored.shape.height * kRgbChannels > jpg_above;
  stored.is_source = stored.is_jpeg && is_same(shape, stored.shape);
  if (stored.is_source && ends_properly(jpeg)) return stored;
  ByteSpan pixels;
  // A source without an end marker is decoded, too: that tells whether it was cut short.
  if (const Status status = decode_and_shrink(jpeg, shape, stored.shape, scratch, pixels);
      !status.is_ok()) {
    return status;
  }
  if (stored.is_source) return stored;
  if (stored.is_jpeg) {
    const Status status = encode_jpeg(pixels, stored.shape, stored.shape.width * kRgbChannels,
                                      options.quality, stored.bytes);
    if (!status.is_ok()) return status;
  } else {
    if (!try_resize(stored.bytes, pixels.size())) return out_of_memory();
    std::copy(pixels.begin(), pixels.end(), stored.bytes.begin());
  }
  return stored;
}

Status read_file(const char* path, std::vector<std::byte>& out) noexcept {
  const Status failed(Code::unsupported, "the file cannot be read");
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return failed;
  struct stat facts{};
  bool is_fine = fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_size >= 0 &&
                 try_resize(out, static_cast<std::size_t>(facts.st_size));
  std::size_t done = 0;
  while (is_fine && done < out.size()) {
    const ssize_t count = read(fd, out.data() + done, out.size() - done);
    if (count > 0) {
      done += static_cast<std::size_t>(count);
    } else {
      is_fine = count < 0 && errno == EINTR;
    }
  }
  close(fd);
  return is_fine ? Status() : failed;
}

}  // namespace headrace
