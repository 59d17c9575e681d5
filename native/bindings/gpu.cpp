#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/driver.hpp"
#include "gpu/driver_state.hpp"
#include "gpu/loader.hpp"
#include "load_arguments.hpp"

namespace headrace::bindings {
namespace {

using AnyArray = nb::ndarray<>;
using DeviceArray = nb::ndarray<nb::array_api, nb::device::cuda>;  // has __dlpack__

constexpr std::size_t kBatchAxes = 4;

// The memory of one array, in a list once the array is gone.
struct Piece {
  gpu::DevicePointer memory = 0;
  std::size_t size = 0;
  Piece* next = nullptr;
};

void release_all(gpu::GpuLoader& loader, Piece* first) noexcept {
  while (first != nullptr) {
    Piece* const next = first->next;
    loader.release(first->memory, first->size);
    delete first;
    first = next;
  }
}

// Of one GPU. Arrays that it gave out keep it, and it keeps the threads and the memory it uses.
struct Owner {
  nb::object cpu;
  std::vector<ByteArray> pinned;
  std::unique_ptr<gpu::GpuLoader> loader;  // goes first
  std::mutex mutex;                        // of what follows
  Piece* returned = nullptr;

  Owner() = default;
  ~Owner() {
    if (!loader) return;
    nb::gil_scoped_release unlocked;  // the driver waits for the device before it frees
    release_all(*loader, returned);
    loader.reset();
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;
};

// Pieces whose arrays are gone; with this they may be given out again.
class Returned {
 public:
  explicit Returned(std::shared_ptr<Owner> owner) : owner_(std::move(owner)) {
    const std::lock_guard lock(owner_->mutex);
    std::swap(first_, owner_->returned);
  }
  ~Returned() {
    if (first_ == nullptr) return;
    nb::gil_scoped_release unlocked;  // the driver waits for the device before it frees
    release_all(*owner_->loader, first_);
  }
  Returned(const Returned&) = delete;
  Returned& operator=(const Returned&) = delete;

  [[nodiscard]] bool is_empty() const noexcept { return first_ == nullptr; }

 private:
  std::shared_ptr<Owner> owner_;
  Piece* first_ = nullptr;
};

std::unique_ptr<gpu::GpuLoader> open_loader(int device, const nb::bytes& kernels,
                                            ImageLoader& cpu) {
  const ByteSpan binary{static_cast<const std::byte*>(kernels.data()), kernels.size()};
  Result<std::unique_ptr<gpu::GpuLoader>> made = [&]() -> Result<std::unique_ptr<gpu::GpuLoader>> {
    nb::gil_scoped_release unlocked;  // a context takes a good part of a second
    auto opened = gpu::Driver::open(device, binary);
    if (!opened.status().is_ok()) return opened.status();
    return gpu::GpuLoader::create(std::move(opened.value()), cpu);
  }();
  return value_or_throw(std::move(made));
}

bool is_contiguous(const AnyArray& array) {
  std::int64_t size = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    if (array.shape(i) != 1 && array.stride(i) != size) return false;
    size *= static_cast<std::int64_t>(array.shape(i));
  }
  return true;
}

void check_output(const AnyArray& out, int device) {
  if (out.device_type() != nb::device::cuda::value || out.device_id() != device) {
    throw_invalid(Detail("out must lie on the CUDA device ")
                  << std::uint64_t(device) << ", not on device " << std::uint64_t(out.device_id())
                  << " of DLPack's type " << std::uint64_t(out.device_type()));
  }
  if (out.ndim() != kBatchAxes) {
    throw_invalid(Detail("out must have 4 axes, not ") << std::uint64_t{out.ndim()});
  }
  if (!is_contiguous(out)) throw_invalid(Detail("out must be C-contiguous, and has gaps"));
}

nb::dlpack::dtype dtype_of(std::string_view name) {
  if (name == "uint8") return nb::dtype<std::uint8_t>();
  if (name == "float32") return nb::dtype<float>();
  if (name == "float16") {
    return {static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float), 16, 1};
  }
  throw_invalid(Detail("unknown dtype '") << name << "'; known are uint8, float16 and float32");
}

std::size_t bytes_of_array(const std::vector<std::size_t>& shape, std::size_t item) {
  std::size_t size = item;
  for (const std::size_t side : shape) {
    if (__builtin_mul_overflow(size, side, &size)) {
      throw_invalid(Detail("an array of that shape is larger than any memory"));
    }
  }
  return size;
}

class GpuLoader {
 public:
  GpuLoader(int device, const nb::bytes& kernels, const nb::object& cpu)
      : device_(device), owner_(std::make_shared<Owner>()) {
    Loader* threads = nullptr;
    if (!nb::try_cast<Loader*>(cpu, threads, false) || threads == nullptr) {
      throw_invalid(Detail("cpu must be an ImageLoader"));
    }
    owner_->cpu = cpu;
    owner_->loader = open_loader(device, kernels, threads->core());
  }

  [[nodiscard]] std::size_t device_bytes() const noexcept { return loader().device_bytes(); }
  [[nodiscard]] std::size_t pinned_bytes() const noexcept { return loader().pinned_bytes(); }
  [[nodiscard]] std::size_t room_bytes() const noexcept { return loader().room_bytes(); }

  void pin(const ByteArray& memory) const {
    owner_->pinned.push_back(memory);
    Status status;
    {
      nb::gil_scoped_release unlocked;
      status = loader().pin(bytes_of(memory));
    }
    throw_if_error(status);
  }

  LoadReport load(const Spans& spans, const std::optional<Crops>& crops,
                  const std::optional<ByteArray>& flips, const AnyArray& out,
                  const Options& options, const Steps& steps) const {
    check_output(out, device_);
    const LoadOptions wanted = options.with_output(out);
    const LoadArguments arguments(spans, crops, flips, out, steps);
    const auto address = reinterpret_cast<gpu::DevicePointer>(out.data());
    LoadReport report;
    Status status;
    {
      nb::gil_scoped_release unlocked;
      status =
          loader().load(arguments.base(), arguments.batch(), wanted, address, out.nbytes(), report);
    }
    throw_if_error(status);
    return report;
  }

  [[nodiscard]] DeviceArray empty(const std::vector<std::size_t>& shape,
                                  std::string_view dtype) const {
    const nb::dlpack::dtype type = dtype_of(dtype);
    auto lent = std::make_unique<Lent>(owner_, bytes_of_array(shape, type.bits / 8));
    throw_if_error(lent->status);
    void* const address = reinterpret_cast<void*>(lent->piece->memory);
    nb::capsule owner(lent.get(), [](void* held) noexcept { delete static_cast<Lent*>(held); });
    static_cast<void>(lent.release());
    return {address, shape.size(), shape.data(), owner, nullptr, type, nb::device::cuda::value,
            device_};
  }

  [[nodiscard]] std::unique_ptr<Returned> returned() const {
    auto pieces = std::make_unique<Returned>(owner_);
    if (pieces->is_empty()) pieces.reset();
    return pieces;
  }

 private:
  // What keeps a piece as long as its array.
  struct Lent {
    Lent(std::shared_ptr<Owner> of, std::size_t bytes)
        : owner(std::move(of)), piece(std::make_unique<Piece>()) {
      nb::gil_scoped_release unlocked;
      auto result = owner->loader->allocate(bytes);
      status = result.status();
      if (status.is_ok()) *piece = {result.value(), bytes, nullptr};
    }
    ~Lent() {
      if (!status.is_ok()) return;
      const std::lock_guard lock(owner->mutex);
      piece->next = owner->returned;
      owner->returned = piece.release();
    }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;

    std::shared_ptr<Owner> owner;
    std::unique_ptr<Piece> piece;
    Status status;
  };

  [[nodiscard]] gpu::GpuLoader& loader() const noexcept { return *owner_->loader; }

  int device_;
  std::shared_ptr<Owner> owner_;
};

DeviceArray transposed(const nb::object& owner, const std::vector<std::size_t>& axes) {
  const auto array = nb::cast<AnyArray>(owner);
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;
  for (const std::size_t axis : axes) {
    if (axes.size() != array.ndim() || axis >= array.ndim()) {
      throw_invalid(Detail("axes must name each of the ")
                    << std::uint64_t{array.ndim()} << " axes");
    }
    shape.push_back(array.shape(axis));
    strides.push_back(array.stride(axis));
  }
  return {array.data(),   axes.size(),   shape.data(),        owner,
          strides.data(), array.dtype(), array.device_type(), array.device_id()};
}

bool gpu_can(const Options& options, const std::vector<std::string>& steps) {
  std::vector<StepKind> kinds;
  for (const std::string& name : steps) kinds.push_back(step_kind_of(name));
  return gpu::GpuLoader::is_possible(options.common(), kinds);
}

}  // namespace

void bind_gpu(nb::module_& module) {
  nb::class_<Returned>(module, "GpuMemory", "Memory of a GPU that arrays were made of.");
  nb::class_<GpuLoader>(
      module, "GpuImageLoader",
      "An ImageLoader whose batches lie on a GPU. `kernels` are those of gpu_kernels(); the "
      "threads "
      "of `cpu` prepare batches and decode what the GPU cannot. Several threads may call it at "
      "once. NativeError with the code \"unsupported\": there is no driver, no such device, or it "
      "is of a kind that the kernels were not built for.")
      .def(nb::init<int, const nb::bytes&, const nb::object&>(), nb::arg("device"),
           nb::arg("kernels"), nb::arg("cpu"),
           nb::sig("def __init__(self, device: int, kernels: bytes, cpu: ImageLoader) -> None"))
      .def("load", &GpuLoader::load, nb::arg("spans"), nb::arg("crops").noconvert(),
           nb::arg("flips").noconvert(), nb::arg("out").noconvert(), nb::arg("options"),
           nb::arg("steps").noconvert() = Steps(),
           nb::sig("def load(self, spans: headrace.types.ImageSpans, crops: "
                   "Annotated[NDArray[numpy.int32], dict(shape=(None, 4), order='C', "
                   "device='cpu', writable=False)] | None, flips: Annotated[NDArray[numpy.uint8], "
                   "dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: "
                   "object, options: LoadOptions, steps: Sequence[tuple[str, "
                   "Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', "
                   "device='cpu', writable=False)]]] = []) -> LoadReport"),
           "As ImageLoader.load, to the last bit; `out` is any array on the device with "
           "`__dlpack__`. The batch is complete when this returns, for every stream.")
      .def(
          "empty", &GpuLoader::empty, nb::arg("shape"), nb::arg("dtype"),
          "Memory of the device as an array with `__dlpack__`: uint8, float16 or float32. It comes "
          "back by `returned` once the array and all that was made of it are gone.")
      .def("returned", &GpuLoader::returned, nb::sig("def returned(self) -> GpuMemory | None"),
           "The memory of arrays that are gone since the last call, or None. It is used again when "
           "this object is gone: let go of it when nothing uses the memory any more that the "
           "arrays' users have queued.")
      .def_static("transposed", transposed, nb::arg("array"), nb::arg("axes"),
                  nb::sig("def transposed(array: object, axes: Sequence[int]) -> object"),
                  "The same memory with its axes in another order.")
      .def("pin", &GpuLoader::pin, nb::arg("memory").noconvert(),
           "Pin whole pages that pictures lie in, as long as the loader lives. JPEGs in them are "
           "fetched by the GPU, which checks their checksums, too; the CPU reads their headers "
           "only. Loaders that pin the same memory share it. NativeError with the code "
           "\"unsupported\" where the system does not allow it: then they are copied, as without.")
      .def_prop_ro("pinned_bytes", &GpuLoader::pinned_bytes, "What was pinned so far.")
      .def_prop_ro("device_bytes", &GpuLoader::device_bytes,
                   "Memory of the device held for batches under way; arrays are not counted.")
      .def_prop_ro("room_bytes", &GpuLoader::room_bytes,
                   "Memory of the device that batches can have: what is free, and what the loader "
                   "holds for batches under way and for arrays of its own.");
  module.def("gpu_can", gpu_can, nb::arg("options"), nb::arg("steps"),
             "True when the GPU can do what the options and the kinds of steps ask for.");
  module.def(
      "gpu_driver_is_open", [] { return gpu::is_driver_open(); },
      "True when this process uses the driver of NVIDIA's GPUs, through whatever library.");
}

}  // namespace headrace::bindings
