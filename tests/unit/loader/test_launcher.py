"""What launchers tell a process: how many share the machine, and which GPU is its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.loader.tools import LABELS_ONLY

from headrace import Loader
from headrace.loader import launcher
from headrace.loader.launcher import own_cores, preferred_gpu, starting_workers

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("LOCAL_", "WORLD_SIZE", "RANK", "SLURM_", "OMPI_", "MPI_")


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets how many cores this process and its parent may use, and what the launcher says."""

    def set_up(
        own: int,
        parent: int | None = None,
        files: dict[str, list[str]] | None = None,
        **variables: object,
    ) -> None:
        for name in [name for name in os.environ if name.startswith(NAMES)]:
            monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

        def affinity(pid: int) -> set[int]:
            if pid and parent is None:
                raise ProcessLookupError
            return set(range(own if pid == 0 or parent is None else parent))

        monkeypatch.setattr(launcher.os, "sched_getaffinity", affinity)
        monkeypatch.setattr(launcher, "_texts", lambda path: (files or {}).get(path, []))

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
    assert own_cores() == workers


def test_workers_that_are_named_stay(path: Path, machine: Any) -> None:
    machine(16, 16, LOCAL_WORLD_SIZE=4)
    assert Loader(path, 4, pipelines=LABELS_ONLY).options.workers == "auto"
    assert Loader(path, 4, pipelines=LABELS_ONLY).stats.workers == 3  # of its four cores
    assert Loader(path, 4, pipelines=LABELS_ONLY, workers=3).options.workers == 3
    assert Loader(path, 4, pipelines=LABELS_ONLY, workers=16).options.workers == 16


CGROUP = "/sys/fs/cgroup"


@pytest.mark.parametrize(
    ("files", "processes", "cores"),
    [
        ({}, 1, 16),
        ({f"{CGROUP}/cpu.max": ["max", "100000"]}, 1, 16),
        ({f"{CGROUP}/cpu.max": ["400000", "100000"]}, 1, 4),
        ({f"{CGROUP}/cpu.max": ["450000", "100000"]}, 1, 4),
        ({f"{CGROUP}/cpu.max": ["400000", "100000"]}, 2, 2),  # the processes share it
        ({f"{CGROUP}/cpu.max": ["50000", "100000"]}, 1, 1),
        ({f"{CGROUP}/cpu.max": ["6400000", "100000"]}, 1, 16),
        ({f"{CGROUP}/cpu.max": ["0", "0"]}, 1, 16),
        ({f"{CGROUP}/cpu.max": ["nonsense"]}, 1, 16),
        ({f"{CGROUP}/cpu/cpu.cfs_quota_us": ["300000"], f"{CGROUP}/cpu/cpu.cfs_period_us": ["100000"]}, 1, 3),
        ({f"{CGROUP}/cpu/cpu.cfs_quota_us": ["-1"], f"{CGROUP}/cpu/cpu.cfs_period_us": ["100000"]}, 1, 16),
        ({"/proc/self/cgroup": ["0::/job/step"], f"{CGROUP}/job/cpu.max": ["800000", "100000"]}, 1, 8),
        ({"/proc/self/cgroup": ["0::/../.."], f"{CGROUP}/cpu.max": ["800000", "100000"]}, 1, 8),
    ],
)
def test_a_control_group_may_allow_less(machine: Any, files: dict[str, list[str]], processes: int, cores: int) -> None:
    machine(16, 16 * processes, files=files, LOCAL_WORLD_SIZE=processes)
    assert own_cores() == cores


def test_cores_are_left_to_the_training() -> None:
    assert [starting_workers(cores) for cores in (1, 2, 3, 4, 8, 16, 64)] == [1, 2, 2, 3, 6, 14, 62]


def test_the_real_control_group_is_read() -> None:
    allowed = launcher._allowed_cores()
    assert allowed is None or allowed > 0


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
