#include "headrace/counter_random.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <vector>

#include "bindings.hpp"
#include "headrace/images/random_crops.hpp"

namespace headrace::bindings {
namespace {

using Numbers = Array<const std::int64_t, nb::ndim<1>>;
using Words = std::vector<std::uint64_t>;

NewArray<double, 2> uniforms(const Words& words, const Numbers& samples, std::uint64_t first,
                             std::size_t count) {
  std::uint64_t size = 0;
  if (!checked_multiply(samples.size(), count, size)) {
    throw_invalid(Detail("too many random numbers"));
  }
  ResultMemory<double> out(size);
  Status status;
  {
    const Unlocked unlocked(size >= Unlocked::kManyItems);
    status = draw_uniforms(words, span_of(samples), first, out.span());
  }
  throw_if_error(status);
  return out.to_array(count, samples.size());
}

// Short, so the lock is kept: to get it back would take longer.
NewArray<std::int32_t, 2> resized_crops(const Words& words, const Numbers& samples,
                                        const Numbers& heights, const Numbers& widths,
                                        std::pair<double, double> scale,
                                        std::pair<double, double> ratio) {
  ResultMemory<std::int32_t> out(4 * samples.size());
  throw_if_error(draw_resized_crops(words, span_of(samples), span_of(heights), span_of(widths),
                                    {scale.first, scale.second, ratio.first, ratio.second},
                                    out.span()));
  return out.to_array(samples.size(), 4);
}

NewArray<std::int64_t, 1> permuted(const Numbers& positions, std::uint64_t n, const Words& key) {
  ResultMemory<std::int64_t> out(positions.size());
  Status status;
  {
    const Unlocked unlocked(positions.size() >= Unlocked::kManyItems);
    status = permute(span_of(positions), n, key, out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

}  // namespace

void bind_counter_random(nb::module_& module) {
  module.def("draw_uniforms", uniforms, nb::arg("words"), nb::arg("samples").noconvert(),
             nb::arg("first"), nb::arg("count"),
             "headrace.counter_random.random_uniform of (words, sample, draw) as rows for count "
             "draws from first on. Words are below 2**64.");
  module.def("draw_resized_crops", resized_crops, nb::arg("words"), nb::arg("samples").noconvert(),
             nb::arg("heights").noconvert(), nb::arg("widths").noconvert(), nb::arg("scale"),
             nb::arg("ratio"),
             "Top, left, height and width of a random part of each picture, named by (words, "
             "sample): those of RandomResizedCrop.");
  module.def("permute", permuted, nb::arg("positions").noconvert(), nb::arg("n"), nb::arg("key"),
             "Where the keyed permutation of the numbers below n sends each position.");
}

}  // namespace headrace::bindings
