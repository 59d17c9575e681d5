from __future__ import annotations

import importlib
import importlib.util
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.compat import alias, available, install

if TYPE_CHECKING:
    from collections.abc import Iterator

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the adapters of FFCV need torch")


def is_ffcv(name: str) -> bool:
    return name == "ffcv" or name.startswith("ffcv.")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if nothing had been installed, before and after."""
    monkeypatch.setattr(sys, "meta_path", [f for f in sys.meta_path if not isinstance(f, alias._Finder)])
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != alias._PATH])
    before = {name: module for name, module in sys.modules.items() if is_ffcv(name)}
    for name in before:
        del sys.modules[name]
    yield
    for name in [name for name in sys.modules if is_ffcv(name)]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def real_ffcv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that is called ffcv and is another one."""
    package = tmp_path / "site" / "ffcv"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("is_real = True\n")
    (package / "only_real.py").write_text("")
    monkeypatch.syspath_prepend(package.parent)
    return package


def test_ffcv_is_available() -> None:
    assert "ffcv" in available()


def test_every_adapter_can_be_found_by_new_processes() -> None:
    assert sorted(path.stem for path in Path(alias._PATH).glob("*.py")) == available()


@needs_torch
def test_both_names_are_one_module() -> None:
    install("ffcv")
    import ffcv
    import ffcv.fields.decoders
    from ffcv.transforms import ops

    import headrace.compat.ffcv as home
    import headrace.compat.ffcv.fields.decoders as home_decoders
    import headrace.compat.ffcv.transforms.ops as home_ops

    assert ffcv is home
    assert ffcv.fields.decoders is home_decoders
    assert ops is home_ops
    assert home.__name__ == home.__spec__.name == "headrace.compat.ffcv"
    before = dict(vars(home_ops))
    assert importlib.reload(home_ops) is ops
    vars(home_ops).update(before)  # other tests compare its classes


@needs_torch
def test_objects_pickle_and_come_back_under_either_name() -> None:
    install("ffcv")
    from ffcv.fields import JSONField, RGBImageField
    from ffcv.loader import OrderOption

    assert pickle.loads(pickle.dumps(OrderOption.RANDOM)) is OrderOption.RANDOM
    assert pickle.loads(pickle.dumps(JSONField)) is JSONField
    field = pickle.loads(pickle.dumps(RGBImageField(jpeg_quality=42)))
    assert isinstance(field, RGBImageField)
    assert field.jpeg_quality == 42
    by_their_name = b"cffcv.loader.loader\nOrderOption\n."  # as the original would have pickled it
    assert pickle.loads(by_their_name) is OrderOption


@needs_torch
def test_unknown_modules_are_not_found() -> None:
    install("ffcv")
    with pytest.raises(ModuleNotFoundError, match=r"ffcv\.no_such_module"):
        importlib.import_module("ffcv.no_such_module")
    with pytest.raises(ModuleNotFoundError, match="ffcv_other"):
        importlib.import_module("ffcv_other")


def test_unknown_names_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no adapter for 'tensorflow'; it has .*ffcv"):
        install("tensorflow")


def test_installing_twice_changes_nothing() -> None:
    install("ffcv")
    finders, path = list(sys.meta_path), list(sys.path)
    install("ffcv")
    assert sys.meta_path == finders
    assert sys.path == path


@needs_torch
def test_the_real_package_is_passed_over_and_that_is_said_once(real_ffcv: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            install("ffcv")
    assert [warning.category for warning in caught] == [RuntimeWarning]
    assert f"ffcv is installed ({real_ffcv / '__init__.py'}), but headrace answers" in str(caught[0].message)
    assert caught[0].filename == __file__
    import ffcv

    assert not hasattr(ffcv, "is_real")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("ffcv.only_real")


def test_a_folder_of_that_name_is_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ffcv").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    install("ffcv")


def test_too_late_when_the_original_is_imported(real_ffcv: Path) -> None:
    assert importlib.import_module("ffcv").is_real
    with pytest.raises(RuntimeError, match=r"ffcv is imported already, from .*__init__\.py"):
        install("ffcv")


def test_the_programs_folder_stays_first_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    install("ffcv")
    assert sys.path[:2] == [str(tmp_path), alias._PATH]


def test_unless_it_has_the_original_in_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "ffcv").mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    install("ffcv")
    assert sys.path[:2] == [alias._PATH, str(tmp_path)]


def test_programs_inherit_the_path_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/a", "/b"]))
    alias.share_with_programs()
    alias.share_with_programs()
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [alias._PATH, "/a", "/b"]
    monkeypatch.delenv("PYTHONPATH")
    alias.share_with_programs()
    assert os.environ["PYTHONPATH"] == alias._PATH


def run_child(code: str, *path: str) -> str:
    inherited = [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([alias._PATH, *path, *inherited])}
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


@needs_torch
def test_a_new_process_finds_the_adapters_by_the_path(real_ffcv: Path) -> None:
    code = "import ffcv.loader; import headrace.compat.ffcv as home, sys; print(sys.modules['ffcv'] is home)"
    assert run_child(code, str(real_ffcv.parent)) == "True"


def test_another_interpreter_keeps_its_own(real_ffcv: Path) -> None:
    hidden = "import sys; sys.modules['headrace'] = None\n"  # an interpreter without headrace
    assert run_child(f"{hidden}import ffcv, ffcv.only_real; print(ffcv.is_real)", str(real_ffcv.parent)) == "True"


def test_nothing_is_imported_before_it_is_asked_for() -> None:
    code = "import sys; from headrace.compat import install; install(); print('torch' in sys.modules)"
    assert run_child(code) == "False"


def test_without_torch_the_cure_is_named() -> None:
    hidden = "import sys; sys.modules['torch'] = None; from headrace.compat import install; install()\n"
    code = f"{hidden}try: import ffcv.loader\nexcept ImportError as error: print(error)"
    assert run_child(code).endswith("needs the 'torch' package. Install it with: pip install 'headrace[torch]'")


def test_no_warning_without_a_real_package() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        install()
