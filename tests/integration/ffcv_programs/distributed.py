"""Several processes, started by torch, share a dataset; the sampler is torch's own where FFCV has one."""

import sys

import numpy as np
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


CASES = (
    (OrderOption.SEQUENTIAL, None),
    (OrderOption.SEQUENTIAL, list(range(0, 100, 3))),
    (OrderOption.RANDOM, None),
    (OrderOption.RANDOM, list(range(0, 100, 3))),
    (OrderOption.QUASI_RANDOM, None),
    (OrderOption.QUASI_RANDOM, list(range(0, 100, 3))),
)


def work(rank, world, path, folder):
    init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=world)
    for number, (order, indices) in enumerate(CASES):
        settings = {"distributed": True, "drop_last": False, "indices": indices, "seed": 7}
        loader = Loader(path, 8, num_workers=2, order=order, **settings)
        epochs = [np.concatenate([batch[0].numpy().reshape(-1) for batch in loader]) for _ in range(3)]
        if order is not OrderOption.QUASI_RANDOM:
            chosen = np.arange(LENGTH) if indices is None else np.array(indices)
            sampler = DistributedSampler(chosen, shuffle=order is OrderOption.RANDOM, seed=7, drop_last=False)
            for k, epoch in enumerate(epochs):
                sampler.set_epoch(k)
                assert (epoch == chosen[list(sampler)]).all()
        np.save(f"{folder}/{number}-{rank}.npy", np.stack(epochs))
    destroy_process_group()


if __name__ == "__main__":
    folder, world = sys.argv[1], 3
    path = f"{folder}/numbers.beton"
    DatasetWriter(path, {"index": IntField(), "value": BytesField()}).from_indexed_dataset(Numbers())
    spawn(work, nprocs=world, args=(world, path, folder))
    for number, (order, indices) in enumerate(CASES):
        ranks = np.stack([np.load(f"{folder}/{number}-{rank}.npy") for rank in range(world)])
        expected = set(range(LENGTH)) if indices is None else set(indices)
        for epoch in range(3):
            found = ranks[:, epoch].flatten().tolist()
            assert set(found) == expected
            assert len(found) - len(expected) < world
        assert (ranks[:, 0] == ranks[:, 1]).all() == (order is OrderOption.SEQUENTIAL)
        print(order.name, "over", world, "processes:", len(expected), "samples")
