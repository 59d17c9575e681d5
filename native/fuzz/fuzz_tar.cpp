// A hostile tar: what is found lies inside it, names stay inside a folder, and groups fit the
// files.
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz.hpp"
#include "headrace/bytes.hpp"
#include "headrace/formats/tar.hpp"
#include "headrace/formats/tar_scan.hpp"
#include "member_files.hpp"

namespace headrace::fuzz {
namespace {

void check(ByteSpan data) {
  TarScanner scanner(data, true);
  if (!scanner.advance(1 << 20).is_ok()) return;
  if (scanner.checksums().size() != scanner.offsets().size()) std::abort();
  check_files(data, scanner.names(), scanner.offsets(), scanner.sizes());
}

void add(Input& input, const std::string& name, const std::string& content) {
  TarPart part(false);
  const Status status =
      part.add({name, false, 0644, 0, 0, 0, 0}, std::as_bytes(std::span(content)));
  if (!status.is_ok()) std::abort();
  for (const std::byte byte : part.bytes()) input.push_back(std::to_integer<std::uint8_t>(byte));
}

}  // namespace

std::vector<Input> seed_inputs() {
  Input plain, deep;
  for (const char* name : {"a/1.jpg", "a/1.cls", "a/2.jpg", "a/2.cls"}) add(plain, name, "12");
  add(deep, std::string(120, 'd') + "/" + std::string(130, 'f') + ".txt", "x");
  for (Input* input : {&plain, &deep}) input->insert(input->end(), 1024, 0);
  return {plain, deep};
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
