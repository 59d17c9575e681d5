"""A real kernel runs real cells: what datasets and loaders look like in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.helpers import picture

import headrace as hr

if TYPE_CHECKING:
    from pathlib import Path

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
pytest.importorskip("ipykernel", reason="ipykernel is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the packages that run notebooks, about themselves

CELLS = [
    "import headrace as hr\ndataset = hr.open('x.beton')\ndataset",
    "dataset.show(count=3)",
    "loader = hr.Loader(dataset, 2, pipelines={'image': [hr.ops.CenterCrop(32)]})\nloader.show()",
    "print([batch.label.tolist() for batch in loader])",
]


def run_cells(folder: Path) -> list[Any]:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(book, timeout=100, resources={"metadata": {"path": str(folder)}}).execute()
    return [output for cell in book.cells for output in cell.outputs]


def test_a_notebook_draws_datasets_and_batches(tmp_path: Path) -> None:
    rows = [(picture(i, 60, 80), i) for i in range(4)]
    hr.write(tmp_path / "x.beton", rows, fields={"image": hr.Image(), "label": hr.Int()})
    whole, some, batch, printed = run_cells(tmp_path)
    assert whole.data["text/html"].count("<img ") == 4
    assert whole.data["text/plain"].startswith("<BetonDataset 'x.beton'")
    assert some.data["text/html"].count("<img ") == 3
    assert "batch 0 of 2" in batch.data["text/html"]
    assert "batch 0 of 2" in batch.data["text/plain"]
    assert printed.text == "[[0, 1], [2, 3]]\n"
