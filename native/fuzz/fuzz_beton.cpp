// Look-ups and checks on a hostile allocation table.
//   input: data_start u64 | data_end u64 | page size exponent u8 | num_samples u64 | table
#include <cstdlib>
#include <span>

#include "fuzz.hpp"
#include "headrace/formats/beton.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::size_t kHeaderSize = 25;
constexpr std::size_t kLimit = 50;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_look_ups(const AllocationTable& table) {
  std::vector<std::uint64_t> pointers;
  std::vector<std::uint64_t> guesses;
  bool has_absurd_size = false;
  for (std::size_t i = 0; i < table.rows(); ++i) {
    const TableRow row = table.row(i);
    has_absurd_size |= row.size == kSizeNotFound;
    pointers.push_back(row.ptr);
    guesses.push_back(i % 2 == 0 ? i : row.size);
  }
  std::vector<std::uint64_t> sizes(pointers.size());
  require(table.find_sizes(pointers, guesses, sizes).is_ok());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    require(sizes[i] != 0);
    // A row that claims the size "not found" is as good as none.
    require(table.row(i).size == 0 || has_absurd_size || sizes[i] != kSizeNotFound);
  }
}

void check_problems(const AllocationTable& table, const TableLimits& limits) {
  const auto problems = table.check(limits, kLimit);
  require(problems.is_ok() && problems.value().size() <= kLimit);
  for (const TableProblem& problem : problems.value()) {
    require(problem.row < table.rows());
    require(problem.other_row == kNoRow || problem.other_row < table.rows());
  }
}

void check(ByteSpan data) {
  if (data.size() < kHeaderSize) return;
  const TableLimits limits{
      .data_start = load_u64_le(data.data()),
      .data_end = load_u64_le(data.data() + 8),
      .page_size = std::uint64_t{1} << (std::to_integer<unsigned>(data[16]) % 64),
      .num_samples = load_u64_le(data.data() + 17)};
  const AllocationTable table(data.subspan(kHeaderSize));
  check_look_ups(table);
  check_problems(table, limits);
}

void append(Input& input, std::uint64_t value) {
  for (int i = 0; i < 8; ++i) input.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

}  // namespace

std::vector<Input> seed_inputs() {
  std::vector<Input> inputs;
  for (const std::uint64_t rows : {0U, 1U, 10U}) {
    Input input;
    append(input, 1 << 21);
    append(input, 1 << 23);
    input.push_back(21);
    append(input, rows);
    for (std::uint64_t i = 0; i < rows; ++i) {
      append(input, i);
      append(input, (1 << 21) + 100 * i);
      append(input, 100);
    }
    inputs.push_back(input);
  }
  return inputs;
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
