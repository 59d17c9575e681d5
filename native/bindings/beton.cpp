#include "headrace/formats/beton.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

using Problem = std::tuple<std::uint64_t, std::string_view, std::int64_t>;

// The table together with the array it looks at. Held as a buffer, not by DLPack: an array that is
// still held so when the interpreter ends is never let go, and the guard of its mapping neither.
class BetonTable {
 public:
  explicit BetonTable(Buffer data) : data_(std::move(data)), table_(data_.bytes()) {}

  [[nodiscard]] std::size_t rows() const noexcept { return table_.rows(); }

  [[nodiscard]] NewArray<std::uint64_t, 1> sizes(const U64Array& pointers,
                                                 const U64Array& guesses) const {
    ResultMemory<std::uint64_t> out(pointers.size());
    Status status;
    {
      const Unlocked unlocked(pointers.size() >= Unlocked::kManyItems);
      status = table_.find_sizes(span_of(pointers), span_of(guesses), out.span());
    }
    throw_if_error(status);
    return out.to_array();
  }

  [[nodiscard]] std::vector<Problem> check(std::uint64_t data_start, std::uint64_t data_end,
                                           std::uint64_t page_size, std::uint64_t num_samples,
                                           std::size_t limit) const {
    Result<std::vector<TableProblem>> found = Status();
    {
      nb::gil_scoped_release unlocked;
      found = table_.check({data_start, data_end, page_size, num_samples}, limit);
    }
    std::vector<Problem> problems;
    for (const auto& [row, kind, other_row] : value_or_throw(std::move(found))) {
      const std::int64_t other = other_row == kNoRow ? -1 : static_cast<std::int64_t>(other_row);
      problems.emplace_back(row, problem_name(kind), other);
    }
    return problems;
  }

 private:
  Buffer data_;
  AllocationTable table_;
};

std::pair<NewArray<std::uint64_t, 2>, std::uint64_t> place_samples(
    const Array<const std::uint64_t, nb::ndim<2>>& sizes, std::uint64_t cursor,
    std::uint64_t page_size, std::uint64_t data_start) {
  ResultMemory<std::uint64_t> pointers(sizes.size());
  Result<std::uint64_t> end = Status();
  {
    nb::gil_scoped_release unlocked;
    end = place(span_of(sizes), sizes.shape(1), {cursor, page_size, data_start}, pointers.span());
  }
  const std::uint64_t end_cursor = value_or_throw(std::move(end));
  return {pointers.to_array(sizes.shape(0), sizes.shape(1)), end_cursor};
}

}  // namespace

void bind_beton(nb::module_& module) {
  nb::class_<BetonTable>(module, "AllocationTable", "The allocation table of a .beton file.")
      .def(nb::init<Buffer>(), nb::arg("data"), "View the raw bytes of a table.")
      .def("__len__", &BetonTable::rows, "Number of rows.")
      .def("sizes", &BetonTable::sizes, nb::arg("pointers").noconvert(),
           nb::arg("guesses").noconvert(),
           "Size of the allocation at each pointer, 2**64 - 1 where none is; guesses are rows to "
           "try first.")
      .def("check", &BetonTable::check, nb::arg("data_start"), nb::arg("data_end"),
           nb::arg("page_size"), nb::arg("num_samples"), nb::arg("limit") = 100,
           "Problems of the table as (row, kind, other row or -1), at most limit of them.");
  module.def("place", place_samples, nb::arg("sizes").noconvert(), nb::arg("cursor"),
             nb::arg("page_size"), nb::arg("data_start"),
             "Assign file offsets to samples, each on one page; returns them and the next cursor.");
}

}  // namespace headrace::bindings
