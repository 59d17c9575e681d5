from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import COUNT, CROP, LABELS_ONLY, contents

import headrace as hr
from headrace import Loader, ops
from headrace._native import simd_level

if TYPE_CHECKING:
    from pathlib import Path

NORMALIZE = ops.Normalize([10, 20, 30], [50, 60, 70])
OTHERS: dict[str, Any] = {"array": None, "text": None}


class Count:
    """A function that counts its calls and gives back what it gets."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, values: Any) -> Any:
        self.calls += 1
        return values


def images(path: Path, *pipeline: Any, **options: Any) -> np.ndarray:
    (batch,) = Loader(path, COUNT, pipelines={"image": list(pipeline)} | OTHERS, **options)
    return batch.image


def plan_of(path: Path, pipelines: dict[str, Any], **options: Any) -> list[str]:
    return Loader(path, 4, pipelines=pipelines, **options).plan().splitlines()


# -- the plan in words --------------------------------------------------------------------------------------------


def test_the_plan_is_told_in_words(path: Path) -> None:
    pipelines = {"image": [*CROP, ops.Apply(np.ascontiguousarray)], "text": None}
    assert plan_of(path, pipelines) == [
        "image: one native call (decode, RandomResizedCrop, resize (area), flip, uint8, NHWC); "
        "then Python: ascontiguousarray",
        "label: one read for a batch",
        "array: one read for a batch",
        "text: left out",
        Loader(path, 1).options.describe_jpegs(simd_level()),
        f"JPEGs: {hr.open(path).jpegs_indexed} tile indices",
        "bytes: from the mapped file",
    ]


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        ([], "one native call (decode, uint8, NHWC)"),
        ([ops.RandomCrop(8)], "one native call (decode, RandomCrop, uint8, NHWC)"),
        (
            [ops.RandomHorizontalFlip(), ops.CenterCrop(8, interpolation="bicubic"), NORMALIZE, ops.ToLayout("NCHW")],
            "one native call (decode, flip, CenterCrop, resize (bicubic), normalize, float32, NCHW)",
        ),
        (
            [ops.Resize(8), ops.RandomBrightness(1), ops.Cutout(2), ops.RandomTranslate(1), ops.ToDtype("float16")],
            "one native call (decode, Resize, resize (area), brightness, cutout, translate, float16, NHWC)",
        ),
        (
            [ops.Resize(8), ops.Resize(4), NORMALIZE],
            "one native call (decode, Resize, resize (area), uint8, NHWC); "
            "then one native call (Resize, resize (area), normalize, float32, NHWC)",
        ),
        (
            [ops.Resize(8), ops.Poison(0, 0.5, []), ops.RandomHorizontalFlip(), ops.ImageMixup(1), NORMALIZE],
            "one native call (decode, Resize, resize (area), uint8, NHWC); then Python: Poison; "
            "then one native call (flip, uint8, NHWC); then Python: ImageMixup; "
            "then one native call (normalize, float32, NHWC)",
        ),
        (
            [ops.Resize(8), ops.ToDtype("int32"), ops.ToLayout("NCHW")],
            "one native call (decode, Resize, resize (area), uint8, NHWC); then Python: ToDtype; then Python: ToLayout",
        ),
    ],
)
def test_the_plan_of_pictures(path: Path, pipeline: list[Any], words: str) -> None:
    assert plan_of(path, {"image": pipeline})[0] == f"image: {words}"


def test_the_plan_of_branches_collate_and_reading(path: Path) -> None:
    pipelines = {"image": [ops.Resize(8), {"a": [], "b": [NORMALIZE]}], "label": [{"c": [ops.OneHot(40)], "d": []}]}
    plan = plan_of(path, pipelines | {"array": None}, collate="pad", cache="8MB")
    assert plan[:-3] == [
        "image: one native call (decode, Resize, resize (area), uint8, NHWC); then for each of the following:",
        "  a: as it is",
        "  b: one native call (normalize, float32, NHWC)",
        "label: one read for a batch; then for each of the following:",
        "  c: Python: OneHot",
        "  d: as it is",
        "text: one read for a batch; then collate: pad",
        "array: left out",
    ]
    assert plan[-1] in ("bytes: read ahead into 8 MiB, by io_uring", "bytes: read ahead into 8 MiB, by threads")


# -- functions in the middle ----------------------------------------------------------------------------------------


def test_picture_ops_may_follow_a_function(path: Path) -> None:
    resized = images(path, ops.Resize(16))
    invert = ops.Apply(lambda pictures: 255 - pictures)
    found = images(path, ops.Resize(16), invert, ops.RandomHorizontalFlip(1), ops.ToLayout("NCHW"))
    np.testing.assert_array_equal(found, (255 - resized)[:, :, ::-1].transpose(0, 3, 1, 2))


def test_crops_behind_a_function_choose_as_without_it(path: Path) -> None:
    same, crop = ops.Apply(lambda pictures: pictures, "same"), ops.RandomCrop(7, share="crop")
    found = images(path, ops.Resize(16), same, crop, NORMALIZE)
    np.testing.assert_allclose(found, images(path, ops.Resize(16), crop, NORMALIZE), atol=1e-6)


def test_two_crops_one_after_the_other(path: Path) -> None:
    first = images(path, ops.CenterCrop(24))
    np.testing.assert_array_equal(images(path, ops.CenterCrop(24), ops.Resize(24), ops.Resize(24)), first)
    part = images(path, ops.CenterCrop(24), ops.CenterCrop(6, ratio=0.25))
    np.testing.assert_array_equal(part, first[:, 9:15, 9:15])


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (np.zeros((COUNT, 8, 8), np.uint8), r"uint8 of shape \(37, 8, 8\)"),
        (np.zeros((COUNT, 8, 8, 3), np.float32), r"float32 of shape \(37, 8, 8, 3\)"),
        (np.zeros((COUNT, 3, 8, 9), np.uint8), r"uint8 of shape \(37, 3, 8, 9\)"),
    ],
)
def test_a_function_that_does_not_give_pictures_is_told_when_it_runs(path: Path, given: np.ndarray, found: str) -> None:
    with pytest.raises(ValueError, match=rf"pipelines\['image'\]: Resize, .*, height, width, 3\), and gets {found}"):
        images(path, ops.Resize(8), ops.Apply(lambda pictures: given), ops.Resize(4))


def test_a_function_may_give_pictures_that_are_not_contiguous(path: Path) -> None:
    resized = images(path, ops.Resize(16))
    for view in (lambda p: p[:, ::2], lambda p: p[:, :, ::-1], lambda p: p.swapaxes(1, 2)):
        found = images(path, ops.Resize(16), ops.Apply(view, "view"), ops.RandomHorizontalFlip(1))
        np.testing.assert_array_equal(found, view(resized)[:, :, ::-1])


def test_functions_run_one_batch_after_the_other_and_in_order(path: Path) -> None:
    seen: list[int] = []

    def note(label: np.ndarray) -> np.ndarray:
        seen.append(int(label[0]))
        return label

    loader = Loader(path, 1, workers=4, batches_ahead=6, pipelines=LABELS_ONLY | {"label": [ops.Apply(note)]})
    assert len(list(loader)) == COUNT
    assert seen == list(range(COUNT))


def test_a_class_of_ones_own_can_be_an_op(path: Path) -> None:
    class Jitter:
        """Numbers of a user's own from the same source as all others."""

        def form(self, before: ops.Form) -> ops.Form:
            return ops.Form("float64", before.shape)

        def apply(self, values: np.ndarray, draws: ops.Draws) -> np.ndarray:
            return values + draws.uniform(0)

        def __repr__(self) -> str:
            return "Jitter()"

    pipelines: dict[str, Any] = LABELS_ONLY | {"label": [Jitter()]}
    first = contents(Loader(path, 5, workers=1, pipelines=pipelines))
    assert contents(Loader(path, 5, workers=3, pipelines=pipelines)) == first
    batch = next(iter(Loader(path, 5, pipelines=pipelines)))
    assert batch.label.astype(int).tolist() == [0, 1, 2, 3, 4]


# -- several outputs of one field -----------------------------------------------------------------------------------


def test_what_branches_share_is_done_once(path: Path) -> None:
    shared, first, second = Count(), Count(), Count()
    branches = {"a": [ops.Apply(first)], "b": [ops.Apply(second), ops.RandomHorizontalFlip(1)], "c": []}
    pipelines: dict[str, Any] = {"image": [ops.Resize(16), ops.Apply(shared), branches]} | OTHERS
    batches = list(Loader(path, 5, pipelines=pipelines))
    assert (shared.calls, first.calls, second.calls) == (7, 7, 7)
    for batch in batches:
        assert batch.keys() == ("a", "b", "c", "label")
        np.testing.assert_array_equal(batch.b, batch.a[:, :, ::-1])
        np.testing.assert_array_equal(batch.c, batch.a)


def test_branches_share_the_draws_of_what_stands_before_them(path: Path) -> None:
    pipelines: dict[str, Any] = {"image": [*CROP, {"small": [], "normal": [NORMALIZE]}]} | OTHERS
    (batch,) = Loader(path, COUNT, pipelines=pipelines)
    np.testing.assert_allclose(batch.normal, (batch.small - np.array([10, 20, 30])) / [50, 60, 70], atol=1e-5)


def test_branches_draw_for_themselves(path: Path) -> None:
    pipelines: dict[str, Any] = {"image": [{"one": CROP, "two": CROP, "same": CROP}]} | OTHERS
    (batch,) = Loader(path, COUNT, pipelines=pipelines)
    assert (batch.one != batch.two).any(axis=(1, 2, 3)).all()
    shared = [ops.RandomResizedCrop(16, share="a"), ops.RandomHorizontalFlip(share="b")]
    (batch,) = Loader(path, COUNT, pipelines={"image": [{"one": shared, "two": shared}]} | OTHERS)
    np.testing.assert_array_equal(batch.one, batch.two)


def spoil(array: np.ndarray) -> np.ndarray:
    """An op that works in place."""
    array[:] = 0
    return array


@pytest.mark.parametrize("before", [[ops.Resize(16)], [ops.Resize(16), ops.Apply(lambda p: p, "same")]])
def test_branches_do_not_share_memory(path: Path, before: list[Any]) -> None:
    plain = images(path, ops.Resize(16))
    branches = {"a": [ops.Apply(spoil)], "b": [], "c": [ops.Apply(spoil)], "d": [ops.RandomHorizontalFlip(1)], "e": []}
    for names in ("abcde", "edcba", "dab"):
        chosen = {name: branches[name] for name in names}
        (batch,) = Loader(path, COUNT, pipelines={"image": [*before, chosen]} | OTHERS)
        for name in set("be") & set(names):
            np.testing.assert_array_equal(batch[name], plain)
        if "d" in names:
            np.testing.assert_array_equal(batch.d, plain[:, :, ::-1])
        arrays = [batch[name] for name in names]
        assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])


def test_branches_of_branches(path: Path) -> None:
    inner = {"c": [ops.Apply(spoil)], "d": [ops.RandomHorizontalFlip(1)], "e": []}
    pipeline = [ops.Resize(16), {"a": [ops.ToLayout("NCHW")], "b": [ops.RandomHorizontalFlip(1), inner]}]
    (batch,) = Loader(path, COUNT, pipelines={"image": pipeline} | OTHERS)
    plain = images(path, ops.Resize(16))
    assert batch.keys() == ("a", "c", "d", "e", "label")
    np.testing.assert_array_equal(batch.a, plain.transpose(0, 3, 1, 2))
    np.testing.assert_array_equal(batch.d, plain)
    np.testing.assert_array_equal(batch.e, plain[:, :, ::-1])
    assert not batch.c.any()


def test_branches_of_other_fields(path: Path) -> None:
    pipelines: dict[str, Any] = {
        "image": None,
        "label": [{"number": [], "row": [ops.OneHot(COUNT)]}],
        "text": [{"words": [], "length": [ops.Apply(lambda texts: np.array([len(t) for t in texts]))]}],
    }
    (batch,) = Loader(path, COUNT, pipelines=pipelines, collate={"words": "pad"})
    np.testing.assert_array_equal(batch.row.argmax(axis=1), batch.number)
    assert batch.words.lengths.tolist() == batch.length.tolist()


@pytest.mark.parametrize(
    ("pipelines", "message"),
    [
        ({"image": [{"label": []}]}, "two outputs of the pipelines have the same name: label, label"),
        ({"image": [{"a": []}], "label": [{"a": []}]}, "two outputs of the pipelines have the same name"),
        ({"image": [{"a": []}, ops.Resize(8)]}, r"pipelines\['image'\]: a mapping of branches must be the last item"),
        ({"image": [{"a": [NORMALIZE, ops.Resize(8)]}]}, r"pipelines\['image'\]: Resize works on pictures"),
    ],
)
def test_wrong_branches_are_told_at_once(path: Path, pipelines: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loader(path, 4, pipelines=pipelines)
