// Shared by the binding files: argument types, results owned by Python, and errors.
//
// Every binding does the same four things: look at the Python arguments, release the GIL around one
// core call that touches no Python object, translate the status, wrap the result.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/checksum.hpp"
#include "headrace/image.hpp"
#include "headrace/output_type.hpp"
#include "headrace/status.hpp"

namespace nb = nanobind;

namespace headrace::bindings {

template <typename T, typename... Args>
using Array = nb::ndarray<T, nb::c_contig, nb::device::cpu, Args...>;

using ByteArray = Array<const std::uint8_t, nb::ndim<1>>;
using MutableByteArray = Array<std::uint8_t, nb::ndim<1>>;
using U64Array = Array<const std::uint64_t, nb::ndim<1>>;
using Checksums = Array<std::uint32_t, nb::ndim<1>>;
using Image = Array<const std::uint8_t, nb::shape<-1, -1, 3>>;
using MutableImage = Array<std::uint8_t, nb::shape<-1, -1, 3>>;

// Arrays that Python owns, returned by a function.
template <typename T, std::size_t kDimensions>
using NewArray = nb::ndarray<nb::numpy, T, nb::ndim<kDimensions>>;

template <typename A>
[[nodiscard]] ByteSpan bytes_of(const A& array) noexcept {
  return {reinterpret_cast<const std::byte*>(array.data()), array.nbytes()};
}

template <typename A>
[[nodiscard]] MutableByteSpan writable_bytes_of(const A& array) noexcept {
  return {reinterpret_cast<std::byte*>(array.data()), array.nbytes()};
}

template <typename A>
[[nodiscard]] auto span_of(const A& array) noexcept {
  return std::span(array.data(), array.size());
}

template <typename A>
[[nodiscard]] ImageShape shape_of(const A& image) noexcept {
  return {image.shape(1), image.shape(0)};
}

// Lets other threads of Python run, where the work is long enough: whoever takes the lock over
// keeps it for a while, and to be woken up again takes longer than a short piece of work.
class Unlocked {
 public:
  static constexpr std::size_t kLongBytes = 64 << 10;
  static constexpr std::size_t kManyItems = 4096;

  explicit Unlocked(bool is_long) {
    if (is_long) release_.emplace();
  }

 private:
  std::optional<nb::gil_scoped_release> release_;
};

// Memory for a result, filled by the core and then handed to numpy.
template <typename T>
class ResultMemory {
 public:
  explicit ResultMemory(std::size_t size) : size_(size), memory_(new T[size]) {}

  [[nodiscard]] std::span<T> span() const noexcept { return {memory_.get(), size_}; }

  [[nodiscard]] NewArray<T, 1> to_array() {
    T* data = memory_.get();
    return NewArray<T, 1>(data, {size_}, owner());
  }
  [[nodiscard]] NewArray<T, 2> to_array(std::size_t rows, std::size_t columns) {
    T* data = memory_.get();
    return NewArray<T, 2>(data, {rows, columns}, owner());
  }

 private:
  // Takes the memory over: whoever calls this has read memory_.get() before.
  nb::capsule owner() {
    nb::capsule capsule(memory_.get(),
                        [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
    static_cast<void>(memory_.release());
    return capsule;
  }

  std::size_t size_;
  std::unique_ptr<T[]> memory_;
};

// Raises NativeError unless the status is ok.
void throw_if_error(const Status& status);

// Raises the OSError of an errno, for instance FileNotFoundError.
[[noreturn]] void throw_os_error(int error, const char* path);

template <typename T>
[[nodiscard]] T&& value_or_throw(Result<T>&& result) {
  throw_if_error(result.status());
  return std::move(result.value());
}

// Raises NativeError for wrong arguments.
[[noreturn]] void throw_invalid(const Detail& detail);

// The kind that a name stands for, or NativeError.
[[nodiscard]] inline ChecksumKind checksum_kind_of(std::string_view name) {
  const auto kind = parse_checksum_kind(name);
  if (!kind) {
    throw_invalid(Detail("unknown checksum_kind '") << name << "'; known are crc32c and crc32");
  }
  return *kind;
}

// The type of an array that `name` stands for, or NativeError.
template <typename A>
[[nodiscard]] OutputType output_type_of(const A& array, const char* name) {
  const nb::dlpack::dtype type = array.dtype();
  if (type == nb::dtype<std::uint8_t>()) return OutputType::uint8;
  if (type == nb::dtype<float>()) return OutputType::float32;
  const bool is_float = type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
  if (is_float && type.bits == 16 && type.lanes == 1) return OutputType::float16;
  throw_invalid(Detail(name) << " must be uint8, float16 or float32");
}

// Uninitialised bytes objects of the given sizes; nobody else sees them before they are filled.
[[nodiscard]] nb::list new_bytes(std::span<const std::uint64_t> sizes,
                                 std::vector<std::byte*>& destinations);

void bind_errors(nb::module_& module);
void bind_buffer_pool(nb::module_& module);
void bind_checksum(nb::module_& module);
void bind_counter_random(nb::module_& module);
void bind_interleave(nb::module_& module);
void bind_gather(nb::module_& module);
void bind_jpeg(nb::module_& module);
void bind_jpeg_slice(nb::module_& module);
void bind_tile_index(nb::module_& module);
void bind_resize(nb::module_& module);
void bind_beton(nb::module_& module);
void bind_ffr(nb::module_& module);
void bind_store(nb::module_& module);
void bind_load(nb::module_& module);
void bind_gpu(nb::module_& module);
void bind_mapping_guard(nb::module_& module);
void bind_sparse_mapping(nb::module_& module);
void bind_range_reader(nb::module_& module);
void bind_mix(nb::module_& module);
void bind_msgpack(nb::module_& module);
void bind_path_index(nb::module_& module);
void bind_pictures(nb::module_& module);
void bind_place_reader(nb::module_& module);
void bind_file_table(nb::module_& module);
void bind_ffcv_order(nb::module_& module);
void bind_tar(nb::module_& module);
void bind_text_records(nb::module_& module);
void bind_tfrecord(nb::module_& module);
void bind_recordio(nb::module_& module);
void bind_members(nb::module_& module);
void bind_zlib_stream(nb::module_& module);

}  // namespace headrace::bindings
