#include "headrace/formats/ffcv_order.hpp"

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

using SampleNumbers = Array<std::int64_t, nb::ndim<1>>;
using PageStarts = Array<const std::int64_t, nb::ndim<1>>;

NewArray<std::int64_t, 1> order_of(const SampleNumbers& samples, const PageStarts& page_starts,
                                   std::uint32_t seed, std::size_t pool) {
  ResultMemory<std::int64_t> order(samples.size());
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status =
        quasi_random_order_ffcv(span_of(samples), span_of(page_starts), seed, pool, order.span());
  }
  throw_if_error(status);
  return order.to_array();
}

}  // namespace

void bind_ffcv_order(nb::module_& module) {
  module.def("quasi_random_order_ffcv", order_of, nb::arg("samples").noconvert(),
             nb::arg("page_starts").noconvert(), nb::arg("seed"), nb::arg("pool"),
             "The order that FFCV draws from pool open pages, number for number. Page p has "
             "samples[page_starts[p]:page_starts[p + 1]], which is shuffled in place.");
}

}  // namespace headrace::bindings
