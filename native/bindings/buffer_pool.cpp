#include "headrace/buffer_pool.hpp"

#include <memory>
#include <new>
#include <utility>

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

struct Pool {
  explicit Pool(std::size_t keep_bytes) : core(std::make_shared<BufferPool>(keep_bytes)) {}

  std::shared_ptr<BufferPool> core;
};

// Arrays on the buffer keep it alive; with the last of them the memory goes back.
int get_pooled_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const MutableByteSpan bytes = nb::inst_ptr<PooledBuffer>(self)->bytes();
  return PyBuffer_FillInfo(view, self, bytes.data(), static_cast<Py_ssize_t>(bytes.size()), 0,
                           flags);
}

PyType_Slot pooled_buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_pooled_buffer)},
                                     {0, nullptr}};

nb::typed<nb::list, PooledBuffer> take(Pool& pool, const U64Array& sizes, const U64Array& offsets) {
  if (sizes.size() != offsets.size()) {
    throw_invalid(Detail() << sizes.size() << " sizes, but " << offsets.size() << " offsets");
  }
  nb::list out;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    PooledBuffer buffer = pool.core->take(span_of(sizes)[i], span_of(offsets)[i]);
    if (!buffer.is_valid()) throw std::bad_alloc();
    out.append(nb::cast(std::move(buffer)));
  }
  return nb::typed<nb::list, PooledBuffer>(std::move(out));
}

}  // namespace

void bind_buffer_pool(nb::module_& module) {
  nb::class_<PooledBuffer>(module, "PooledBuffer", nb::type_slots(pooled_buffer_slots),
                           "Memory from a pool, as a writable buffer.");
  nb::class_<Pool>(module, "BufferPool", "Lends memory of any size and uses it again.")
      .def(nb::init<std::size_t>(), nb::arg("keep_bytes"))
      .def_prop_ro(
          "free_bytes", [](Pool& pool) { return pool.core->free_bytes(); },
          "Memory that is kept and lent to nobody.")
      .def("take", take, nb::arg("sizes").noconvert(), nb::arg("offsets").noconvert(),
           "A buffer of each size; large ones begin at their offset modulo 4096.");
}

}  // namespace headrace::bindings
