#include "headrace/formats/beton.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"
#include "headrace/formats/beton_spans.hpp"

namespace headrace::bindings {
namespace {

using Problem = std::tuple<std::uint64_t, std::string_view, std::int64_t>;

// The table together with the array it looks at. Held as a buffer, not by DLPack: an array that is
// still held so when the interpreter ends is never let go, and the guard of its mapping neither.
class BetonTable {
 public:
  explicit BetonTable(Buffer data) : data_(std::move(data)), table_(data_.bytes()) {}

  [[nodiscard]] const AllocationTable& core() const noexcept { return table_; }
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

using Samples = Array<const std::int64_t, nb::ndim<1>>;
using Pointers = NewArray<std::uint64_t, 1>;
using Places = std::tuple<Pointers, Pointers, NewArray<std::uint8_t, 1>, NewArray<std::uint32_t, 1>,
                          NewArray<std::uint32_t, 1>>;

// A field of the metadata together with the array it looks at; see BetonTable.
class Column {
 public:
  Column(Buffer records, std::size_t record_size, std::size_t member_at, std::uint64_t data_start,
         std::uint64_t data_end)
      : records_(std::move(records)),
        column_{records_.bytes(), record_size, member_at, data_start, data_end} {}

  [[nodiscard]] std::optional<Places> pictures(const BetonTable& table, const Samples& samples,
                                               std::uint64_t rows_of_sample,
                                               std::uint64_t row_in_sample) const {
    const std::size_t n = samples.size();
    ResultMemory<std::uint64_t> pointers(n);
    ResultMemory<std::uint64_t> sizes(n);
    ResultMemory<std::uint8_t> modes(n);
    ResultMemory<std::uint32_t> widths(n);
    ResultMemory<std::uint32_t> heights(n);
    Result<bool> is_sound = Status();
    {
      const Unlocked unlocked(n >= Unlocked::kManyItems);
      is_sound = locate_pictures(
          column_, table.core(), {rows_of_sample, row_in_sample}, span_of(samples),
          {pointers.span(), sizes.span(), modes.span(), widths.span(), heights.span()});
    }
    if (!value_or_throw(std::move(is_sound))) return std::nullopt;
    return Places(pointers.to_array(), sizes.to_array(), modes.to_array(), widths.to_array(),
                  heights.to_array());
  }

  [[nodiscard]] std::optional<Pointers> arrays(const Samples& samples, std::uint64_t size) const {
    ResultMemory<std::uint64_t> pointers(samples.size());
    Result<bool> is_sound = Status();
    {
      const Unlocked unlocked(samples.size() >= Unlocked::kManyItems);
      is_sound = locate_arrays(column_, size, span_of(samples), pointers.span());
    }
    if (!value_or_throw(std::move(is_sound))) return std::nullopt;
    return pointers.to_array();
  }

 private:
  Buffer records_;
  BetonColumn column_;
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
  nb::class_<Column>(module, "BetonColumn", "A field in the metadata records of a .beton file.")
      .def(nb::init<Buffer, std::size_t, std::size_t, std::uint64_t, std::uint64_t>(),
           nb::arg("records"), nb::arg("record_size"), nb::arg("member_at"), nb::arg("data_start"),
           nb::arg("data_end"))
      .def(
          "pictures", &Column::pictures, nb::arg("table"), nb::arg("samples").noconvert(),
          nb::arg("rows_of_sample"), nb::arg("row_in_sample"),
          "Pointers, sizes, modes, widths and heights of pictures, or None when one of them is not "
          "as it should be. The row of the table to try first is sample * rows_of_sample + "
          "row_in_sample.")
      .def("arrays", &Column::arrays, nb::arg("samples").noconvert(), nb::arg("size"),
           "Pointers of arrays of size bytes, or None when one is not inside the data.");
  module.def("place", place_samples, nb::arg("sizes").noconvert(), nb::arg("cursor"),
             nb::arg("page_size"), nb::arg("data_start"),
             "Assign file offsets to samples, each on one page; returns them and the next cursor.");
}

}  // namespace headrace::bindings
