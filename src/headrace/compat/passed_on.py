"""Names that a module of an original has only because it imports them, and that programs import from there.

``from ffcv.pipeline.operation import Operation, AllocationQuery`` is one of FFCV's own examples. The adapters have
imports of their own, so what the original's module lets through is looked up when it is asked for. What belongs to a
package that is not installed is an ImportError that names it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["pass_on"]

_FFCV = "headrace.compat.ffcv"
_HOMES = {
    "abc": "ABC ABCMeta abstractmethod",
    "collections": "OrderedDict defaultdict",
    "collections.abc": "Collection",
    "contextlib": "AbstractContextManager nullcontext",
    "ctypes": "CDLL POINTER c_bool c_int64 c_uint32 c_uint64 c_uint8 c_void_p cdll",
    "dataclasses": "dataclass replace",
    "enum": "Enum auto unique",
    "functools": "partial",
    "multiprocessing": "Process Value cpu_count shared_memory",
    "numba": "get_num_threads njit objmode prange set_num_threads types",
    "numba.core.errors": "NumbaPerformanceWarning",
    "numba.extending": "intrinsic",
    "numpy": "dtype",
    "numpy.random": "permutation rand randint",
    "os": "SEEK_END environ path",
    "pathlib": "Path",
    "queue": "Full Queue",
    "re": "sub",
    "threading": "Event Lock Thread",
    "time": "sleep",
    "torch.utils.data": "DistributedSampler Sampler",
    "tqdm": "tqdm trange",
    "tqdm.contrib.concurrent": "thread_map",
    "typing": "Any Callable Iterable Iterator List Literal Mapping Optional Sequence Set TYPE_CHECKING Tuple "
    "Type Union",
    f"{_FFCV}.fields": "BytesField FloatField IntField JSONField NDArrayField RGBImageField TorchTensorField",
    f"{_FFCV}.fields.base": "ARG_TYPE Field",
    f"{_FFCV}.libffcv": "ctypes_resize imdecode memcpy read resize_crop",
    f"{_FFCV}.loader.epoch_iterator": "EpochIterator",
    f"{_FFCV}.memory_allocator": "MemoryAllocator",
    f"{_FFCV}.memory_managers": "OSCacheManager ProcessCacheManager",
    f"{_FFCV}.memory_managers.base": "MemoryContext MemoryManager",
    f"{_FFCV}.memory_managers.common": "BATCHES_TYPE",
    f"{_FFCV}.memory_managers.process_cache": "ProcessCacheContext",
    f"{_FFCV}.pipeline": "Compiler Pipeline PipelineSpec",
    f"{_FFCV}.pipeline.allocation_query": "Allocation AllocationQuery allocate_query",
    f"{_FFCV}.pipeline.graph": "Graph",
    f"{_FFCV}.pipeline.operation": "Operation",
    f"{_FFCV}.pipeline.state": "State",
    f"{_FFCV}.reader": "Reader",
    f"{_FFCV}.transforms": "ModuleWrapper ToTensor",
    f"{_FFCV}.transforms.utils": "fast_crop",
    f"{_FFCV}.traversal_order": "QuasiRandom Random Sequential",
    f"{_FFCV}.traversal_order.base": "TraversalOrder",
    f"{_FFCV}.types": "ALLOC_TABLE_TYPE CURRENT_VERSION TYPE_ID_HANDLER FieldDescType HeaderType get_handlers "
    "get_metadata_type",
    f"{_FFCV}.utils": "align_to_page chunks decode_null_terminated_string is_power_of_2",
}
_PLACES = {name: f"{home}.{name}" for home, names in _HOMES.items() for name in names.split()}
_PLACES |= {"ch": "torch", "nb": "numba", "np": "numpy", "F": "torch.nn.functional"}
_NOT_BY_STAR = ("astor", "cv2", "distutils", "numba", "tqdm")


def pass_on(namespace: dict[str, Any], names: str, **places: str | Callable[[], Any]) -> None:
    """Let a module give these names, too, also by ``import *`` unless they need a package that may be missing.

    Args:
        namespace: the module's ``globals()``, with its ``__all__``.
        names: of the usual places, or of modules.
        places: other names, each with its dotted place, or with a function that makes it.
    """
    known: dict[str, str | Callable[[], Any]] = {name: _PLACES.get(name, name) for name in names.split()}
    known |= places
    here = namespace["__name__"]

    def find(name: str) -> Any:
        if name not in known:
            raise AttributeError(f"module {here!r} has no attribute {name!r}")
        place = known[name]
        namespace[name] = found = _import(place, f"{here}.{name}") if isinstance(place, str) else place()
        return found

    namespace["__getattr__"] = find
    by_star = [name for name, place in known.items() if str(place).partition(".")[0] not in _NOT_BY_STAR]
    namespace["__all__"] = [*namespace["__all__"], *by_star]


def _import(place: str, needed_by: str) -> Any:
    """What stands at a dotted place: a module, or a member of one."""
    home, _, member = place.rpartition(".")
    try:
        module = importlib.import_module(home or member)
        return getattr(module, member) if home and hasattr(module, member) else importlib.import_module(place)
    except ModuleNotFoundError as error:
        package = place.partition(".")[0]
        if error.name != package:
            raise
        problem = f"{needed_by} is a name of the package {package!r}, which is not installed"
        raise ImportError(f"{problem}. Install it with: pip install {package}") from None
