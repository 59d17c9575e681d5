// Grey levels replaced by entries of a table, one table for each channel. Entries are copied, not
// calculated with, so that all levels give the same bits.
#include "kernels/kernels.hpp"

#if defined(__AVX512VBMI__)
#include <immintrin.h>
#endif

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

template <typename T>
inline void look_up_pixels(const uint8_t* row, size_t pixels, const LevelTable& table,
                           const ValueRow& out) {
  const T* entries = static_cast<const T*>(table.entries);
  const size_t step = out.is_interleaved ? 3 : 1;
  for (size_t c = 0; c < 3; ++c) {
    T* plane = out.is_interleaved ? static_cast<T*>(out.planes[0]) + c  //
                                  : static_cast<T*>(out.planes[c]);
    const T* levels = entries + c * kLevels;
    for (size_t j = 0; j < pixels; ++j) plane[j * step] = levels[row[3 * j + c]];
  }
}

#if defined(__AVX512VBMI__)

// Pixels at a time: the levels of a channel are the bytes of a vector, and byte b of all their
// entries is the outcome of looking them up in 256 bytes, which is what four vectors hold.
constexpr size_t kGroup = 64;

// Where the levels of a channel are in three vectors of pixels, in the order in which they are
// wanted.
template <size_t kBytes>
struct Picks {
  constexpr Picks() {
    for (size_t c = 0; c < 3; ++c) {
      for (size_t i = 0; i < kGroup; ++i) {
        const size_t at = 3 * pixel_at(i) + c;
        from[c][i] = static_cast<uint8_t>(at);  // of which each instruction sees the low bits
        if (at >= 128) is_third[c] |= uint64_t{1} << i;
      }
    }
  }

  // The unpack instructions work in parts of 16 bytes: with the pixels in this order, their results
  // have neighbours together.
  static constexpr size_t pixel_at(size_t i) {
    const size_t lane = i / 16;
    const size_t part = 16 / kBytes;  // entries that fit into 16 bytes
    return i % 16 / part * (kGroup / kBytes) + lane * part + i % part;
  }

  alignas(64) uint8_t from[3][kGroup] = {};
  uint64_t is_third[3] = {};
};

struct ThreeVectors {
  __m512i a, b, c;
};

template <size_t kBytes>
inline __m512i levels_of(const ThreeVectors& pixels, size_t channel) {
  static constexpr Picks<kBytes> kPicks;
  const __m512i from = _mm512_load_si512(kPicks.from[channel]);
  const __m512i both = _mm512_permutex2var_epi8(pixels.a, from, pixels.b);
  return _mm512_mask_permutexvar_epi8(both, kPicks.is_third[channel], from, pixels.c);
}

inline __m512i look_up(__m512i levels, const uint8_t* bytes) {
  const __m512i dark =
      _mm512_permutex2var_epi8(_mm512_load_si512(bytes), levels, _mm512_load_si512(bytes + 64));
  const __m512i bright = _mm512_permutex2var_epi8(_mm512_load_si512(bytes + 128), levels,
                                                  _mm512_load_si512(bytes + 192));
  return _mm512_mask_mov_epi8(dark, _mm512_movepi8_mask(levels), bright);
}

// The entries of 64 levels, in rising order of the pixels.
struct Halves {
  static constexpr size_t kBytes = 2;
  __m512i vectors[2];

  Halves(__m512i levels, const uint8_t* bytes) {
    const __m512i low = look_up(levels, bytes);
    const __m512i high = look_up(levels, bytes + kLevels);
    vectors[0] = _mm512_unpacklo_epi8(low, high);
    vectors[1] = _mm512_unpackhi_epi8(low, high);
  }
};

struct Floats {
  static constexpr size_t kBytes = 4;
  __m512i vectors[4];

  Floats(__m512i levels, const uint8_t* bytes) {
    const __m512i byte_0 = look_up(levels, bytes);
    const __m512i byte_1 = look_up(levels, bytes + kLevels);
    const __m512i byte_2 = look_up(levels, bytes + 2 * kLevels);
    const __m512i byte_3 = look_up(levels, bytes + 3 * kLevels);
    const __m512i first_low = _mm512_unpacklo_epi8(byte_0, byte_1);
    const __m512i first_high = _mm512_unpacklo_epi8(byte_2, byte_3);
    const __m512i last_low = _mm512_unpackhi_epi8(byte_0, byte_1);
    const __m512i last_high = _mm512_unpackhi_epi8(byte_2, byte_3);
    vectors[0] = _mm512_unpacklo_epi16(first_low, first_high);
    vectors[1] = _mm512_unpackhi_epi16(first_low, first_high);
    vectors[2] = _mm512_unpacklo_epi16(last_low, last_high);
    vectors[3] = _mm512_unpackhi_epi16(last_low, last_high);
  }
};

// Where value i of a vector of pixels is in its three planes; blue counts from 0 again.
template <typename Index>
struct Order {
  static constexpr size_t kLanes = 64 / sizeof(Index);
  constexpr Order() {
    for (size_t i = 0; i < 3 * kLanes; ++i) {
      at[i] = static_cast<Index>(i % 3 * kLanes + i / 3);
      if (i % 3 == 2) is_blue[i / kLanes] |= uint32_t{1} << i % kLanes;
    }
  }
  alignas(64) Index at[3 * kLanes] = {};
  uint32_t is_blue[3] = {};
};

inline __m512i join(__m512i red, __m512i green, __m512i blue, const uint16_t* order,
                    uint32_t is_blue) {
  const __m512i at = _mm512_load_si512(order);
  return _mm512_mask_permutexvar_epi16(_mm512_permutex2var_epi16(red, at, green), is_blue, at,
                                       blue);
}

inline __m512i join(__m512i red, __m512i green, __m512i blue, const uint32_t* order,
                    uint32_t is_blue) {
  const __m512i at = _mm512_load_si512(order);
  return _mm512_mask_permutexvar_epi32(_mm512_permutex2var_epi32(red, at, green),
                                       static_cast<__mmask16>(is_blue), at, blue);
}

template <typename T, typename Entries>
inline void store_planes(const Entries (&entries)[3], size_t at, const ValueRow& out) {
  for (size_t c = 0; c < 3; ++c) {
    T* plane = static_cast<T*>(out.planes[c]) + at;
    for (size_t v = 0; v < sizeof(T); ++v) {
      _mm512_storeu_si512(plane + v * (64 / sizeof(T)), entries[c].vectors[v]);
    }
  }
}

template <typename T, typename Entries>
inline void store_pixels(const Entries (&entries)[3], size_t at, const ValueRow& out) {
  static constexpr Order<T> kOrder;
  constexpr size_t kLanes = 64 / sizeof(T);
  T* to = static_cast<T*>(out.planes[0]) + 3 * at;
  for (size_t v = 0; v < sizeof(T); ++v) {
    for (size_t part = 0; part < 3; ++part, to += kLanes) {
      _mm512_storeu_si512(to,
                          join(entries[0].vectors[v], entries[1].vectors[v], entries[2].vectors[v],
                               kOrder.at + part * kLanes, kOrder.is_blue[part]));
    }
  }
}

// T has the size of an entry.
template <typename T, typename Entries>
inline void look_up_group(const uint8_t* row, size_t at, const LevelTable& table,
                          const ValueRow& out) {
  constexpr size_t kBytes = Entries::kBytes;
  const uint8_t* source = row + 3 * at;
  const ThreeVectors group{_mm512_loadu_si512(source), _mm512_loadu_si512(source + 64),
                           _mm512_loadu_si512(source + 128)};
  const Entries entries[3] = {{levels_of<kBytes>(group, 0), table.bytes},
                              {levels_of<kBytes>(group, 1), table.bytes + kBytes * kLevels},
                              {levels_of<kBytes>(group, 2), table.bytes + 2 * kBytes * kLevels}};
  if (out.is_interleaved) return store_pixels<T>(entries, at, out);
  store_planes<T>(entries, at, out);
}

// The last group takes some pixels twice, and none behind the end.
template <typename T, typename Entries>
inline void look_up_groups(const uint8_t* row, size_t pixels, const LevelTable& table,
                           const ValueRow& out) {
  if (pixels < kGroup) return look_up_pixels<T>(row, pixels, table, out);
  for (size_t j = 0; j + kGroup <= pixels; j += kGroup) {
    look_up_group<T, Entries>(row, j, table, out);
  }
  if (pixels % kGroup != 0) look_up_group<T, Entries>(row, pixels - kGroup, table, out);
}

inline void look_up_halves(const uint8_t* row, size_t pixels, const LevelTable& table,
                           const ValueRow& out) {
  look_up_groups<uint16_t, Halves>(row, pixels, table, out);
}

inline void look_up_floats(const uint8_t* row, size_t pixels, const LevelTable& table,
                           const ValueRow& out) {
  look_up_groups<uint32_t, Floats>(row, pixels, table, out);
}

#else

inline void look_up_halves(const uint8_t* row, size_t pixels, const LevelTable& table,
                           const ValueRow& out) {
  look_up_pixels<uint16_t>(row, pixels, table, out);
}

inline void look_up_floats(const uint8_t* row, size_t pixels, const LevelTable& table,
                           const ValueRow& out) {
  look_up_pixels<uint32_t>(row, pixels, table, out);
}

#endif

}  // namespace

void look_up_row(const uint8_t* row, size_t pixels, const LevelTable* table,
                 const ValueRow* out) noexcept {
  if (out->value_size == 2) return look_up_halves(row, pixels, *table, *out);
  look_up_floats(row, pixels, *table, *out);
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
