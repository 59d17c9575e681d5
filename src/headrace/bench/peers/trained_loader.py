"""This package under a model that trains on the same cores: torch, on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from headrace.bench.peers.headrace_loader import HeadraceLoader

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.bench.peers.contender import Place

__all__ = ["TrainedLoader", "TrainedMemory"]

_CLASSES = 10
_UNTIL_CHOSEN = 8  # epochs; a trial takes a second, and one that fails another


class TrainedLoader(HeadraceLoader):
    """Every batch is a step of a small network; torch has a thread for each core, as it has by default."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        torch.manual_seed(0)
        self._model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 7, stride=4, padding=3),
            torch.nn.ReLU(),
            torch.nn.Conv2d(16, 32, 3, stride=2, padding=1),
            torch.nn.ReLU(),
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(32, _CLASSES),
        )
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=0.01)

    def epoch(self) -> Iterable[Any]:
        """An epoch of loading and training; the first of a loader that chooses by itself comes when it has chosen."""
        if self._place.workers == 0 and self._loader is None:
            for _ in range(_UNTIL_CHOSEN):
                for images in super().epoch():
                    self._train(images)
        for images in super().epoch():
            self._train(images)
            yield images

    def _train(self, images: Any) -> None:
        pictures = torch.from_numpy(images).float().div_(255)
        labels = torch.arange(len(images)) % _CLASSES
        loss = torch.nn.functional.cross_entropy(self._model(pictures), labels)
        loss.backward()
        self._optimizer.step()
        self._optimizer.zero_grad()


class TrainedMemory(TrainedLoader):
    """The same steps with a batch that stays in memory: what no loader can beat."""

    def epoch(self) -> Iterable[Any]:
        """As many steps as an epoch has."""
        place = self._place
        count = len(place.files())
        images = torch.zeros(min(place.batch, count), 3, place.side, place.side, dtype=torch.uint8).numpy()
        for start in range(0, count, place.batch):
            part = images[: min(place.batch, count - start)]
            self._train(part)
            yield part
