#include "headrace/zlib_stream.hpp"

#ifdef HEADRACE_HAS_DEFLATE

#include <libdeflate.h>

#include <memory>

namespace headrace {
namespace {

struct Freed {
  void operator()(libdeflate_decompressor* inflater) const noexcept {
    libdeflate_free_decompressor(inflater);
  }
};

}  // namespace

std::optional<std::size_t> inflate_stream(ByteSpan stream, std::span<std::uint8_t> out) noexcept {
  thread_local const std::unique_ptr<libdeflate_decompressor, Freed> inflater(
      libdeflate_alloc_decompressor());
  if (inflater == nullptr) return std::nullopt;
  std::size_t size = 0;
  const auto result = libdeflate_zlib_decompress(inflater.get(), stream.data(), stream.size(),
                                                 out.data(), out.size(), &size);
  if (result != LIBDEFLATE_SUCCESS) return std::nullopt;
  return size;
}

}  // namespace headrace

#else

namespace headrace {

std::optional<std::size_t> inflate_stream(ByteSpan, std::span<std::uint8_t>) noexcept {
  return std::nullopt;
}

}  // namespace headrace

#endif
