from __future__ import annotations

import inspect
import pickle

import pytest

from headrace import errors

EXAMPLES = [
    errors.FormatError("a.beton", problem="x expected, found y", offset=7, fix="Do z."),
    errors.AnnexError("a.beton.annex", problem="broken"),
    errors.CorruptSampleError("a.beton", sample=3, field="image", offset=99, problem="bad", fix="Restore."),
    errors.ImageError("not a picture"),
    errors.SampleTooLargeError(sample=4, size_bytes=9, page_size=8, needed_page_size=16),
    errors.WriteError("sample 3: oops", sample=3, source=8),
    errors.WorkerDiedError("killed"),
    errors.MissingExtraError("torch", extra="torch", needed_by="to_torch()"),
    errors.UnknownFormatError("no format"),
    errors.ClosedError("closed"),
    errors.DeviceError("cuda:0: no memory"),
    errors.RemoteError("s3://bucket/a.tar", problem="the store does not answer", fix="Try again."),
    errors.ChangedError("s3://bucket/a.tar", problem="it was replaced"),
    errors.RefusedError("s3://bucket/a.tar", problem="the store does not let us in"),
    errors.CorruptFileError("a.barecat", name="cat/1", problem="bad", fix="Restore."),
    errors.EntryNotFoundError("a.barecat", "cat/1"),
    errors.EntryExistsError("a.barecat", "cat/1"),
    errors.EntryIsDirectoryError("a.barecat", "cat"),
    errors.EntryIsFileError("a.barecat", "cat/1/2"),
    errors.DirectoryNotEmptyError("a.barecat", "cat"),
    errors.FileTooLargeError("a.barecat", name="cat/1", size_bytes=9, limit=8),
    errors.ArchiveBusyError("a.barecat: busy"),
    errors.UnfinishedError("a.barecat", left="a.barecat-undo", problem="a writer was killed"),
    errors.BrokenPicturesError("photos", broken=["a.jpg: it is empty"], total=3),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda e: type(e).__name__)
def test_survives_the_way_to_another_process(error: errors.HeadraceError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_the_examples_are_all_of_the_tree() -> None:
    classes = {getattr(errors, name) for name in errors.__all__}
    assert classes - {errors.HeadraceError} == {type(e) for e in EXAMPLES}
    assert all(issubclass(c, errors.HeadraceError) for c in classes)
    for name in errors.__all__:
        assert name in (inspect.getdoc(errors) or ""), f"{name} is missing in the tree atop errors.py"


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.FormatError, ValueError),
        (errors.AnnexError, errors.FormatError),
        (errors.UnfinishedError, errors.FormatError),
        (errors.CorruptSampleError, ValueError),
        (errors.ImageError, ValueError),
        (errors.SampleTooLargeError, ValueError),
        (errors.WriteError, RuntimeError),
        (errors.WorkerDiedError, RuntimeError),
        (errors.MissingExtraError, ImportError),
        (errors.UnknownFormatError, LookupError),
        (errors.ClosedError, RuntimeError),
        (errors.CorruptFileError, ValueError),
        (errors.EntryNotFoundError, KeyError),
        (errors.EntryNotFoundError, FileNotFoundError),
        (errors.EntryExistsError, FileExistsError),
        (errors.EntryIsDirectoryError, IsADirectoryError),
        (errors.EntryIsFileError, NotADirectoryError),
        (errors.DirectoryNotEmptyError, OSError),
        (errors.FileTooLargeError, ValueError),
        (errors.ArchiveBusyError, RuntimeError),
    ],
)
def test_leaves_are_also_the_fitting_builtin(error: type, builtin: type) -> None:
    assert issubclass(error, builtin)


def test_messages_say_where_what_and_what_to_do() -> None:
    assert str(EXAMPLES[0]) == "a.beton: x expected, found y (at byte 7). Do z."
    assert str(EXAMPLES[2]) == "a.beton: sample 3, field 'image', byte 99: bad. Restore."
    assert "page_size=16" in str(EXAMPLES[4])
    assert "pip install 'headrace[torch]'" in str(EXAMPLES[7])


def test_a_sample_that_no_page_can_hold() -> None:
    error = errors.SampleTooLargeError(sample=0, size_bytes=1 << 40, page_size=8, needed_page_size=None)
    assert "split the sample" in str(error)
    assert "page_size=" not in str(error)
