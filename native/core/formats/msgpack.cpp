#include "headrace/formats/msgpack.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace headrace {
namespace {

constexpr std::size_t kMaxMsgpackKeySize = 4096;
constexpr std::int8_t kMsgpackTimestamp = -1;

struct MsgpackToken {
  MsgpackKind kind = MsgpackKind::nil;
  std::uint8_t head = 1;       // bytes before what is inside
  std::uint64_t size = 0;      // bytes inside
  std::uint64_t children = 0;  // values inside
};

std::uint64_t load_msgpack(const std::byte* from, std::size_t size) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < size; ++i) value = value << 8U | std::to_integer<unsigned>(from[i]);
  return value;
}

Status msgpack_cut_short(std::uint64_t at) noexcept {
  return {Code::truncated, "the file ends in the middle of a value", static_cast<std::int64_t>(at)};
}

Status msgpack_failure(Code code, std::string_view detail, std::uint64_t at) noexcept {
  return {code, detail, static_cast<std::int64_t>(at)};
}

// What follows the first byte: a number of `width` bytes that counts something.
struct MsgpackCount {
  std::uint64_t count = 0;
  bool is_there = false;
};

MsgpackCount read_msgpack_count(ByteSpan file, std::uint64_t at, std::size_t width) noexcept {
  if (!is_inside(at + 1, width, file.size())) return {};
  return {load_msgpack(file.data() + at + 1, width), true};
}

MsgpackToken msgpack_scalar(MsgpackKind kind, std::uint64_t size) noexcept {
  return {.kind = kind, .head = 1, .size = size, .children = 0};
}

Status read_msgpack_extension(ByteSpan file, std::uint64_t at, std::uint64_t size,
                              std::uint8_t head, MsgpackToken& token) noexcept {
  if (!is_inside(at, head, file.size())) return msgpack_cut_short(at);
  const auto type = static_cast<std::int8_t>(file[at + head - 1]);
  if (type != kMsgpackTimestamp || (size != 4 && size != 8 && size != 12)) {
    return msgpack_failure(
        Code::unsupported,
        "an extension type; only timestamps are read. Store it as bytes or a map", at);
  }
  token = {.kind = MsgpackKind::time, .head = head, .size = size, .children = 0};
  return {};
}

// Tags from 0xc4 to 0xc9 and 0xd9 to 0xdf: a count of 1, 2 or 4 bytes follows.
Status read_msgpack_counted(ByteSpan file, std::uint64_t at, unsigned tag,
                            MsgpackToken& token) noexcept {
  std::size_t width = 0;
  MsgpackKind kind = MsgpackKind::bytes;
  if (tag <= 0xc9) {
    width = std::size_t{1} << ((tag - 0xc4) % 3);
  } else if (tag <= 0xdb) {
    width = std::size_t{1} << (tag - 0xd9);
    kind = MsgpackKind::text;
  } else {
    width = tag % 2 == 0 ? 2 : 4;
    kind = MsgpackKind::container;
  }
  const MsgpackCount counted = read_msgpack_count(file, at, width);
  if (!counted.is_there) return msgpack_cut_short(at);
  const auto head = static_cast<std::uint8_t>(1 + width);
  if (tag >= 0xc7 && tag <= 0xc9) {
    return read_msgpack_extension(file, at, counted.count, static_cast<std::uint8_t>(head + 1),
                                  token);
  }
  token = {.kind = kind, .head = head, .size = counted.count, .children = 0};
  if (kind == MsgpackKind::container) {
    token.size = 0;
    token.children = tag >= 0xde ? 2 * counted.count : counted.count;
  }
  return {};
}

// Integers and floating point numbers behind a tag, 0xca to 0xd3.
Status read_msgpack_number(ByteSpan file, std::uint64_t at, unsigned tag,
                           MsgpackToken& token) noexcept {
  if (tag <= 0xcb) {
    token = msgpack_scalar(MsgpackKind::floating, tag == 0xca ? 4 : 8);
    return {};
  }
  const bool has_sign = tag >= 0xd0;
  token = msgpack_scalar(MsgpackKind::integer, std::size_t{1} << (tag - (has_sign ? 0xd0 : 0xcc)));
  if (tag == 0xcf) {
    if (!is_inside(at + 1, 8, file.size())) return msgpack_cut_short(at);
    if ((std::to_integer<unsigned>(file[at + 1]) & 0x80U) != 0) {
      token.kind = MsgpackKind::big_integer;
    }
  }
  return {};
}

Status read_msgpack_tagged(ByteSpan file, std::uint64_t at, unsigned tag,
                           MsgpackToken& token) noexcept {
  switch (tag) {
    case 0xc0:
      token = msgpack_scalar(MsgpackKind::nil, 0);
      return {};
    case 0xc1:
      return msgpack_failure(Code::corrupt, "the byte 0xc1, with which no value begins", at);
    case 0xc2:
    case 0xc3:
      token = msgpack_scalar(MsgpackKind::boolean, 0);
      return {};
    default:
      break;
  }
  if (tag >= 0xca && tag <= 0xd3) return read_msgpack_number(file, at, tag, token);
  if (tag >= 0xd4 && tag <= 0xd8) {
    return read_msgpack_extension(file, at, std::uint64_t{1} << (tag - 0xd4), 2, token);
  }
  return read_msgpack_counted(file, at, tag, token);
}

// What the first byte alone says, or nothing.
constexpr MsgpackToken msgpack_token_of(unsigned tag) noexcept {
  if (tag < 0x80 || tag >= 0xe0) return {.kind = MsgpackKind::integer};
  if (tag < 0x90) return {.kind = MsgpackKind::container, .children = 2 * (tag & 0x0fU)};
  if (tag < 0xa0) return {.kind = MsgpackKind::container, .children = tag & 0x0fU};
  if (tag < 0xc0) return {.kind = MsgpackKind::text, .size = tag & 0x1fU};
  if (tag == 0xca || tag == 0xcb) {
    return {.kind = MsgpackKind::floating, .size = tag == 0xca ? 4U : 8U};
  }
  return {.kind = MsgpackKind::nil, .head = 0};
}

constexpr auto kMsgpackTokens = [] {
  std::array<MsgpackToken, 256> tokens{};
  for (unsigned tag = 0; tag < tokens.size(); ++tag) tokens[tag] = msgpack_token_of(tag);
  return tokens;
}();

// The head of a value; what it says is inside of the file.
inline Status read_msgpack_token(ByteSpan file, std::uint64_t at, MsgpackToken& token) noexcept {
  if (at >= file.size()) return msgpack_cut_short(at);
  const auto tag = std::to_integer<unsigned>(file[at]);
  token = kMsgpackTokens[tag];
  if (token.head == 0) {
    if (Status status = read_msgpack_tagged(file, at, tag, token); !status.is_ok()) return status;
  }
  const std::uint64_t inside = at + token.head;  // a child has at least one byte
  if (!is_inside(inside, token.size, file.size()) ||
      !is_inside(inside, token.children, file.size())) {
    return msgpack_cut_short(at);
  }
  return {};
}

}  // namespace

struct MsgpackScanner::Value {
  std::uint64_t end = 0;
  std::uint8_t head = 0;
  MsgpackKind kind = MsgpackKind::nil;

  [[nodiscard]] Status skip(ByteSpan file, std::uint64_t at) noexcept;
};

Status MsgpackScanner::Value::skip(ByteSpan file, std::uint64_t at) noexcept {
  std::array<std::uint64_t, kMaxMsgpackDepth> left;  // values that are still to come, by level
  std::size_t depth = 0;
  MsgpackToken token;
  if (Status status = read_msgpack_token(file, at, token); !status.is_ok()) return status;
  head = token.head;
  kind = token.kind;
  for (;;) {
    at += token.head + token.size;
    if (token.children > 0) {
      if (depth == kMaxMsgpackDepth) {
        return {Code::too_large,
                Detail("arrays and maps inside each other, more than ")
                    << kMaxMsgpackDepth << " levels of them",
                static_cast<std::int64_t>(at)};
      }
      left[depth++] = token.children;
    } else {
      while (depth > 0 && --left[depth - 1] == 0) --depth;
    }
    if (depth == 0) break;
    if (Status status = read_msgpack_token(file, at, token); !status.is_ok()) return status;
    if (token.kind == MsgpackKind::bytes) kind = MsgpackKind::container_with_bytes;
    if (token.kind == MsgpackKind::time) {
      return msgpack_failure(Code::unsupported,
                             "a timestamp inside of an array or map, which is not read", at);
    }
  }
  end = at;
  return {};
}

void MsgpackScanner::add_column(std::string_view key) {
  numbers_.emplace(key, columns_.size());
  columns_.emplace_back(key);
  Firsts none;
  none.fill(kNoSample);
  firsts_.push_back(none);
  seen_.push_back(0);
}

Status MsgpackScanner::start(ByteSpan file) {
  MsgpackToken map;
  MsgpackToken key;
  if (Status status = read_msgpack_token(file, 0, map); !status.is_ok()) return status;
  const auto tag = std::to_integer<unsigned>(file[0]);
  const bool is_map = (tag & 0xf0U) == 0x80 || tag == 0xde || tag == 0xdf;
  if (is_map && map.children > 0) {
    if (Status status = read_msgpack_token(file, map.head, key); !status.is_ok()) return status;
    is_maps_ = key.kind == MsgpackKind::text;
  }
  if (!is_maps_) add_column("");
  is_started_ = true;
  return {};
}

Status MsgpackScanner::find_column(std::string_view key, std::uint64_t at, std::size_t hint,
                                   std::size_t& column) {
  if (hint < columns_.size() && columns_[hint] == key) {
    column = hint;
  } else if (const auto found = numbers_.find(std::string(key)); found != numbers_.end()) {
    column = found->second;
  } else if (samples_ > 0) {
    return {Code::corrupt, Detail("it has the key '") << key << "', which the first sample has not",
            static_cast<std::int64_t>(at)};
  } else if (columns_.size() == kMaxMsgpackColumns) {
    return {Code::too_large, Detail("a map of more than ") << kMaxMsgpackColumns << " keys",
            static_cast<std::int64_t>(at)};
  } else {
    column = columns_.size();
    add_column(key);
  }
  if (seen_[column] == samples_ + 1) {
    return {Code::corrupt, Detail("it has the key '") << key << "' twice",
            static_cast<std::int64_t>(at)};
  }
  seen_[column] = samples_ + 1;
  return {};
}

// As many values are expected as there would be if the rest were like the beginning: memory that is
// asked for again and again costs more than the search.
void MsgpackScanner::make_room(std::size_t least, std::uint64_t position, std::uint64_t size) {
  const double share = static_cast<double>(position + 1) / static_cast<double>(size + 1);
  const auto expected = static_cast<std::size_t>(1.02 * static_cast<double>(least) / share);
  const std::size_t room = std::clamp(expected, 2 * least + 1024, 64 * least + 1024);
  offsets_.reserve(room);
  sizes_.reserve(room);
  heads_.reserve(room);
}

Status MsgpackScanner::scan_value(ByteSpan file, std::uint64_t at, std::size_t column,
                                  std::uint64_t& end) {
  Value value;
  if (Status status = value.skip(file, at); !status.is_ok()) return status;
  const std::size_t row = samples_ * columns_.size();
  if (samples_ == 0 || offsets_.size() == row) {  // of the first sample the columns come one by one
    const std::size_t end_of_row = row + columns_.size();
    if (samples_ > 0 && end_of_row > offsets_.capacity()) make_room(end_of_row, at, file.size());
    offsets_.resize(end_of_row);
    sizes_.resize(end_of_row);
    heads_.resize(end_of_row);
  }
  offsets_[row + column] = at;
  sizes_[row + column] = value.end - at;
  heads_[row + column] = value.head;
  std::int64_t& first = firsts_[column][static_cast<std::size_t>(value.kind)];
  if (first == kNoSample) first = static_cast<std::int64_t>(samples_);
  end = value.end;
  return {};
}

Status MsgpackScanner::scan_map(ByteSpan file) {
  MsgpackToken map;
  const std::uint64_t begin = position_;
  if (Status status = read_msgpack_token(file, begin, map); !status.is_ok()) return status;
  const auto tag = std::to_integer<unsigned>(file[begin]);
  if ((tag & 0xf0U) != 0x80 && tag != 0xde && tag != 0xdf) {
    return msgpack_failure(Code::corrupt, "it is no map, and the first sample is one", begin);
  }
  std::uint64_t at = begin + map.head;
  const std::uint64_t count = map.children / 2;
  for (std::uint64_t i = 0; i < count; ++i) {
    MsgpackToken key;
    if (Status status = read_msgpack_token(file, at, key); !status.is_ok()) return status;
    if (key.kind != MsgpackKind::text || key.size > kMaxMsgpackKeySize) {
      return msgpack_failure(Code::unsupported, "a key that is no text, or a very long one", at);
    }
    const std::string_view name(reinterpret_cast<const char*>(file.data() + at + key.head),
                                key.size);
    std::size_t column = 0;
    if (Status status = find_column(name, at, i, column); !status.is_ok()) return status;
    if (Status status = scan_value(file, at + key.head + key.size, column, at); !status.is_ok()) {
      return status;
    }
  }
  for (std::size_t i = 0; count < columns_.size() && i < columns_.size(); ++i) {
    if (seen_[i] != samples_ + 1) {
      return {Code::corrupt, Detail("it lacks the key '") << columns_[i] << "'",
              static_cast<std::int64_t>(begin)};
    }
  }
  position_ = at;
  return {};
}

Status MsgpackScanner::scan(ByteSpan file, std::uint64_t until) noexcept {
  try {
    if (!is_started_ && !file.empty()) {
      if (Status status = start(file); !status.is_ok()) return status;
    }
    while (position_ < file.size() && position_ < until) {
      const Status status = is_maps_ ? scan_map(file) : scan_value(file, position_, 0, position_);
      if (!status.is_ok()) return status;
      ++samples_;
    }
    return {};
  } catch (...) {
    return {Code::out_of_memory, "no memory for the places of all samples"};
  }
}

void MsgpackScanner::strip_heads() noexcept {
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t kinds = 0;
    for (const std::int64_t first : firsts_[column]) kinds += first != kNoSample ? 1 : 0;
    const Firsts& first = firsts_[column];
    const bool is_plain = first[static_cast<std::size_t>(MsgpackKind::text)] != kNoSample ||
                          first[static_cast<std::size_t>(MsgpackKind::bytes)] != kNoSample;
    if (kinds != 1 || !is_plain) continue;
    for (std::size_t i = column; i < heads_.size(); i += columns_.size()) {
      offsets_[i] += heads_[i];
      sizes_[i] -= heads_[i];
      heads_[i] = 0;
    }
  }
}

namespace {

// An integer, or true or false, that fits into 64 bits with a sign.
bool decode_msgpack_int(ByteSpan value, std::int64_t& out) noexcept {
  if (value.empty()) return false;
  const auto tag = std::to_integer<unsigned>(value[0]);
  if (value.size() == 1) {
    if (tag < 0x80 || tag >= 0xe0) {
      out = static_cast<std::int8_t>(tag);
      return true;
    }
    out = tag == 0xc3 ? 1 : 0;
    return tag == 0xc2 || tag == 0xc3;
  }
  const std::size_t width = value.size() - 1;
  const bool has_sign = tag >= 0xd0 && tag <= 0xd3;
  if (!has_sign && (tag < 0xcc || tag > 0xcf)) return false;
  if (width != std::size_t{1} << (tag - (has_sign ? 0xd0 : 0xcc))) return false;
  const std::uint64_t number = load_msgpack(value.data() + 1, width);
  const std::size_t spare = 64 - 8 * width;
  if (has_sign) {
    out = static_cast<std::int64_t>(number << spare) >> spare;
    return true;
  }
  out = static_cast<std::int64_t>(number);
  return out >= 0;
}

bool decode_msgpack_float(ByteSpan value, double& out) noexcept {
  const unsigned tag = value.empty() ? 0 : std::to_integer<unsigned>(value[0]);
  if (tag == 0xca && value.size() == 5) {
    out = std::bit_cast<float>(static_cast<std::uint32_t>(load_msgpack(value.data() + 1, 4)));
    return true;
  }
  if (tag == 0xcb && value.size() == 9) {
    out = std::bit_cast<double>(load_msgpack(value.data() + 1, 8));
    return true;
  }
  std::int64_t number = 0;
  if (!decode_msgpack_int(value, number)) return false;
  out = static_cast<double>(number);
  return true;
}

template <typename T>
Status decode_msgpack_numbers(ByteSpan region, std::span<const std::uint64_t> offsets,
                              std::span<const std::uint64_t> sizes, std::span<T> out,
                              bool (*decode)(ByteSpan, T&) noexcept) noexcept {
  if (offsets.size() != out.size() || sizes.size() != out.size()) {
    return {Code::invalid_argument, "as many offsets, sizes and outputs are needed"};
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!is_inside(offsets[i], sizes[i], region.size())) {
      return {Code::out_of_bounds, "a value lies outside", static_cast<std::int64_t>(i)};
    }
    if (!decode(region.subspan(offsets[i], sizes[i]), out[i])) {
      return {Code::corrupt, "it is no number of this kind", static_cast<std::int64_t>(i)};
    }
  }
  return {};
}

}  // namespace

Status decode_msgpack_ints(ByteSpan region, std::span<const std::uint64_t> offsets,
                           std::span<const std::uint64_t> sizes,
                           std::span<std::int64_t> out) noexcept {
  return decode_msgpack_numbers(region, offsets, sizes, out, decode_msgpack_int);
}

Status decode_msgpack_floats(ByteSpan region, std::span<const std::uint64_t> offsets,
                             std::span<const std::uint64_t> sizes, std::span<double> out) noexcept {
  return decode_msgpack_numbers(region, offsets, sizes, out, decode_msgpack_float);
}

}  // namespace headrace
