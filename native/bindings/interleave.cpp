#include "headrace/interleave.hpp"

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

}  // namespace

void bind_interleave(nb::module_& module) {
  module.def("interleave", interleaved, nb::arg("shares").noconvert(), nb::arg("count"),
             "A row of numbers of things whose proportions are those of the shares: of the first n "
             "the count of each is less than one away from its share.");
}

}  // namespace headrace::bindings
