#include "headrace/interleave.hpp"

#include <nanobind/stl/pair.h>

#include <utility>
#include <vector>

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

using Shares = Array<const std::uint64_t, nb::ndim<1>>;

NewArray<std::uint16_t, 1> interleaved(const Shares& shares, std::size_t count) {
  ResultMemory<std::uint16_t> out(count);
  std::vector<Turn> turns(shares.size());
  std::vector<std::uint16_t> waiting(shares.size());
  std::vector<std::uint16_t> ready(shares.size());
  Status status;
  {
    const Unlocked unlocked(count >= Unlocked::kManyItems);
    status = interleave(span_of(shares), turns, waiting, ready, out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

using Row = Array<const std::uint16_t, nb::ndim<2>>;
using Before = Array<const std::int64_t, nb::ndim<2>>;
using Numbers = Array<const std::int64_t, nb::ndim<1>>;

RepeatedRow row_of(const Row& row, const Before& before, std::uint64_t period) {
  return {.places = span_of(row), .before = span_of(before), .period = period};
}

std::pair<NewArray<std::int64_t, 1>, NewArray<std::int64_t, 1>> located(const Row& row,
                                                                        const Before& before,
                                                                        std::uint64_t period,
                                                                        const Numbers& places) {
  ResultMemory<std::int64_t> things(places.size());
  ResultMemory<std::int64_t> counts(places.size());
  Status status;
  {
    const Unlocked unlocked(places.size() >= Unlocked::kManyItems);
    status =
        locate_in_row(row_of(row, before, period), span_of(places), things.span(), counts.span());
  }
  throw_if_error(status);
  return {things.to_array(), counts.to_array()};
}

NewArray<std::int64_t, 1> found(const Row& row, const Before& before, std::uint64_t period,
                                std::uint16_t thing, const Numbers& numbers) {
  ResultMemory<std::int64_t> out(numbers.size());
  Status status;
  {
    const Unlocked unlocked(numbers.size() >= Unlocked::kManyItems);
    status = find_in_row(row_of(row, before, period), thing, span_of(numbers), out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

}  // namespace

void bind_interleave(nb::module_& module) {
  module.def("interleave", interleaved, nb::arg("shares").noconvert(), nb::arg("count"),
             "A row of numbers of things whose proportions are those of the shares: of the first n "
             "the count of each is less than one away from its share.");
  module.def("locate_in_row", located, nb::arg("row").noconvert(), nb::arg("before").noconvert(),
             nb::arg("period"), nb::arg("places").noconvert(),
             "What comes at places of a row that is repeated after a period, and how often it came "
             "before. The row is in blocks of 64 places; `before` has for each thing how often it "
             "comes before each block, and in the whole row.");
  module.def("find_in_row", found, nb::arg("row").noconvert(), nb::arg("before").noconvert(),
             nb::arg("period"), nb::arg("thing"), nb::arg("numbers").noconvert(),
             "Where a thing comes for the first time (number 0), the second, and so on.");
}

}  // namespace headrace::bindings
