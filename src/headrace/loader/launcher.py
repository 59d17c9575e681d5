"""What the program that started this process says: which of how many it is, and how many share the machine."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

__all__ = ["find_rank", "own_cores", "preferred_gpu", "starting_workers"]

# What launchers tell the processes they start: torchrun and most others, then Slurm.
_RANK_VARIABLES = (("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"))
_LOCAL_RANK_VARIABLES = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
# Of this machine: torchrun and most others, Open MPI, MPICH and Intel MPI.
_LOCAL_WORLD_VARIABLES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
_SLURM_TASKS = re.compile(r"(\d+)(?:\(x(\d+)\))?")


def find_rank(*, distributed: bool, rank: int | None, world: int | None) -> tuple[int, int]:
    """Which of how many processes this is: as given, or as torch.distributed, Ray Train or the launcher says."""
    if (rank is None) != (world is None):
        raise ValueError(f"rank and world belong together, got rank={rank} and world={world}")
    if rank is not None and world is not None:
        return rank, world
    if not distributed:
        return 0, 1
    torch_distributed: Any = sys.modules.get("torch.distributed")
    if torch_distributed is not None and torch_distributed.is_available() and torch_distributed.is_initialized():
        return torch_distributed.get_rank(), torch_distributed.get_world_size()
    if (context := _train_context()) is not None:
        return int(context.get_world_rank()), int(context.get_world_size())
    for rank_name, world_name in _RANK_VARIABLES:
        if rank_name in os.environ and world_name in os.environ:
            found = _number(rank_name), _number(world_name)
            if found[0] is None or found[1] is None:
                set_to = " and ".join(f"{name}={os.environ[name]!r}" for name in (rank_name, world_name))
                raise ValueError(f"distributed=True, and the environment has {set_to}, which must be whole numbers")
            return found[0], found[1]
    raise ValueError(
        "distributed=True, but neither torch.distributed is initialised nor are RANK and WORLD_SIZE set; "
        "start the program with torchrun, or name rank and world"
    )


def own_cores() -> int:
    """This process's part of the cores: those of all processes that were started on this machine, shared out equally.

    A launcher may have bound the process to some of the cores already. Then these are the most it gets, and they are
    not divided again. A control group, such as that of a container, may allow less time than its cores have.
    """
    own = len(os.sched_getaffinity(0))
    processes = _local_world()
    cores = min(own, _shared_cores(own) // processes) if processes > 1 else own
    allowed = _allowed_cores()
    return max(1, cores if allowed is None else min(cores, int(allowed / processes)))


def starting_workers(cores: int) -> int:
    """How many of its cores a loader takes at first; the others are left to the program that trains.

    Its main thread and those of CUDA need a core or two: on 16 cores a compiled ResNet-18 trains at 71 % of its best
    speed with 16 workers, at 96 % with 14.

    Example:
        >>> [starting_workers(cores) for cores in (1, 2, 4, 8, 16)]
        [1, 2, 3, 6, 14]
    """
    return cores if cores <= 2 else cores - (1 if cores < 8 else 2)


def _allowed_cores() -> float | None:
    """How many cores' time the control group of this process allows; None where it sets no limit."""
    found = [_quota_of(*_texts(f"{group}/cpu.max")) for group in _control_groups()]
    older = "/sys/fs/cgroup/cpu"
    found.append(_quota_of(*_texts(f"{older}/cpu.cfs_quota_us"), *_texts(f"{older}/cpu.cfs_period_us")))
    return min((quota for quota in found if quota is not None), default=None)


def _control_groups() -> list[str]:
    """Folders of the control group of this process and of those around it, as far as they are seen."""
    own = next((text[3:] for text in _texts("/proc/self/cgroup") if text.startswith("0::/")), "/")
    parts = [part for part in own.split("/") if part not in ("", "..")]
    return ["/".join(["/sys/fs/cgroup", *parts[:count]]) for count in range(len(parts) + 1)]


def _texts(path: str) -> list[str]:
    try:
        with open(path) as file:
            return file.read(1 << 16).split()
    except OSError:
        return []


def _quota_of(*texts: str) -> float | None:
    """Cores from the time that is allowed in a period, and the period; None for "max" and -1."""
    if len(texts) != 2 or not all(text.isascii() and text.isdigit() and int(text) for text in texts):
        return None
    return int(texts[0]) / int(texts[1])


def _train_context() -> Any:
    """What Ray Train tells its workers; None in every other process."""
    train: Any = sys.modules.get("ray.train")
    if train is None:
        return None
    try:
        context = train.get_context()
        return context if isinstance(context.get_world_rank(), int) else None
    except RuntimeError:  # this process is no worker
        return None


def _local_world() -> int:
    """How many processes were started on this machine; 1 when nobody says so."""
    if (context := _train_context()) is not None:
        return max(1, int(context.get_local_world_size()))
    for name in _LOCAL_WORLD_VARIABLES:
        if count := _number(name):
            return count
    # Of the step that srun has started, for each of its nodes, such as 4(x2),3.
    runs = _SLURM_TASKS.findall(os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    node = _number("SLURM_NODEID") or 0
    for tasks, nodes in runs:
        node -= int(nodes or 1)
        if node < 0:
            return max(1, int(tasks))
    return _number("SLURM_NTASKS_PER_NODE") or 1


def _shared_cores(own: int) -> int:
    """The cores that the processes of this machine have together."""
    if all(_number(name) is None for name in _LOCAL_WORLD_VARIABLES):
        return max(own, _number("SLURM_CPUS_ON_NODE") or 0)
    try:
        return max(own, len(os.sched_getaffinity(os.getppid())))  # of the launcher, which is not bound
    except OSError:  # it is gone, or not ours to ask
        return own


def preferred_gpu(current: int, count: int) -> int:
    """The number of the GPU that ``"cuda"`` means.

    The current device, if the program has chosen one; otherwise that of this process's number on the machine, if it can
    see so many.

    Args:
        current: the framework's current device; 0 when none was chosen.
        count: how many GPUs this process sees.
    """
    if current:
        return current
    local = next((number for name in _LOCAL_RANK_VARIABLES if (number := _number(name)) is not None), 0)
    return local if local < count else current


def _number(variable: str) -> int | None:
    """A number from the environment; None where there is none."""
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() else None
