"""Two processes, each with its share of the samples and workers of its own."""

import sys
from pathlib import Path

import torch
from ffrecord import FileWriter
from ffrecord.torch import DataLoader, Dataset
from torch.multiprocessing import spawn
from torch.utils.data.distributed import DistributedSampler

FOLDER = Path(sys.argv[1])


class Numbers(Dataset):
    def process(self, indices, data):
        return [int(array[0]) for array in data]


def work(rank, folder):
    numbers = Numbers(folder / "numbers.ffr")
    sampler = DistributedSampler(numbers, num_replicas=2, rank=rank, shuffle=True, seed=3)
    loader = DataLoader(numbers, 8, sampler=sampler, num_workers=2)
    epochs = []
    for epoch in range(2):
        loader.batch_sampler.sampler.set_epoch(epoch)
        epochs.append([number for batch in loader for number in batch.tolist()])
    torch.save(epochs, folder / f"{rank}.pt")


if __name__ == "__main__":
    with FileWriter(FOLDER / "numbers.ffr", 100) as writer:
        for i in range(100):
            writer.write_one(bytes([i]))
    spawn(work, args=(FOLDER,), nprocs=2)
    shares = [torch.load(FOLDER / f"{rank}.pt") for rank in range(2)]
    for epoch in range(2):
        assert sorted(shares[0][epoch] + shares[1][epoch]) == list(range(100))
    assert shares[0][0] != shares[0][1]
    print("shared:", len(shares[0][0]), len(shares[1][0]))
