#include <algorithm>
#include <cstring>
#include <new>

#include "core/jpeg/scan.hpp"
#include "headrace/checksum.hpp"
#include "headrace/jpeg/tile_index.hpp"

namespace headrace {
namespace {

constexpr char kMagic[4] = {'P', 'J', 'T', 1};
constexpr std::size_t kHeaderSize = 28;
constexpr std::size_t kChecksumSize = 4;
constexpr std::size_t kStreams = 4;
constexpr unsigned kEscape = 20;  // ones
constexpr unsigned kMaxParameter = 20;

Status broken(std::string_view what) noexcept {
  return Status(Code::corrupt, Detail("tile index: ") << what);
}

std::uint32_t load_u32(ByteSpan data, std::size_t at) noexcept {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint32_t>(data[at + i]);
  }
  return value;
}

std::uint32_t load_u16(ByteSpan data, std::size_t at) noexcept {
  return load_u32(data, at) & 0xFFFF;
}

void append(std::vector<std::byte>& out, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) out.push_back(static_cast<std::byte>(value >> 8 * i));
}

std::uint32_t to_unsigned(std::int64_t difference) noexcept {
  return static_cast<std::uint32_t>(difference < 0 ? -2 * difference - 1 : 2 * difference);
}

std::int64_t to_signed(std::uint32_t number) noexcept {
  const std::int64_t half = number >> 1;
  return (number & 1) != 0 ? -half - 1 : half;
}

std::int64_t length_of(const TileIndex& tile_index, std::size_t entry) noexcept {
  return std::int64_t{tile_index.positions[entry + 1]} - tile_index.positions[entry];
}

// Calls visit(stream, number) for all numbers in order.
template <typename Visit>
void visit_numbers(const TileIndex& tile_index, const Visit& visit) {
  const std::size_t columns = tile_index.info.columns;
  for (std::size_t i = 0; i < tile_index.predictors.size(); ++i) {
    const bool has_like = i > 0;
    const std::size_t like = i >= columns ? i - columns : i - 1;
    visit(0, to_unsigned(length_of(tile_index, i) - (has_like ? length_of(tile_index, like) : 0)));
    for (std::size_t c = 0; c < tile_index.info.components; ++c) {
      visit(c + 1, to_unsigned(tile_index.predictors[i][c] -
                               (has_like ? tile_index.predictors[like][c] : 0)));
    }
  }
}

using Parameters = std::array<std::uint8_t, kStreams>;

Parameters best_parameters(const TileIndex& tile_index) noexcept {
  std::array<std::array<std::uint64_t, kMaxParameter + 1>, kStreams> bits{};
  visit_numbers(tile_index, [&bits](std::size_t stream, std::uint32_t number) {
    for (unsigned p = 0; p <= kMaxParameter; ++p) {
      bits[stream][p] += number >> p < kEscape ? (number >> p) + 1 + p : kEscape + 32;
    }
  });
  Parameters best{};
  for (std::size_t s = 0; s < kStreams; ++s) {
    best[s] = static_cast<std::uint8_t>(std::min_element(bits[s].begin(), bits[s].end()) -
                                        bits[s].begin());
  }
  return best;
}

class BitWriter {
 public:
  explicit BitWriter(std::vector<std::byte>& out) noexcept : out_(out) {}

  void put(std::uint64_t bits, unsigned count) {
    bits_ |= bits << count_;
    count_ += count;
    for (; count_ >= 8; count_ -= 8, bits_ >>= 8) out_.push_back(static_cast<std::byte>(bits_));
  }
  void put_number(std::uint32_t number, unsigned parameter) {
    const std::uint32_t ones = number >> parameter;
    if (ones >= kEscape) {
      put((1U << kEscape) - 1, kEscape);
      put(number, 32);
    } else {
      put((1U << ones) - 1, ones + 1);
      put(number & ((1U << parameter) - 1), parameter);
    }
  }
  void finish() { put(0, (8 - count_) % 8); }

 private:
  std::vector<std::byte>& out_;
  std::uint64_t bits_ = 0;
  unsigned count_ = 0;
};

void pack(const TileIndex& tile_index, std::vector<std::byte>& out) {
  const TileIndexInfo& info = tile_index.info;
  out.clear();
  for (const char c : kMagic) out.push_back(static_cast<std::byte>(c));
  append(out, info.jpeg_size, 4);
  append(out, info.jpeg_crc32c, 4);
  append(out, info.width, 2);
  append(out, info.height, 2);
  append(out, info.tile, 2);
  append(out, info.components, 1);
  append(out, info.h << 4 | info.v, 1);
  append(out, info.scan_begin, 4);
  const Parameters parameters = best_parameters(tile_index);
  for (const std::uint8_t parameter : parameters) append(out, parameter, 1);
  BitWriter writer(out);
  visit_numbers(tile_index, [&](std::size_t stream, std::uint32_t number) {
    writer.put_number(number, parameters[stream]);
  });
  writer.finish();
  append(out, crc32c(out), kChecksumSize);
}

// Numbers of a stream that ends where the checksum begins; behind it there may be fewer than eight
// bytes to load at once, then one byte after the other.
class NumberReader {
 public:
  explicit NumberReader(ByteSpan stream) noexcept : stream_(stream) {}

  // A stream that ends too early reads as zeros; see is_over().
  std::uint32_t next(unsigned parameter) noexcept {
    const std::uint64_t bits = peek();
    const auto ones = static_cast<unsigned>(__builtin_ctzll(~bits | 1ULL << kEscape));
    if (ones == kEscape) {
      at_ += kEscape + 32;
      return static_cast<std::uint32_t>(bits >> kEscape);
    }
    at_ += ones + 1 + parameter;
    const std::uint64_t low = bits >> (ones + 1) & ((1ULL << parameter) - 1);
    return static_cast<std::uint32_t>(std::uint64_t{ones} << parameter | low);
  }
  // As many numbers as `next` would give, the n-th with its own parameter; all from one load where
  // they are there in one and none is escaped.
  template <std::size_t kCount>
  void next(const Parameters& parameters, std::array<std::uint32_t, kCount>& numbers) noexcept {
    const std::size_t byte = at_ / 8;
    if (is_inside(byte, 8, stream_.size())) {
      constexpr unsigned kLoaded = 57;  // bits, whatever at_ is
      // Turned round, so that ones are counted in one step.
      std::uint64_t inverse = ~load_u64_le(stream_.data() + byte) >> at_ % 8;
      unsigned used = 0;
      std::uint32_t most_ones = 0;
      for (std::size_t n = 0; n < kCount; ++n) {
        const unsigned parameter = parameters[n];
        const auto ones = static_cast<unsigned>(__builtin_ctzll(inverse | 1ULL << 63));
        const std::uint64_t low = ~(inverse >> ones >> 1) & ((1ULL << parameter) - 1);
        numbers[n] = static_cast<std::uint32_t>(std::uint64_t{ones} << parameter | low);
        inverse = inverse >> (ones & 63) >> 1 >> parameter;
        used += ones + 1 + parameter;
        most_ones = std::max(most_ones, ones);
      }
      if (used <= kLoaded && most_ones < kEscape) {
        at_ += used;
        return;
      }
    }
    for (std::size_t n = 0; n < kCount; ++n) numbers[n] = next(parameters[n]);
  }
  [[nodiscard]] bool is_over() const noexcept { return at_ > stream_.size() * 8; }

 private:
  [[nodiscard]] std::uint64_t peek() const noexcept {
    const std::size_t byte = at_ / 8;
    if (is_inside(byte, 8, stream_.size())) return load_u64_le(stream_.data() + byte) >> at_ % 8;
    std::uint64_t bits = 0;
    for (std::size_t i = 0; byte + i < stream_.size(); ++i) {
      bits |= std::to_integer<std::uint64_t>(stream_[byte + i]) << 8 * i;
    }
    return bits >> at_ % 8;
  }

  ByteSpan stream_;
  std::size_t at_ = 0;  // bits
};

Parameters parameters_of(ByteSpan packed) noexcept {
  Parameters parameters{};
  for (std::size_t s = 0; s < kStreams; ++s) {
    parameters[s] = std::to_integer<std::uint8_t>(packed[kHeaderSize - kStreams + s]);
  }
  return parameters;
}

bool is_sensible(const TileIndexInfo& info) noexcept {
  const bool is_colour = info.components == 3;
  return info.width > 0 && info.height > 0 && info.tile > 0 &&
         (is_colour || (info.components == 1 && info.h == 1 && info.v == 1)) && info.h >= 1 &&
         info.h <= 2 && info.v >= 1 && info.v <= 2 && info.jpeg_size <= kMaxIndexedJpegSize &&
         info.scan_begin <= info.jpeg_size;
}

// One row and tile after the other; what they are compared to is in `out` already.
template <std::size_t kComponents>
Status unpack(NumberReader& reader, const Parameters& parameters, TileIndex& out) noexcept {
  const TileIndexInfo& info = out.info;
  const std::uint64_t end = std::uint64_t{info.jpeg_size} * 8;
  std::uint64_t position = std::uint64_t{info.scan_begin} * 8;
  out.positions[0] = static_cast<std::uint32_t>(position);
  std::array<std::uint32_t, 1 + kComponents> numbers{};
  for (std::size_t i = 0; i < out.predictors.size(); ++i) {
    reader.next(parameters, numbers);
    const std::size_t like = i >= info.columns ? i - info.columns : i - 1;
    const std::int64_t length = (i > 0 ? length_of(out, like) : 0) + to_signed(numbers[0]);
    if (length <= 0 || static_cast<std::uint64_t>(length) > end - position) {
      return broken("a position is outside of the JPEG");
    }
    position += static_cast<std::uint64_t>(length);
    out.positions[i + 1] = static_cast<std::uint32_t>(position);
    std::array<std::int16_t, 3> predictors{};
    for (std::size_t c = 0; c < kComponents; ++c) {
      const std::int64_t value = (i > 0 ? out.predictors[like][c] : 0) + to_signed(numbers[c + 1]);
      if (value < -kMaxPredictor || value > kMaxPredictor)
        return broken("a predictor is too large");
      predictors[c] = static_cast<std::int16_t>(value);
    }
    out.predictors[i] = predictors;
  }
  return reader.is_over() ? broken("it ends too early") : Status();
}

}  // namespace

Status pack_tile_index(const TileIndex& tile_index, std::vector<std::byte>& out) noexcept {
  if (tile_index.rows != tile_index.info.rows ||
      tile_index.positions.size() != tile_index.predictors.size() + 1 ||
      tile_index.predictors.size() != tile_index.info.rows * tile_index.info.columns) {
    return Status(Code::invalid_argument, "the tile index of only a part of the JPEG");
  }
  try {
    pack(tile_index, out);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the tile index");
  }
  return {};
}

Result<TileIndexInfo> read_tile_index_info(ByteSpan packed) noexcept {
  if (packed.size() < kHeaderSize + kChecksumSize) {
    return Status(Code::truncated, "tile index: fewer bytes than its header has");
  }
  if (std::memcmp(packed.data(), kMagic, sizeof kMagic - 1) != 0) {
    return broken("does not begin with PJT");
  }
  if (std::to_integer<char>(packed[3]) != kMagic[3]) {
    return Status(Code::corrupt, Detail("tile index: version ")
                                     << std::to_integer<std::uint64_t>(packed[3])
                                     << " is not known, only 1");
  }
  const std::uint32_t sampling = std::to_integer<std::uint32_t>(packed[19]);
  TileIndexInfo info{.jpeg_size = load_u32(packed, 4),
                     .jpeg_crc32c = load_u32(packed, 8),
                     .width = load_u16(packed, 12),
                     .height = load_u16(packed, 14),
                     .tile = load_u16(packed, 16),
                     .components = std::to_integer<std::uint32_t>(packed[18]),
                     .h = sampling >> 4,
                     .v = sampling & 15,
                     .scan_begin = load_u32(packed, 20)};
  if (!is_sensible(info)) return broken("its header makes no sense");
  const std::size_t mcu_columns = (info.width + 8 * info.h - 1) / (8 * info.h);
  info.rows = (info.height + 8 * info.v - 1) / (8 * info.v);
  info.columns = (mcu_columns + info.tile - 1) / info.tile;
  return info;
}

Status unpack_tile_index(ByteSpan packed, std::size_t rows, TileIndex& out) noexcept {
  const auto info = read_tile_index_info(packed);
  if (!info.is_ok()) return info.status();
  const std::size_t body_size = packed.size() - kChecksumSize;
  if (crc32c(packed.first(body_size)) != load_u32(packed, body_size)) {
    return broken("its checksum does not match");
  }
  const Parameters parameters = parameters_of(packed);
  if (std::any_of(parameters.begin(), parameters.end(),
                  [](std::uint8_t p) { return p > kMaxParameter; })) {
    return broken("a Rice parameter is too large");
  }
  out.info = info.value();
  out.rows = std::min(rows, out.info.rows);
  const std::size_t entries = out.rows * out.info.columns;
  const ByteSpan stream = packed.subspan(kHeaderSize, body_size - kHeaderSize);
  // Every number takes a bit: no memory is asked for that the tile index does not stand for.
  if (entries > stream.size() * 8 / (1 + out.info.components)) return broken("it ends too early");
  try {
    out.positions.resize(entries + 1);
    out.predictors.resize(entries);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the tile index");
  }
  NumberReader reader(stream);
  return out.info.components == 1 ? unpack<1>(reader, parameters, out)
                                  : unpack<3>(reader, parameters, out);
}

}  // namespace headrace
