// The kernels as a CPU runs them, by name: all of them stand here.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "gpu/destuff.hpp"
#include "gpu/fetch.hpp"
#include "gpu/order.hpp"
#include "gpu/resample_floats.hpp"
#include "gpu/steps.hpp"
#include "gpu/sums.hpp"
#include "gpu/tiles.hpp"

namespace headrace::gpu::testing {

// A kernel and its arguments, which are copied.
template <typename... Arguments, std::size_t... kIndices>
std::function<void()> bound(void (*kernel)(Arguments...), void** arguments,
                            std::index_sequence<kIndices...>) {
  return [kernel, values = std::make_tuple(*static_cast<std::remove_reference_t<Arguments>*>(
                      arguments[kIndices])...)] { std::apply(kernel, values); };
}

template <typename... Arguments>
std::function<void()> bind_to(void (*kernel)(Arguments...), void** arguments) {
  return bound(kernel, arguments, std::index_sequence_for<Arguments...>());
}

template <auto kKernel>
std::function<void()> wrapped(void** arguments) {
  return bind_to(kKernel, arguments);
}

inline const std::map<std::string_view, std::function<void()> (*)(void**)> kKernels = {
    {"destuff_pictures", wrapped<destuff_pictures>}, {"order_tiles", wrapped<order_tiles>},
    {"decode_tiles", wrapped<decode_tiles>},         {"plan_axes", wrapped<plan_axes>},
    {"fill_around", wrapped<fill_around>},           {"resample_smooth", wrapped<resample_smooth>},
    {"resample_sharp", wrapped<resample_sharp>},     {"resample_floats", wrapped<resample_floats>},
    {"apply_steps", wrapped<apply_steps>},           {"sum_pictures", wrapped<sum_pictures>},
    {"fetch_pictures", wrapped<fetch_pictures>}};

}  // namespace headrace::gpu::testing
