#include <cstddef>

#include "core/jpeg/handle.hpp"
#include "headrace/jpeg/codec.hpp"

namespace headrace {
namespace {

struct DecodeCall {
  JpegDecodeOptions options;
  ImageShape want;
  std::byte* out;
};

void decode_whole(JpegHandle& handle, void* context) {
  const auto& call = *static_cast<const DecodeCall*>(context);
  handle.start(call.options, 1);
  handle.check_frame(call.want);
  handle.read_rows(call.out, call.want.width * kRgbChannels, 0, call.want.height);
  handle.check_end();
}

}  // namespace

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
  JpegHandle& handle = thread_jpeg_handle();
  if (Status status = handle.open(data); !status.is_ok()) return status;
  DecodeCall call{options, want, out.data()};
  const Status status = handle.run(decode_whole, &call);
  handle.close();
  return status;
}

}  // namespace headrace
