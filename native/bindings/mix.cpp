#include "headrace/images/mix.hpp"

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

using BatchValues = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using MutableBatchValues = nb::ndarray<nb::c_contig, nb::device::cpu>;
using Weights = Array<const float, nb::ndim<1>>;

bool have_equal_shapes(const BatchValues& a, const MutableBatchValues& b) {
  if (a.ndim() != b.ndim()) return false;
  for (std::size_t i = 0; i < a.ndim(); ++i) {
    if (a.shape(i) != b.shape(i)) return false;
  }
  return true;
}

void mix_into(const BatchValues& values, const Weights& weights, const MutableBatchValues& out) {
  const OutputType type = output_type_of(values, "values");
  if (values.dtype() != out.dtype() || !have_equal_shapes(values, out)) {
    throw_invalid(Detail("out must have the type and shape of values"));
  }
  if (values.ndim() == 0 || values.shape(0) != weights.size()) {
    throw_invalid(Detail("weights must have one entry for each sample"));
  }
  const ByteSpan from = bytes_of(values);
  const MutableByteSpan to = writable_bytes_of(out);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = mix(type, from, span_of(weights), to);
  }
  throw_if_error(status);
}

}  // namespace

void bind_mix(nb::module_& module) {
  module.def(
      "mix", mix_into, nb::arg("values").noconvert(), nb::arg("weights").noconvert(),
      nb::arg("out").noconvert(),
      "out[i] = values[i] * weights[i] + values[i - 1] * (1 - weights[i]), the sample before "
      "the first being the last; uint8 (cut to whole numbers), float16 or float32.");
}

}  // namespace headrace::bindings
