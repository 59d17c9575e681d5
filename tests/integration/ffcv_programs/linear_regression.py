"""Linear regression: features and targets as arrays, solved by gradient steps."""

import sys

import numpy as np
import torch as ch
from ffcv.fields import FloatField, NDArrayField
from ffcv.fields.decoders import FloatDecoder, NDArrayDecoder
from ffcv.loader import Loader, OrderOption
from ffcv.transforms import Squeeze, ToTensor
from ffcv.writer import DatasetWriter

path = f"{sys.argv[1]}/regression.beton"
SAMPLES, FEATURES = 2000, 20
rng = np.random.default_rng(0)
X = rng.normal(1, 2, (SAMPLES, FEATURES)).astype("float32")
W = rng.uniform(-1, 1, FEATURES).astype("float32")
Y = X @ W + 0.5


class Regression:
    def __getitem__(self, index):
        return X[index], Y[index]

    def __len__(self):
        return SAMPLES


fields = {"covariate": NDArrayField(shape=(FEATURES,), dtype=np.dtype("float32")), "label": FloatField()}
DatasetWriter(path, fields, num_workers=2).from_indexed_dataset(Regression())

loader = Loader(
    path,
    batch_size=200,
    num_workers=2,
    order=OrderOption.RANDOM,
    pipelines={"covariate": [NDArrayDecoder(), ToTensor()], "label": [FloatDecoder(), ToTensor(), Squeeze()]},
)
mean, spread, count = ch.zeros(FEATURES), ch.zeros(FEATURES), 0
for x, _ in loader:
    mean += x.sum(0)
    spread += (x**2).sum(0)
    count += len(x)
mean /= count
std = (spread / count - mean**2).sqrt()
assert np.allclose(mean, X.mean(0), atol=1e-3)
assert np.allclose(std, X.std(0), atol=1e-3)

w, b = ch.zeros(FEATURES), ch.zeros(1)
for _ in range(20):
    for x, y in loader:
        assert y.shape == (200,)
        x = (x - mean) / std
        residual = x @ w + b - y.float()
        w -= 0.1 * 2 * (x.T @ residual) / len(x)
        b -= 0.1 * 2 * residual.mean(0, keepdim=True)
error = ((((ch.from_numpy(X) - mean) / std) @ w + b - ch.from_numpy(Y)) ** 2).mean()
assert error < 1e-3, error
print(f"mean squared error below a thousandth after {loader.next_epoch} epochs")
