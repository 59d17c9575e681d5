from __future__ import annotations

import inspect
import pickle
import re
import sys
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.loader.tools import COUNT, LABELS_ONLY, labels

from headrace import Loader, ops
from headrace.errors import MissingExtraError
from headrace.loader.launcher import find_rank
from headrace.loader.options import _OTHER_NAMES, LoaderOptions

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "SLURM_NTASKS"):
        monkeypatch.delenv(name, raising=False)


def launched(monkeypatch: pytest.MonkeyPatch, **variables: Any) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, str(value))


# -- ranks --------------------------------------------------------------------------------------------------------


def test_rank_and_world_come_from_the_launcher(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for rank in range(3):
        launched(monkeypatch, RANK=rank, WORLD_SIZE=3, LOCAL_RANK=0)
        loader = Loader(path, 4, order="random", distributed=True, drop_last=False, pipelines=LABELS_ONLY)
        assert (loader.options.rank, loader.options.world) == (rank, 3)
        named = Loader(path, 4, order="random", rank=rank, world=3, drop_last=False, pipelines=LABELS_ONLY)
        found = labels(loader)
        assert found == labels(named)
        seen += [i for batch in found for i in batch]
    assert sorted(seen) == list(range(COUNT))


def test_rank_and_world_come_from_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, SLURM_PROCID=2, SLURM_NTASKS=5)
    assert find_rank(distributed=True, rank=None, world=None) == (2, 5)
    launched(monkeypatch, RANK=1, WORLD_SIZE=4)  # torchrun below Slurm knows better
    assert find_rank(distributed=True, rank=None, world=None) == (1, 4)


def test_a_launcher_that_says_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "first")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(ValueError, match="RANK='first' and WORLD_SIZE='4', which must be whole numbers"):
        find_rank(distributed=True, rank=None, world=None)


def test_what_is_named_counts_more_than_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, RANK=1, WORLD_SIZE=4)
    assert find_rank(distributed=True, rank=0, world=2) == (0, 2)


def test_the_launcher_counts_only_when_asked(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    launched(monkeypatch, RANK=1, WORLD_SIZE=4)
    assert find_rank(distributed=False, rank=None, world=None) == (0, 1)
    assert len(Loader(path, 1)) == COUNT


@pytest.mark.parametrize(
    ("options", "variables", "message"),
    [
        ({"distributed": True}, {}, "neither torch.distributed is initialised nor are RANK and WORLD_SIZE set; start"),
        ({"distributed": True}, {"RANK": 1}, "neither torch.distributed"),
        ({"distributed": True}, {"RANK": 4, "WORLD_SIZE": 4}, "rank must be 0 to 3 in a world of 4, got 4"),
        ({"distributed": True}, {"RANK": "first", "WORLD_SIZE": 4}, "first"),
        ({"rank": 1}, {}, "rank and world belong together, got rank=1 and world=None"),
        ({"world": 2}, {}, "rank and world belong together, got rank=None and world=2"),
        ({"rank": -1, "world": 2}, {}, "rank must be 0 to 1 in a world of 2, got -1"),
        ({"rank": 0, "world": 0}, {}, "world must be at least 1, got 0"),
    ],
)
def test_wrong_ranks_are_told_at_once(
    path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, variables: Any, message: str
) -> None:
    launched(monkeypatch, **variables)
    with pytest.raises(ValueError, match=message):
        Loader(path, 4, **options)


# -- what is no number --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["batch_size", "workers", "batches_ahead", "pool_pages", "seed"])
@pytest.mark.parametrize("value", [2.0, "2", True, [2]])
def test_numbers_must_be_whole(path: Path, name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=rf"{name} must be a whole number( or 'auto')?, got {re.escape(repr(value))}"):
        Loader(path, **({"batch_size": 4} | {name: value}))


def test_numbers_may_be_numpys(path: Path) -> None:
    plain = Loader(path, 4, seed=3, order="random", pipelines=LABELS_ONLY)
    numpys = Loader(path, np.int32(4), seed=np.uint8(3), order="random", workers=np.int64(2), pipelines=LABELS_ONLY)
    assert labels(numpys) == labels(plain)
    assert numpys.state_dict() == plain.state_dict()


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64 + 5, 10**30])
def test_any_whole_number_is_a_seed(path: Path, seed: int) -> None:
    found = labels(Loader(path, COUNT, seed=seed, order="random", pipelines=LABELS_ONLY))
    assert sorted(found[0]) == list(range(COUNT))
    assert found != labels(Loader(path, COUNT, order="random", pipelines=LABELS_ONLY))


@pytest.mark.parametrize("cache", [True, False, 2.5, ["8MB"]])
def test_a_cache_is_a_number_of_bytes(path: Path, cache: Any) -> None:
    with pytest.raises(TypeError, match="cache must be 'os' or a number of bytes"):
        Loader(path, 4, cache=cache)


def test_the_framework_follows_from_the_device(path: Path) -> None:
    def chosen(**options: Any) -> tuple[str | None, object]:
        found = LoaderOptions(4, **options)
        assert replace(found, seed=1).framework == found.framework
        return found.framework, found.device

    assert chosen() == chosen(framework="numpy") == chosen(device="numpy") == ("numpy", None)
    assert chosen(device="cuda:1") == chosen(framework="torch", device="cuda:1") == ("torch", "cuda:1")
    assert chosen(framework="torch") == chosen(device="torch") == ("torch", "cpu")
    assert chosen(framework="jax") == chosen(device="jax") == chosen(framework="jax", device="jax") == ("jax", None)
    assert chosen(framework="jax", device="cpu") == ("jax", "cpu")
    with pytest.raises(TypeError, match="framework must be one of numpy, torch, jax, cupy, got 3"):
        Loader(path, 4, framework=3)  # type: ignore[arg-type]


def test_a_framework_that_is_not_installed_is_told_at_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jax", "cupy", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtraError, match=rf"needs the '{name}' package.*'headrace\[{name}\]'"):
            Loader(path, 4, framework=name)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cache": 0}, "cache must be 'os' or a number of bytes, got 0"),
        ({"cache": "much"}, "'much' is not a size"),
        ({"on_error": "ignore"}, "on_error must be 'raise', 'skip' or a function, got 'ignore'"),
        ({"collate": "stack"}, "collate must be one of list, pad, offsets, got 'stack'"),
        ({"collate": {"text": "stack"}}, "collate must be one of list, pad, offsets, got 'stack'"),
        ({"collate": {"caption": "pad"}}, "collate names caption; the outputs are image, label, array, text"),
        ({"collate": {"text": "pad"}, "pipelines": {"text": None}}, "collate names text; the outputs are image"),
        ({"order": 3}, "order must be one of"),
        ({"framework": "mxnet"}, "framework must be one of numpy, cupy, jax, torch, got 'mxnet'$"),
        ({"framework": "tensorflow"}, "got 'tensorflow' .for TensorFlow see headrace.frameworks.tensorflow"),
        ({"framework": "numpy", "device": "cuda"}, "arrays of numpy have no device, got device='cuda'"),
        ({"framework": "torch", "device": "jax"}, "device='jax' means framework='jax', and framework is 'torch'"),
    ],
)
def test_wrong_choices_are_told_at_once(path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Loader(path, 4, **options)


@pytest.mark.parametrize("given", [np.zeros(37), np.zeros((37, 1), int), "backwards", None])
def test_an_order_must_give_whole_numbers(path: Path, given: Any) -> None:
    with pytest.raises(TypeError, match=r"the order function gave .*, expected n integers"):
        Loader(path, 4, order=lambda n, seed, epoch: given)


# -- names that other libraries have ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("shuffle", r"Loader has no option 'shuffle'; write order='random'$"),
        ("num_workers", r"Loader has no option 'num_workers'; write workers=, the number of threads$"),
        ("collate_fn", "write collate= .* or put ops.Apply"),
        ("sampler", "write order= with a function of .* or indices="),
        ("batch_sampler", "write order= "),
        ("pin_memory", "leave it out: device='cuda' copies from pinned memory"),
        ("prefetch_factor", "write batches_ahead=$"),
        ("persistent_workers", "leave it out"),
        ("worker_init_fn", "random numbers follow seed="),
        ("generator", "write seed=$"),
        ("timeout", "leave it out"),
        ("transform", r"write pipelines=, such as \{'image': \[ops.RandomResizedCrop\(224\), "),
        ("transforms", "write pipelines="),
        ("os_cache", "write cache='os', or a number of bytes"),
        ("recompile", "leave it out"),
        ("custom_fields", "leave it out"),
        ("world_size", "write world=, and rank="),
        # near misses
        ("batchsize", r"has no option 'batchsize'; did you mean batch_size\?$"),
        ("batch_sise", r"did you mean batch_size\?$"),
        ("Workers", r"did you mean workers\?$"),
        ("droplast", r"did you mean drop_last\?$"),
        ("pipline", "write pipelines="),
        ("num_worker", "write workers="),
        ("zzz", "has no option 'zzz'; the options are batch_size, order, seed, workers, pipelines"),
    ],
)
def test_an_option_of_another_name_is_answered_by_the_right_one(path: Path, name: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Loader(path, 4, **{name: True})


def test_every_advice_names_options_that_exist() -> None:
    known = set(inspect.signature(Loader).parameters)
    assert not known & set(_OTHER_NAMES)
    for advice in _OTHER_NAMES.values():
        assert set(re.findall(r"(\w+)=", advice)) - {"os_cache"} <= known


def test_options_by_place_are_answered(path: Path) -> None:
    with pytest.raises(TypeError, match="takes dataset and batch_size by place, and got True after them; write"):
        Loader(path, 4, True)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"Loader needs batch_size, such as Loader\(dataset, batch_size=256\)"):
        Loader(path)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="needs batch_size"):
        Loader(path, order="random")  # type: ignore[call-arg]


def test_a_subclass_is_called_by_its_own_name(path: Path) -> None:
    class MyLoader(Loader):
        pass

    with pytest.raises(TypeError, match="MyLoader has no option 'shuffle'"):
        MyLoader(path, 4, shuffle=True)


# -- pipelines that are none --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pipelines", "message"),
    [
        ([ops.Resize(8)], r"pipelines must be a mapping of field names to lists of ops, such as \{'image': .*, got \["),
        (ops.Resize(8), "pipelines must be a mapping of field names .*, got Resize"),
        (
            {"image": ops.Resize(8)},
            r"pipelines\['image'\] must be a list of ops or None, got Resize.*; put it into a l",
        ),
        ({"image": ops.Resize}, r"pipelines\['image'\] must be a list .*; put it into a list: \[Resize\(...\)\]"),
        (
            {"image": [ops.Resize]},
            r"pipelines\['image'\]: Resize is a class, not an op; write Resize\(...\), with",
        ),
        ({"image": [{"small": [ops.Resize]}]}, r"pipelines\['small'\]: Resize is a class, not an op"),
        ({"image": [[ops.Resize(8)]]}, r"pipelines\['image'\]: there is a list inside the list of ops"),
        ({"image": [np.flip]}, r"pipelines\['image'\]: .* is not an op; .* or wrap a function in Apply"),
        ({"image": 3}, r"pipelines\['image'\] must be a list of ops or None, got 3$"),
    ],
)
def test_a_pipeline_that_is_none_is_answered(path: Path, pipelines: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Loader(path, 4, pipelines=pipelines)


def test_a_field_that_does_not_exist(path: Path) -> None:
    with pytest.raises(ValueError, match=r"names the field 'images'; the fields are image, label, .*; did you mean"):
        Loader(path, 4, pipelines={"images": []})
    with pytest.raises(ValueError, match=r"names the field 'x'; the fields are image, label, array, text$"):
        Loader(path, 4, pipelines={"x": []})


# -- warnings -----------------------------------------------------------------------------------------------------

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def to_unit(images: np.ndarray) -> np.ndarray:
    return images / 255


def warned(path: Path, **options: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loader = Loader(path, **({"batch_size": 4} | options))
        for _ in loader:
            pass
        pickle.loads(pickle.dumps(loader))
    return caught


@pytest.mark.parametrize(
    "pipeline",
    [
        [ops.Normalize(MEAN, STD)],
        [ops.Resize(8), ops.RandomHorizontalFlip(), ops.Normalize(MEAN, STD), ops.ToLayout("NCHW")],
        [ops.ToDtype("float32"), ops.Normalize(MEAN, STD)],
        [ops.Resize(8), {"small": [ops.Normalize(MEAN, STD)], "raw": []}],
        [ops.Normalize([0.5] * 3, [0.5] * 3)],
    ],
)
def test_normalize_for_pixels_up_to_1_is_warned_of_once(path: Path, pipeline: Any) -> None:
    sized = pipeline if isinstance(pipeline[0], ops.Resize) else [ops.Resize(8), *pipeline]
    (found,) = warned(path, pipelines={"image": sized})
    assert found.filename == __file__
    assert found.category is UserWarning
    assert "pipelines['image']: Normalize has mean=[0." in str(found.message)
    assert "Multiply both by 255: Normalize([1" in str(found.message)
    if MEAN[0] in ops_numbers(sized):
        assert "Normalize([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])" in str(found.message)


def ops_numbers(pipeline: Any) -> list[float]:
    return [number for op in pipeline if isinstance(op, ops.Normalize) for number in op.mean]


@pytest.mark.parametrize(
    "pipeline",
    [
        [ops.Normalize([123.675, 116.28, 103.53], [58.395, 57.12, 57.375])],
        [ops.Normalize([0] * 3, [255] * 3)],
        [ops.Normalize([0] * 3, [1] * 3)],
        [ops.Normalize([0] * 3, [255] * 3), ops.Normalize(MEAN, STD)],
        [ops.Apply(to_unit), ops.Normalize(MEAN, STD)],
        [ops.ToDtype("float64"), ops.Apply(to_unit), ops.Normalize(MEAN, STD)],
        [ops.Normalize([0.5, 128, 128], [0.5, 64, 64])],
    ],
)
def test_normalize_that_is_right_is_not_warned_of(path: Path, pipeline: Any) -> None:
    assert warned(path, pipelines={"image": [ops.Resize(8), *pipeline]}) == []


def test_a_batch_larger_than_the_dataset_is_warned_of(path: Path) -> None:
    (found,) = warned(path, batch_size=COUNT + 1, pipelines=LABELS_ONLY)
    assert found.filename == __file__
    text = str(found.message)
    assert text.startswith(
        f"batch_size={COUNT + 1} is larger than the dataset, which has {COUNT} samples: an epoch has no"
    )
    assert text.endswith("Write a smaller batch_size, or drop_last=False")
    (found,) = warned(path, batch_size=COUNT, rank=0, world=2, pipelines=LABELS_ONLY)
    assert f"batch_size={COUNT} times world=2 is larger than" in str(found.message)
    (found,) = warned(path, batch_size=2, indices=[1], pipelines=LABELS_ONLY)
    assert "which has 1 sample:" in str(found.message)


def test_a_batch_that_fits_is_not_warned_of(path: Path) -> None:
    assert warned(path, batch_size=COUNT, pipelines=LABELS_ONLY) == []
    assert warned(path, batch_size=COUNT + 1, drop_last=False, pipelines=LABELS_ONLY) == []
    assert warned(path, batch_size=4, indices=[], pipelines=LABELS_ONLY) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = Loader(path, 4, pipelines=LABELS_ONLY).filter("label", lambda label: label == 0)
        assert len(loader) == 0
