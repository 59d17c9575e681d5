#include <nanobind/stl/string_view.h>

#include <string_view>

#include "bindings.hpp"
#include "headrace/cpu.hpp"

namespace headrace::bindings {
namespace {

#ifdef NDEBUG
constexpr bool kIsDebug = false;
#else
constexpr bool kIsDebug = true;
#endif

void set_level(std::string_view name) {
  const auto level = parse_simd_level(name);
  if (!level) {
    throw_if_error(Status(Code::invalid_argument,
                          Detail("unknown SIMD level '")
                              << name << "'; known are scalar, sse42, avx2 and avx512"));
  }
  throw_if_error(set_simd_level(*level));
}

}  // namespace
}  // namespace headrace::bindings

NB_MODULE(_core, module) {
  using namespace headrace;
  using namespace headrace::bindings;
  module.doc() = "Native core of headrace.";
  // Objects that live to the end of a worker process are no leak; a debug build still tells.
  nb::set_leak_warnings(kIsDebug);
  module.attr("DEBUG") = kIsDebug;
  bind_errors(module);
  bind_buffer_pool(module);
  bind_checksum(module);
  bind_counter_random(module);
  bind_interleave(module);
  bind_gather(module);
  bind_jpeg(module);
  bind_jpeg_slice(module);
  bind_tile_index(module);
  bind_resize(module);
  bind_beton(module);
  bind_ffr(module);
  bind_store(module);
  bind_load(module);
  bind_gpu(module);
  bind_mapping_guard(module);
  bind_sparse_mapping(module);
  bind_range_reader(module);
  bind_mix(module);
  bind_msgpack(module);
  bind_path_index(module);
  bind_pictures(module);
  bind_place_reader(module);
  bind_file_table(module);
  bind_ffcv_order(module);
  bind_tar(module);
  bind_text_records(module);
  bind_tfrecord(module);
  bind_recordio(module);
  bind_members(module);
  bind_zlib_stream(module);
  module.def(
      "simd_level", [] { return simd_level_name(simd_level()); },
      "Instruction set the kernels use: scalar, sse42, avx2 or avx512.");
  module.def("set_simd_level", set_level, nb::arg("name"),
             "Lower the instruction set the kernels use; never above what the CPU has.");
}
