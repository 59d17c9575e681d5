"""Several processes, started by torch, share a dataset; the sampler is torch's own where FFCV has one."""

import sys

import numpy as np
import torch as ch
from ffcv.fields import BytesField, IntField
from ffcv.loader import Loader, OrderOption
from ffcv.writer import DatasetWriter
from torch.distributed import destroy_process_group, init_process_group
from torch.multiprocessing import spawn
from torch.utils.data import DistributedSampler

LENGTH = 101


class Numbers:
    def __len__(self):
        return LENGTH

    def __getitem__(self, index):
        return index, np.sin(np.array([index])).view("<u1")


def work(rank, world, path, order, folder, indices):
    init_process_group("gloo", f"file://{folder}/meeting-{order.name}-{world}-{indices is None}", rank=rank, world_size=world)
    settings = {"distributed": True, "drop_last": False, "indices": indices, "seed": 7}
    loader = Loader(path, 8, num_workers=2, order=order, **settings)
    epochs = [np.concatenate([batch[0].numpy().reshape(-1) for batch in loader]) for _ in range(3)]
    if order is not OrderOption.QUASI_RANDOM:
        chosen = np.arange(LENGTH) if indices is None else np.array(indices)
        sampler = DistributedSampler(chosen, shuffle=order is OrderOption.RANDOM, seed=7, drop_last=False)
        for number, epoch in enumerate(epochs):
            sampler.set_epoch(number)
            assert (epoch == chosen[list(sampler)]).all()
    np.save(f"{folder}/{rank}.npy", np.stack(epochs))
    destroy_process_group()


if __name__ == "__main__":
    folder = sys.argv[1]
    path = f"{folder}/numbers.beton"
    DatasetWriter(path, {"index": IntField(), "value": BytesField()}).from_indexed_dataset(Numbers())
    for order, world, indices in (
        (OrderOption.SEQUENTIAL, 2, None),
        (OrderOption.RANDOM, 2, list(range(0, 100, 3))),
        (OrderOption.QUASI_RANDOM, 3, None),
    ):
        ch.multiprocessing.set_start_method("spawn", force=True)
        spawn(work, nprocs=world, args=(world, path, order, folder, indices))
        ranks = np.stack([np.load(f"{folder}/{rank}.npy") for rank in range(world)])
        expected = set(range(LENGTH)) if indices is None else set(indices)
        for epoch in range(3):
            found = ranks[:, epoch].flatten().tolist()
            assert set(found) == expected
            assert len(found) - len(expected) < world
        assert (ranks[:, 0] == ranks[:, 1]).all() == (order is OrderOption.SEQUENTIAL)
        print(order.name, "over", world, "processes:", len(expected), "samples")
