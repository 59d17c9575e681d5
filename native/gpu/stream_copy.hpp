// Copies that the CPU does not read again: they go past its caches, which spares fetching the lines
// that are overwritten.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "headrace/bytes.hpp"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace headrace::gpu {

inline constexpr std::size_t kLineBytes = 64;

// The first `size` bytes of `from`, and what follows them there, up to a whole line of `to`, which
// is aligned to 16 bytes and has room for that. finish_stream_copies makes them seen by others.
inline void stream_copy(std::byte* to, ByteSpan from, std::size_t size) noexcept {
  std::size_t done = 0;
#ifdef __SSE2__
  const std::size_t lines =
      std::min(round_up(size, kLineBytes), from.size() / kLineBytes * kLineBytes);
  for (; done < lines; done += kLineBytes) {
    for (std::size_t k = done; k < done + kLineBytes; k += sizeof(__m128i)) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to + k),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.data() + k)));
    }
  }
#endif
  if (done < size) std::memcpy(to + done, from.data() + done, size - done);
}

inline void finish_stream_copies() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace headrace::gpu
