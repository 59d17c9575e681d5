"""``headrace.convert``: files and samples between formats, tar, zip, folders and streams."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any, Literal

from headrace.progress import parse_bytes
from headrace.storage import as_path, storage_of
from headrace.transfer.conversion import Conversion
from headrace.transfer.samples import PictureChange, SampleOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import BinaryIO

    from headrace.errors import PathLike
    from headrace.formats.ray_tasks import EngineName
    from headrace.formats.report import Transfer
    from headrace.types import Progress

__all__ = ["convert"]

_log = logging.getLogger("headrace")


def convert(
    source: PathLike | BinaryIO,
    target: PathLike | BinaryIO,
    *,
    source_kind: str | None = None,
    target_kind: str | None = None,
    field: str | Sequence[str] | None = None,
    decode: str | None = None,
    names: bool = True,
    map: Mapping[str, str] | None = None,
    image_mode: Literal["jpg", "raw", "smart", "proportion"] | None = None,
    quality: int | None = None,
    max_side: int | None = None,
    smart_threshold: int | None = None,
    workers: int | None = None,
    shuffle_seed: int | None = None,
    limit: int | None = None,
    skip_broken: bool = False,
    shard_size: int | str | None = None,
    shard_samples: int | None = None,
    verify: bool = False,
    resume: bool = False,
    exact_times: bool = False,
    max_bytes: int | None = None,
    follow_links: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    cache_dir: PathLike | None = None,
    cache_size: int | str | None = None,
    force: bool = False,
    dry_run: bool = False,
    engine: EngineName = "local",
    address: str | None = None,
    on_left_out: Callable[[str], None] | None = None,
    progress: Progress | bool = False,
    **options: Any,
) -> Transfer:
    """Write a dataset, archive, tar, zip or folder as another; the target appears when it is complete, or not at all.

    The source comes first, as in ``cp``. Where both sides hold files (.barecat, .tar, .tar.gz, .tar.bz2, .tar.xz,
    .tar.zst, .zip, a folder), all files and directories are carried with modes and times; links inside a tar become
    files, and names that lead out of the target are refused. Where one side holds samples (.beton, .ffr and other
    formats), samples are carried: JPEG pictures and bytes as they are stored, in a tar, zip or folder as one file for
    each field that has bytes. A packed folder whose files are all pictures becomes a dataset with an ``image`` field.
    Files that have the name of a picture, but for what follows the first dot, are fields of its sample: ``7.jpg`` is
    the image, ``7.cls`` the label, ``7.txt`` the text, ``7.json`` the json.

    Names, names of classes and metadata are kept. What the target cannot hold, or was not asked for, is named before
    anything is written. Where fields would be lost unasked, that is an error. Samples pass in blocks, so memory does
    not grow with their number.

    Args:
        source: what is read, a path or a URL; also a pattern such as ``train-*.beton``, and then the samples of all
            files are carried.
            A tar may also come from a stream that is open for reading bytes; its links are left out, because a stream
            is read once.
        target: what is made, a path or a URL (see ``write``); its ending decides the format. A folder keeps what it
            has when something goes wrong. A tar or zip may also go to a stream, which stays open.
        source_kind: what the source is where no ending says so: ``"tar"``, ``"tar.gz"``, ``"zip"`` and so on.
        target_kind: what the target will be where no ending says so.
        field: only this field of the samples, or these. Needed when the target cannot hold all of them.
        map: other names for fields, old name to new name; an empty name leaves the field out.
        decode: what the samples of an .ffr are, see ``FfrDataset``; by default pictures where all names say so and
            the target says itself what its samples are, and bytes otherwise. Of files, ``"bytes"`` takes all as they
            are.
        names: keep the names of the samples.
        image_mode: how pictures are stored, see ``Image``; by default as they are. A JPEG stays as it is if it need not
            become smaller, and with ``"jpg"`` files of other kinds become JPEG.
        quality: of JPEGs that have to be encoded.
        max_side: shrink pictures whose longer side is longer than this.
        smart_threshold: for ``image_mode="smart"``, see ``Image``.
        workers: threads that encode samples; by default one for each core.
        shuffle_seed: store the samples in an order shuffled with this seed.
        limit: only so many samples, the first ones in the order of writing.
        skip_broken: leave out pictures that cannot be stored; by default they are an error that names all of them.
        shard_size: limit of the shards of a .barecat; or, if the name of the target has a number in it, such as
            ``train-%06d.beton``, bytes of the samples in one of many files: a number or text such as ``"500M"``.
        shard_samples: number of samples in one of many files.
        verify: read what was written, and compare it with the source, before it gets its name. A folder, and a set
            that is resumed, stay where they are when something differs.
        resume: go on with a set of files, here or in a store, where an earlier call with ``resume`` was interrupted:
            each file appears as soon as it is complete, and is not written again if it is still as it was left. Until
            all are there a note beside the set says so, and ``headrace.open`` refuses a pattern of them.
        exact_times: keep fractions of seconds in a tar, which takes a kilobyte more for each file; by default times are
            in whole seconds, as tar(1) writes them.
        max_bytes: refuse more content of a tar or zip than this; by default 1 GiB, or 200 times its size.
        follow_links: also read shards and an annex of the source that are symbolic links.
        storage_options: how stores are reached, see ``headrace.open``; and so are ``cache_dir`` and ``cache_size``.
        cache_dir: keeps what was read from stores.
        cache_size: bytes that it may take.
        force: replace the target.
        dry_run: write nothing, and say what would be written; sizes of samples are estimated from a few.
        engine: ``"ray"``: the files of a set are made by tasks of a Ray cluster, each file by one, the same to the byte
            as by ``"local"``, the threads of this process. The cluster must see source and target under the same
            paths, or reach them by URLs, and have the same headrace.
        address: of the Ray cluster, as ``ray.init`` takes it; by default one is started on this machine, with
            ``workers`` tasks at a time.
        on_left_out: called with a line for each thing, or each kind of thing, that is left out, as soon as it is
            known; by default that goes to the log.
        progress: True for a progress bar, or a function to call with (done, total, size_bytes).
        **options: what the target format's writer takes, such as ``page_size``.

    Returns:
        What was carried: ``samples`` is their number where samples were written, and None where files were;
        ``skipped`` says what was left out, and ``broken`` which pictures cannot be stored.

    Raises:
        BrokenPicturesError: pictures cannot be stored; nothing was written.
        ValueError: fields or files that belong to samples would be lost; ``field`` says which one is wanted. Or a set
            cannot be resumed, because the source or the options are others.
        WriteError: a sample could not be read or written, or, with ``verify``, differs.

    Example:
        >>> import os, pathlib, tempfile, headrace
        >>> folder = tempfile.mkdtemp()
        >>> _ = pathlib.Path(folder, "in").mkdir(), pathlib.Path(folder, "in", "a.txt").write_text("hello")
        >>> headrace.convert(f"{folder}/in", f"{folder}/x.tar").files
        1
        >>> headrace.convert(f"{folder}/x.tar", f"{folder}/x.beton").samples
        1
        >>> headrace.open(f"{folder}/x.beton")[0]
        Sample(text='hello')
    """
    pictures = PictureChange(mode=image_mode, quality=quality, max_side=max_side, smart_threshold=smart_threshold)
    storage = storage_of(storage_options, cache_dir, cache_size)
    conversion = Conversion(
        source=as_path(source, storage) if isinstance(source, str | os.PathLike) else source,
        target=as_path(target, storage) if isinstance(target, str | os.PathLike) else target,
        source_kind=source_kind,
        target_kind=target_kind,
        decode=decode,
        samples=SampleOptions(
            fields=_names_of(field),
            renamed=dict(map) if map else None,
            pictures=None if pictures == PictureChange() else pictures,
            names=names,
            workers=workers,
            shuffle_seed=shuffle_seed,
            limit=_checked_limit(limit),
            skip_broken=skip_broken,
        ),
        shard_size=parse_bytes(shard_size) if isinstance(shard_size, str) else shard_size,
        shard_samples=shard_samples,
        verify=verify,
        resume=resume,
        exact_times=exact_times,
        max_bytes=max_bytes,
        follow_links=follow_links,
        force=force,
        dry_run=dry_run,
        on_left_out=on_left_out or _log_left_out,
        progress=progress,
        options=options,
        engine=engine,
        address=address,
    )
    return conversion.run()


def _checked_limit(limit: int | None) -> int | None:
    if limit is not None and (isinstance(limit, bool) or not hasattr(limit, "__index__") or limit < 0):
        raise ValueError(f"limit must be a whole number from 0 on, got {limit!r}")
    return limit


def _names_of(field: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if field is None:
        return None
    names = (field,) if isinstance(field, str) else tuple(field)
    if not names:
        raise ValueError("field is an empty list; name a field, or leave it out for all of them")
    return names


def _log_left_out(line: str) -> None:
    _log.warning("left out: %s", line)
