// A hostile MessagePack stream: scanned at once and in steps, every place lies in the file, and
// what the scan takes for numbers is decoded.
#include <cstdlib>
#include <span>

#include "fuzz.hpp"
#include "headrace/formats/msgpack.hpp"

namespace headrace::fuzz {
namespace {

void check_numbers(ByteSpan file, const MsgpackScanner& scanner) {
  const std::size_t n = scanner.offsets().size();
  std::vector<std::int64_t> ints(n);
  std::vector<double> floats(n);
  (void)decode_msgpack_ints(file, scanner.offsets(), scanner.sizes(), ints).is_ok();
  (void)decode_msgpack_floats(file, scanner.offsets(), scanner.sizes(), floats).is_ok();
}

void check(ByteSpan file) {
  MsgpackScanner scanner;
  const bool is_ok = scanner.scan(file, UINT64_MAX).is_ok();
  MsgpackScanner steps;
  bool is_same = true;
  for (std::uint64_t until = 3; is_same && steps.position() < file.size(); until += 3) {
    is_same = steps.scan(file, until).is_ok();
  }
  if (is_same != is_ok || steps.samples() != scanner.samples()) std::abort();
  if (!is_ok) return;
  if (scanner.position() != file.size()) std::abort();
  if (scanner.offsets().size() != scanner.samples() * scanner.columns().size()) std::abort();
  scanner.strip_heads();
  for (std::size_t i = 0; i < scanner.offsets().size(); ++i) {
    if (!is_inside(scanner.offsets()[i], scanner.sizes()[i], file.size())) std::abort();
  }
  check_numbers(file, scanner);
}

}  // namespace

std::vector<Input> seed_inputs() {
  Input maps;
  for (std::uint8_t i = 0; i < 3; ++i) {
    const Input map = {0x83, 0xa1, 0x61, 0xcd, 0x01, i,    0xa1, 0x62, 0xc4, 0x02, 0xff, 0xd8,
                       0xa1, 0x63, 0xcb, 0x40, 0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
    maps.insert(maps.end(), map.begin(), map.end());
  }
  Input values = {0xc0, 0xc3, 0xd9, 0x01, 0x78, 0x92, 0x01, 0x81, 0x05, 0xc4, 0x00, 0xd6, 0xff,
                  0,    0,    0,    0,    0xdc, 0,    1,    0xde, 0,    1,    0x01, 0x02};
  return {maps, values, Input(600, 0x91)};
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
