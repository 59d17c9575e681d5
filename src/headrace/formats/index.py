"""``headrace.index``: give an existing dataset an annex."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.formats.open import FORMATS, all_formats, locate
from headrace.formats.ray_tasks import TaskCall, check_engine, open_tasks
from headrace.progress import format_count
from headrace.storage import is_remote, storage_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.open import Place
    from headrace.formats.ray_tasks import EngineName
    from headrace.types import Progress

__all__ = ["index"]


def index(
    path: PathLike,
    *,
    embed: bool = False,
    fresh: bool = False,
    names: Sequence[str] | None = None,
    class_names: Mapping[str, Sequence[str]] | None = None,
    metadata: Any = None,
    jpeg_index: bool = True,
    progress: Progress | None = None,
    follow_links: bool = False,
    engine: EngineName = "local",
    address: str | None = None,
    workers: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: PathLike | None = None,
    cache_size: int | str | None = None,
) -> str:
    """Give a dataset an annex: checksums of every value, and tile indices of the JPEGs of every field.

    A .beton keeps names, classes and metadata there, too, as given. What an annex that is there already knows is kept
    unless it is given anew. If it has checksums, the file is checked first, and a damaged file is refused: new
    checksums would hide the damage.

    Formats that a pass over the file must find the samples of (tar, TFRecord, manifests and the like) keep where they
    are in the annex, with names, checksums and tile indices. Formats of columns (HDF5, Parquet, Arrow, .npz, .npy) get
    checksums and tile indices, .ffr and .barecat, which have checksums of their own, tile indices alone; there
    ``embed``, ``names``, ``class_names`` and ``metadata`` are refused.

    Args:
        path: the dataset, for example a .beton that FFCV wrote; or a pattern such as ``train-*.beton``: each of the
            files gets its own. Of a URL the object is read, and the annex becomes an object beside it.
        embed: put the annex into the file (it is copied and replaced in one step; FFCV still reads it) instead of
            beside it as ``FILE.annex``.
        fresh: do not look at the annex there is (because it is damaged, say); nothing of it is kept.
        names: a name for each sample.
        class_names: field name to names of its classes.
        metadata: anything JSON can hold, about the whole dataset.
        jpeg_index: make a tile index of every JPEG, so that a crop is decoded without the rest of its picture.
        progress: called as the work advances.
        follow_links: also read shards and an annex that are symbolic links. No annex is written through a link.
        engine: ``"ray"``: each file of a set gets its annex from a task of a Ray cluster.
        address: of the Ray cluster, as ``ray.init`` takes it; by default one is started on this machine.
        workers: tasks at a time, with ``engine="ray"``; by default one for each core of the cluster.
        storage_options: how a store is reached, see ``headrace.open``; and so are ``cache_dir`` and ``cache_size``.
        cache_dir: keeps what was read from stores.
        cache_size: bytes that it may take.

    Returns:
        The path of the file that now holds the annex; of many files, that of the last.

    Raises:
        RefusedError: a store does not let us write the annex.
    """
    place = locate(path, storage=storage_of(storage_options, cache_dir, cache_size))
    if embed:
        _refuse_embedding(place.paths)
    found = place.format
    if found.index is None:
        known = ", ".join(one.suffixes[0] for one in all_formats() if one.index is not None)
        raise ValueError(f"{path} is a {found.name}, and only {known} have an annex; pack or convert it first")
    if names is not None and len(place.paths) > 1:
        raise ValueError(f"{path} are {format_count(len(place.paths), 'file')}; give names to each of them alone")
    options = {"embed": embed, "fresh": fresh, "names": names, "class_names": class_names, "metadata": metadata}
    options |= {"jpeg_index": jpeg_index, **found.link_options(follow_links)}
    if check_engine(engine, address) == "ray":
        return _index_by_tasks(place, options, address, workers, progress)
    where = ""
    for one in place.paths:
        where = found.index(one, progress=progress, **options)
    return where


def _refuse_embedding(paths: Sequence[str]) -> None:
    for path in paths:
        if is_remote(path):
            raise ValueError(
                f"{path} is in a store, where objects are written whole and not changed: embed=True or --embed would "
                "change it. Leave it out, and the annex becomes an object beside it"
            )


def _index_by_tasks(
    place: Place, options: dict[str, Any], address: str | None, workers: int | None, progress: Progress | None
) -> str:
    """The same by tasks of a cluster, one for each file."""
    last, done, size_bytes = "", 0, 0
    with open_tasks(address=address, workers=workers, needed_by="index(engine='ray')") as tasks:
        calls = [TaskCall(one, _index_one, (place.format.name, one, options)) for one in place.paths]
        for number, (where, samples, size) in tasks.map(calls):
            last = where if number == len(calls) - 1 else last
            done, size_bytes = done + samples, size_bytes + size
            if progress is not None:
                progress(done, None, size_bytes)
    return last


def _index_one(format: str, path: str, options: dict[str, Any]) -> tuple[str, int, int]:
    """Give a file its annex, in the process of a task; the path of the annex, samples and bytes that were read."""
    seen = [0, 0]

    def note(done: int, total: int | None, size_bytes: int) -> None:
        seen[:] = done, size_bytes

    index_format = FORMATS.load(format).index
    assert index_format is not None
    return index_format(path, progress=note, **options), seen[0], seen[1]
