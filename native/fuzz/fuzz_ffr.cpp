// A hostile offset table, against the plain way to check it, and as a file whose samples are
// located.
//   input: first u64 | end u64 | number of samples u8 | table
#include <cstdlib>
#include <span>

#include "fuzz.hpp"
#include "headrace/formats/ffr.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::size_t kHeaderSize = 17;

std::int64_t find_plainly(ByteSpan table, std::uint64_t first, std::uint64_t end) {
  for (std::size_t i = 0; i < table.size() / 8; ++i) {
    const std::uint64_t offset = load_u64_le(table.data() + 8 * i);
    if (offset < first || offset > end) return static_cast<std::int64_t>(i);
    first = offset;
  }
  return kNoBadOffset;
}

// The rest of the input as a whole file.
void check_table(ByteSpan file, std::uint64_t n) {
  FfrTable table;
  if (!table.add(file, n).is_ok()) return;
  std::vector<std::int64_t> indices(n);
  for (std::size_t i = 0; i < n; ++i) indices[i] = static_cast<std::int64_t>(i);
  std::vector<std::uint32_t> files(n), checksums(n);
  std::vector<std::uint64_t> offsets(n), sizes(n);
  if (!table.locate(indices, {files, offsets, sizes, checksums}).is_ok()) std::abort();
  for (std::size_t i = 0; i < n; ++i) {
    if (sizes[i] != kBadFfrSize && !is_inside(offsets[i], sizes[i], file.size())) std::abort();
  }
}

void check(ByteSpan data) {
  if (data.size() < kHeaderSize) return;
  const std::uint64_t first = load_u64_le(data.data());
  const std::uint64_t end = load_u64_le(data.data() + 8);
  const ByteSpan table = data.subspan(kHeaderSize);
  check_table(table, std::to_integer<unsigned>(data[16]));
  auto found = find_bad_ffr_offset(table, first, end);
  const bool is_whole = table.size() % 8 == 0;
  if (found.is_ok() != is_whole) std::abort();
  if (is_whole && found.value() != find_plainly(table, first, end)) std::abort();
}

void append(Input& input, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) input.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

}  // namespace

std::vector<Input> seed_inputs() {
  std::vector<Input> inputs;
  for (const std::uint64_t n : {0U, 1U, 7U, 3000U}) {
    Input input;
    append(input, 12 + 12 * n);
    append(input, 12 + 12 * n + 100 * n);
    input.push_back(static_cast<std::uint8_t>(n));
    for (std::uint64_t i = 0; i < n; ++i) append(input, 12 + 12 * n + 100 * i);
    inputs.push_back(input);
  }
  return inputs;
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
