// Where the values of a MessagePack stream are, found in one pass that builds no objects.
//
// A stream is one value after the other. If the first is a map whose first key is a text, every
// value must be a map with the same text keys, in any order, and each key is a column; otherwise
// the stream has one column, the values themselves.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::size_t kMaxMsgpackDepth = 512;
inline constexpr std::size_t kMaxMsgpackColumns = 1024;

// Bit numbers of what a column holds.
enum class MsgpackKind : std::uint8_t {
  nil,
  boolean,
  integer,      // fits into 64 bits with a sign
  big_integer,  // only without one
  floating,
  text,
  bytes,
  container,             // an array or map
  container_with_bytes,  // the same, with bytes somewhere inside
  time,
};
inline constexpr std::size_t kMsgpackKinds = 10;
inline constexpr std::int64_t kNoSample = -1;

// Failures name the byte at which they were noticed; `samples()` is then the number of the sample.
class MsgpackScanner {
 public:
  // Goes on to the first sample that begins at or behind `until`. The file is the same each time.
  [[nodiscard]] Status scan(ByteSpan file, std::uint64_t until) noexcept;

  // Of columns that hold nothing but texts, or nothing but bytes: what is inside of the values.
  void strip_heads() noexcept;

  [[nodiscard]] std::uint64_t position() const noexcept { return position_; }
  [[nodiscard]] std::size_t samples() const noexcept { return samples_; }
  [[nodiscard]] bool is_maps() const noexcept { return is_maps_; }
  // Keys of the maps as they are in the file; for values that are no maps one that is empty.
  [[nodiscard]] const std::vector<std::string>& columns() const noexcept { return columns_; }
  // Samples x columns.
  [[nodiscard]] const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }
  [[nodiscard]] const std::vector<std::uint64_t>& sizes() const noexcept { return sizes_; }
  // For each column and kind the first sample with it, or kNoSample.
  using Firsts = std::array<std::int64_t, kMsgpackKinds>;
  [[nodiscard]] const std::vector<Firsts>& firsts() const noexcept { return firsts_; }

 private:
  struct Value;
  [[nodiscard]] Status start(ByteSpan file);
  [[nodiscard]] Status scan_map(ByteSpan file);
  [[nodiscard]] Status scan_value(ByteSpan file, std::uint64_t at, std::size_t column,
                                  std::uint64_t& end);
  [[nodiscard]] Status find_column(std::string_view key, std::uint64_t at, std::size_t hint,
                                   std::size_t& column);
  void add_column(std::string_view key);
  void make_room(std::size_t least, std::uint64_t position, std::uint64_t size);

  std::uint64_t position_ = 0;
  std::size_t samples_ = 0;
  bool is_started_ = false;
  bool is_maps_ = false;
  std::vector<std::string> columns_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::vector<std::uint64_t> offsets_, sizes_;
  std::vector<std::uint8_t> heads_;
  std::vector<Firsts> firsts_;
  std::vector<std::size_t> seen_;  // by column: one more than the last sample that has it
};

// Numbers of encoded values; the offset of a failure is the position of the value that is none.
[[nodiscard]] Status decode_msgpack_ints(ByteSpan region, std::span<const std::uint64_t> offsets,
                                         std::span<const std::uint64_t> sizes,
                                         std::span<std::int64_t> out) noexcept;
// The same for floating point numbers; integers become such.
[[nodiscard]] Status decode_msgpack_floats(ByteSpan region, std::span<const std::uint64_t> offsets,
                                           std::span<const std::uint64_t> sizes,
                                           std::span<double> out) noexcept;

}  // namespace headrace
