// Hostile text as lines of JSON and as CSV: scanned at once and in steps, places ascend and lie in
// the file, and no record but one with quotes has a line end inside.
//   input: delimiter u8 | text
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>

#include "fuzz.hpp"
#include "headrace/formats/text_records.hpp"

namespace headrace::fuzz {
namespace {

void check_places(ByteSpan file, const TextRecords& records, bool is_csv) {
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < records.offsets().size(); ++i) {
    const std::uint64_t at = records.offsets()[i];
    const std::uint64_t size = records.sizes()[i];
    if (at < end || size == 0 || !is_inside(at, size, file.size())) std::abort();
    const std::string_view text(reinterpret_cast<const char*>(file.data()) + at, size);
    const bool has_quote = text.find('"') != std::string_view::npos;
    if (text.find('\n') != std::string_view::npos && !(is_csv && has_quote)) std::abort();
    end = at + size;
  }
}

void check(ByteSpan file, TextRecords records, bool is_csv) {
  TextRecords steps = records;
  const bool is_ok = records.scan(file, UINT64_MAX).is_ok();
  bool is_same = true;
  for (std::uint64_t until = 5; is_same && steps.position() < file.size(); until += 5) {
    is_same = steps.scan(file, until).is_ok();
  }
  if (is_same != is_ok || steps.offsets() != records.offsets()) std::abort();
  check_places(file, records, is_csv);
}

Input input_of(std::string_view text) { return {text.begin(), text.end()}; }

}  // namespace

std::vector<Input> seed_inputs() {
  return {input_of("x{\"a\": 1}\n\n  {}\r\n{}"),
          input_of(",a,b\r\n1,\"x\ny\"\n\n2,\"say \"\"hi\"\"\"\n3,x\"y\n"),
          input_of(";\xef\xbb\xbfq;\"\n\";\"\"\n")};
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace headrace;
  if (size == 0) return 0;
  const ByteSpan file = std::as_bytes(std::span(data, size)).subspan(1);
  fuzz::check(file, TextRecords(), false);
  fuzz::check(file, TextRecords(static_cast<char>(data[0])), true);
  return 0;
}
