"""A model trained, and trained again from a checkpoint in the middle of an epoch: the same weights in the end.

The second argument is how workers are started.
"""

import pickle
import sys
from pathlib import Path

import torch
from ffrecord.torch import DataLoader, Dataset, Subset
from ffrecord.torch.dataset import ConcatDataset
from ffrecord.utils import dump

FOLDER, METHOD = Path(sys.argv[1]), sys.argv[2]
WEIGHTS = torch.tensor([2.0, -3.0, 0.5, 1.0])
COUNT, BATCH, EPOCHS = 480, 16, 2
CHECKPOINT = (1, 11)


class Measured(Dataset):
    """Points and their values."""

    def __init__(self, fname, scale=None):
        super().__init__(fname, check_data=True)
        self.scale = scale

    def process(self, indexes, data):
        samples = [pickle.loads(bytes_) for bytes_ in data]
        assert [number for number, _, _ in samples] == list(indexes), "whole batches arrive here"
        return [(x * self.scale if self.scale else x, y) for _, x, y in samples]


def write(path):
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(COUNT, 4, generator=generator)
    rows = zip(range(COUNT), points, points @ WEIGHTS, strict=True)
    dump([pickle.dumps(row) for row in rows], path, 4)


def make_loader(dataset, epoch):
    context = {} if METHOD == "default" else {"multiprocessing_context": METHOD}
    generator = torch.Generator().manual_seed(epoch)
    return DataLoader(dataset, BATCH, shuffle=True, num_workers=2, drop_last=True, generator=generator, **context)


def train(dataset, model, optimizer, *, epoch=0, step=0):
    """From a step of an epoch to the end, with a checkpoint at one step; gives the steps that were made."""
    steps = []
    for number in range(epoch, EPOCHS):
        loader = make_loader(dataset, number)
        loader.set_step(step)
        for position, (x, y) in enumerate(loader, start=step):
            if (number, position) == CHECKPOINT:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, FOLDER / "state.pt")
            loss = (model(x).squeeze(1) - y).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps.append((number, position))
        step = 0
    return steps


def new_model():
    torch.manual_seed(1)
    model = torch.nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)


def main():
    path = FOLDER / "train"
    write(path)
    dataset = Measured(path)
    assert len(dataset) == COUNT
    dataset[[0, 1, 2, 3]]  # the reader is in use before workers start

    model, optimizer = new_model()
    whole = train(dataset, model, optimizer)
    assert len(whole) == EPOCHS * COUNT // BATCH
    error = (model.weight[0] - WEIGHTS).abs().max().item()
    assert error < 0.02, error

    state = torch.load(FOLDER / "state.pt")
    resumed, resumed_optimizer = new_model()
    resumed.load_state_dict(state["model"])
    resumed_optimizer.load_state_dict(state["optimizer"])
    epoch, step = CHECKPOINT
    rest = train(dataset, resumed, resumed_optimizer, epoch=epoch, step=step)
    assert rest == whole[whole.index(CHECKPOINT) :]
    assert torch.equal(resumed.weight, model.weight)

    halves = ConcatDataset([Subset(Measured(path, 1.0), range(100)), Subset(dataset, range(380, 480))])
    context = {} if METHOD == "default" else {"multiprocessing_context": METHOD}
    loader = DataLoader(halves, 10, num_workers=1, **context)
    with torch.no_grad():
        losses = [(model(x).squeeze(1) - y).square().mean().item() for x, y in loader]
    assert len(losses) == 20
    assert max(losses) < 0.01
    print("trained and resumed:", len(whole), "steps by", METHOD)


if __name__ == "__main__":
    main()
