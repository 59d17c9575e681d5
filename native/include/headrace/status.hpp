// Failure as a value: what went wrong, at which byte or row, and a short sentence about it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace headrace {

enum class Code : std::uint8_t {
  ok,
  invalid_argument,  // the caller asked for something that makes no sense
  out_of_bounds,     // a span lies outside the region it refers to
  truncated,         // the data end too early
  corrupt,           // the data contradict themselves or the caller's expectation
  wrong_checksum,    // the bytes are not those that the checksum was made of
  unsupported,       // valid, but nothing we can process
  too_large,         // beyond a limit of the format or of this library
  out_of_memory,
  io_error,  // the operating system could not read
};

[[nodiscard]] std::string_view code_name(Code code) noexcept;

// Written as 0x and eight digits.
struct Hex32 {
  std::uint32_t value;
};

// Sentence of bounded length that never allocates; what does not fit is cut off.
class Detail {
 public:
  Detail() noexcept { text_[0] = '\0'; }
  explicit Detail(std::string_view text) noexcept : Detail() { *this << text; }

  Detail& operator<<(std::string_view text) noexcept;
  Detail& operator<<(std::uint64_t number) noexcept;
  Detail& operator<<(Hex32 number) noexcept;

  [[nodiscard]] std::string_view view() const noexcept { return {text_, size_}; }

 private:
  static constexpr std::size_t kCapacity = 223;
  std::size_t size_ = 0;
  char text_[kCapacity + 1];
};

class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Code code, const Detail& detail, std::int64_t offset = -1) noexcept
      : code_(code), offset_(offset), detail_(detail) {}
  Status(Code code, std::string_view detail, std::int64_t offset = -1) noexcept
      : Status(code, Detail(detail), offset) {}

  [[nodiscard]] bool is_ok() const noexcept { return code_ == Code::ok; }
  [[nodiscard]] Code code() const noexcept { return code_; }
  // Byte or row the failure belongs to, -1 where there is none; each function says which.
  [[nodiscard]] std::int64_t offset() const noexcept { return offset_; }
  [[nodiscard]] std::string_view detail() const noexcept { return detail_.view(); }

 private:
  Code code_ = Code::ok;
  std::int64_t offset_ = -1;
  Detail detail_;
};

// Either a value or the status that says why there is none.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) noexcept : value_(std::move(value)) {}
  Result(const Status& status) noexcept : status_(status) {}

  [[nodiscard]] bool is_ok() const noexcept { return value_.has_value(); }
  [[nodiscard]] const Status& status() const noexcept { return status_; }
  // Only when is_ok().
  [[nodiscard]] T& value() noexcept { return *value_; }
  [[nodiscard]] const T& value() const noexcept { return *value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace headrace
