"""What launchers tell a process: how many share the machine, and which GPU is its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.loader.tools import LABELS_ONLY

from headrace import Loader
from headrace.loader import launcher
from headrace.loader.launcher import default_workers, preferred_gpu

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("LOCAL_", "WORLD_SIZE", "RANK", "SLURM_", "OMPI_", "MPI_")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets how many cores this process and its parent may use, and what the launcher says."""

    def set_up(own: int, parent: int | None = None, **variables: object) -> None:
        for name in [name for name in os.environ if name.startswith(NAMES)]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

        def affinity(pid: int) -> set[int]:
            if pid and parent is None:
                raise ProcessLookupError
            return set(range(own if pid == 0 or parent is None else parent))

        monkeypatch.setattr(launcher.os, "sched_getaffinity", affinity)

    return set_up


@pytest.mark.parametrize(
    ("own", "parent", "variables", "workers"),
    [
        (16, 16, {}, 16),
        (16, 16, {"LOCAL_WORLD_SIZE": 1, "WORLD_SIZE": 64}, 16),
        (16, 16, {"LOCAL_WORLD_SIZE": 4, "WORLD_SIZE": 8}, 4),
        (15, 15, {"LOCAL_WORLD_SIZE": 4}, 3),
        (2, 2, {"LOCAL_WORLD_SIZE": 8}, 1),  # at least one
        (4, 16, {"LOCAL_WORLD_SIZE": 4}, 4),  # bound by the launcher, each to its own
        (8, 16, {"LOCAL_WORLD_SIZE": 4}, 4),  # bound to a half of the machine, with others
        (16, None, {"LOCAL_WORLD_SIZE": 4}, 4),  # the launcher has gone
        (16, 16, {"LOCAL_WORLD_SIZE": "many"}, 16),
        (16, 16, {"LOCAL_WORLD_SIZE": ""}, 16),
        (16, 16, {"LOCAL_WORLD_SIZE": 0}, 16),
        (16, 16, {"OMPI_COMM_WORLD_LOCAL_SIZE": 2}, 8),
        (16, 16, {"MPI_LOCALNRANKS": 8}, 2),
        (32, 32, {"SLURM_NTASKS_PER_NODE": 4, "SLURM_CPUS_ON_NODE": 32}, 8),
        (8, 8, {"SLURM_NTASKS_PER_NODE": 4, "SLURM_CPUS_ON_NODE": 32}, 8),  # bound by srun
        (32, 32, {"SLURM_STEP_TASKS_PER_NODE": "4"}, 8),
        (32, 32, {"SLURM_STEP_TASKS_PER_NODE": "4(x2),2", "SLURM_NODEID": 1}, 8),
        (32, 32, {"SLURM_STEP_TASKS_PER_NODE": "4(x2),2", "SLURM_NODEID": 2}, 16),
        (32, 32, {"SLURM_STEP_TASKS_PER_NODE": "1", "SLURM_NTASKS_PER_NODE": 4}, 32),  # srun --ntasks=1 in such a job
        (32, 32, {"SLURM_STEP_TASKS_PER_NODE": "1", "LOCAL_WORLD_SIZE": 8, "SLURM_CPUS_ON_NODE": 32}, 4),
        (32, 32, {"SLURM_STEP_TASKS_PER_NODE": "nonsense"}, 32),
    ],
)
def test_the_cores_are_shared_out(
    machine: Any, own: int, parent: int | None, variables: dict[str, object], workers: int
) -> None:
    machine(own, parent, **variables)
    assert default_workers() == workers


def test_workers_that_are_named_stay(path: Path, machine: Any) -> None:
    machine(16, 16, LOCAL_WORLD_SIZE=4)
    assert Loader(path, 4, pipelines=LABELS_ONLY).options.workers == 4
    assert Loader(path, 4, pipelines=LABELS_ONLY, workers=3).options.workers == 3
    assert Loader(path, 4, pipelines=LABELS_ONLY, workers=16).options.workers == 16


@pytest.mark.parametrize(
    ("current", "count", "variables", "number"),
    [
        (0, 4, {}, 0),
        (2, 4, {}, 2),
        (0, 4, {"LOCAL_RANK": 3}, 3),
        (0, 4, {"LOCAL_RANK": 0}, 0),
        (2, 4, {"LOCAL_RANK": 3}, 2),  # torch.cuda.set_device(2)
        (0, 1, {"LOCAL_RANK": 3}, 0),  # CUDA_VISIBLE_DEVICES shows each process one
        (0, 4, {"SLURM_LOCALID": 1}, 1),
        (0, 4, {"SLURM_LOCALID": 0, "LOCAL_RANK": 2}, 2),
        (0, 4, {"LOCAL_RANK": "x", "OMPI_COMM_WORLD_LOCAL_RANK": 1}, 1),
    ],
)
def test_each_process_has_a_gpu_of_its_own(
    machine: Any, current: int, count: int, variables: dict[str, object], number: int
) -> None:
    machine(16, **variables)
    assert preferred_gpu(current, count) == number
