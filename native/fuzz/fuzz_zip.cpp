// A hostile zip: what is found lies inside it, names stay inside a folder, and groups fit the
// files.
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz.hpp"
#include "headrace/bytes.hpp"
#include "headrace/formats/zip_scan.hpp"
#include "member_files.hpp"

namespace headrace::fuzz {
namespace {

void check(ByteSpan data) {
  ZipFiles files;
  if (!scan_zip(data, files).is_ok()) return;
  check_files(data, files.names, files.offsets, files.sizes);
  if (files.full_sizes.size() != files.sizes.size()) std::abort();
}

}  // namespace

// The corpus has some.
std::vector<Input> seed_inputs() { return {Input(22, 0)}; }

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
