#include "headrace/formats/beton_spans.hpp"

#include "headrace/image.hpp"
#include "headrace/images/load.hpp"

namespace headrace {
namespace {

constexpr std::size_t kPictureSize = 13;
constexpr std::size_t kPointerSize = 8;

std::uint16_t load_u16_le(const std::byte* from) noexcept {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(from[0]) |
                                    std::to_integer<unsigned>(from[1]) << 8);
}

// Members of one field, by sample.
class Members {
 public:
  static Result<Members> make(const BetonColumn& column, std::size_t member_size) noexcept {
    if (column.record_size == 0 || !is_inside(column.member_at, member_size, column.record_size)) {
      return Status(Code::invalid_argument, "the member is not inside its record");
    }
    return Members(column);
  }

  // Null when there is no such sample.
  [[nodiscard]] const std::byte* find(std::int64_t sample) const noexcept {
    const auto index = static_cast<std::uint64_t>(sample);  // a negative one becomes too large
    return index < count_ ? first_ + index * record_size_ : nullptr;
  }

 private:
  explicit Members(const BetonColumn& column) noexcept
      : first_(column.records.data() + column.member_at),
        record_size_(column.record_size),
        count_(column.records.size() / column.record_size) {}

  const std::byte* first_;
  std::size_t record_size_;
  std::uint64_t count_;
};

bool is_in_data(const BetonColumn& column, std::uint64_t pointer, std::uint64_t size) noexcept {
  return pointer >= column.data_start && is_inside(pointer, size, column.data_end);
}

bool is_sound(const BetonColumn& column, const PicturePlaces& out, std::size_t i) noexcept {
  const std::uint64_t pixels = std::uint64_t{out.widths[i]} * out.heights[i];
  const bool is_raw = out.modes[i] == static_cast<std::uint8_t>(StoredMode::raw);
  const bool is_jpeg = out.modes[i] == static_cast<std::uint8_t>(StoredMode::jpeg);
  return pixels != 0 && out.sizes[i] != kSizeNotFound &&
         (is_jpeg || (is_raw && out.sizes[i] == pixels * kRgbChannels)) &&
         is_in_data(column, out.pointers[i], out.sizes[i]);
}

}  // namespace

Result<bool> locate_pictures(const BetonColumn& column, const AllocationTable& table, UsualRow row,
                             std::span<const std::int64_t> samples,
                             const PicturePlaces& out) noexcept {
  const auto members = Members::make(column, kPictureSize);
  if (!members.is_ok()) return members.status();
  const std::size_t n = samples.size();
  if (out.pointers.size() != n || out.sizes.size() != n || out.modes.size() != n ||
      out.widths.size() != n || out.heights.size() != n) {
    return Status(Code::invalid_argument, "every array must have one entry for each sample");
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte* member = members.value().find(samples[i]);
    if (member == nullptr) return false;
    out.modes[i] = std::to_integer<std::uint8_t>(member[0]);
    out.widths[i] = load_u16_le(member + 1);
    out.heights[i] = load_u16_le(member + 3);
    out.pointers[i] = load_u64_le(member + 5);
    out.sizes[i] = static_cast<std::uint64_t>(samples[i]) * row.rows_of_sample + row.row_in_sample;
  }
  // The rows to look at first stand where their sizes go: each is read before it is overwritten.
  const Status status = table.find_sizes(out.pointers, out.sizes, out.sizes);
  if (!status.is_ok()) return status;
  for (std::size_t i = 0; i < n; ++i) {
    if (!is_sound(column, out, i)) return false;
  }
  return true;
}

Result<bool> locate_arrays(const BetonColumn& column, std::uint64_t size,
                           std::span<const std::int64_t> samples,
                           std::span<std::uint64_t> pointers) noexcept {
  const auto members = Members::make(column, kPointerSize);
  if (!members.is_ok()) return members.status();
  if (pointers.size() != samples.size()) {
    return Status(Code::invalid_argument, "there must be one pointer for each sample");
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const std::byte* member = members.value().find(samples[i]);
    if (member == nullptr) return false;
    pointers[i] = size == 0 ? 0 : load_u64_le(member);
    if (size != 0 && !is_in_data(column, pointers[i], size)) return false;
  }
  return true;
}

}  // namespace headrace
