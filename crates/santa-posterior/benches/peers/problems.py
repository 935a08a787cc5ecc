"""The problems, as files that every program reads.

A problem is a folder with `problem.json` and little-endian .npy files in C order:

    logistic   regression with y in {0, 1}, prior N(0, 1/prior_precision) on every weight
        x.npy f32 (n, d), y.npy f32 (n)     features, the intercept's column of ones included
        start.npy f64 (d)                   the mode of the posterior, where every chain starts
        hessian.npy f64 (d, d)              of the negative log-density there
        projections.npy f64 (k, d)          what is measured is projections @ theta
    network    784-400-400-10, ReLU, softmax; prior as above on weights and biases
        x.npy f32 (n, 784), y.npy f32 (n)   training images in [0, 1], labels
        x_test.npy, y_test.npy              of the test set, for the log-likelihood
        start.npy f32 (d)                   a trained network: W1 (784, 400), b1, W2, b2, W3, b3, each
                                            weight matrix by rows of the input, one after the other

`largest_curvature` is the largest eigenvalue of the Hessian, `temperature` divides the log-density.
"""

import gzip
import json
import os
import pathlib

import numpy as np

SEED = 20160509
LAYERS = (784, 400, 400, 10)
# Test images whose logits are measured, and those of the log-likelihood.
LOGIT_IMAGES, LIKELIHOOD_IMAGES = 20, 1000
NAMES = ("logistic", "mnist79", "network")


class Problem:
    """A problem's folder; arrays are read when they are asked for."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        vars(self).update(json.loads((self.folder / "problem.json").read_text()))

    def array(self, name):
        return np.load(self.folder / f"{name}.npy")

    def has(self, name):
        return (self.folder / name).exists()


def prepare(work, names, temperature):
    """Writes the problems that are not there yet."""
    for name in names:
        folder = work / name
        if (folder / "problem.json").exists():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        if name == "logistic":
            logistic(folder)
        elif not (data := mnist_folder()):
            print(f"SKIPPED {name}: no MNIST files; set SANTA_DATA to the folder that holds mnist/")
            folder.rmdir()
        elif name == "mnist79":
            mnist79(folder, data)
        else:
            network(folder, data, temperature)


def logistic(folder, n=100_000, d=50, correlation=0.5):
    """Synthetic: an intercept and features of an autoregressive process of order one."""
    rng = np.random.default_rng(SEED)
    x = np.ones((n, d))
    z = rng.standard_normal((n, d - 1))
    x[:, 1] = z[:, 0]
    for j in range(2, d):
        x[:, j] = correlation * x[:, j - 1] + np.sqrt(1 - correlation**2) * z[:, j - 1]
    x = x.astype(np.float32)
    weights = 0.5 * rng.standard_normal(d)
    y = rng.random(n) < 1 / (1 + np.exp(-(x @ weights)))
    write_regression(folder, "logistic", x, y, np.eye(d))


def mnist79(folder, data):
    """Sevens against nines, pixels in [0, 1] and an intercept."""
    images, labels = mnist(data, "train")
    keep = (labels == 7) | (labels == 9)
    x = np.concatenate([images[keep], np.ones((keep.sum(), 1), np.float32)], axis=1)
    rng = np.random.default_rng(SEED)
    projections = rng.standard_normal((20, x.shape[1])) / np.sqrt(x.shape[1])
    write_regression(folder, "mnist79", x, labels[keep] == 9, projections)


def write_regression(folder, name, x, y, projections, prior_precision=1.0):
    start, hessian = mode(x.astype(np.float64), y.astype(np.float64), prior_precision)
    np.save(folder / "x.npy", x.astype("<f4"))
    np.save(folder / "y.npy", y.astype("<f4"))
    np.save(folder / "start.npy", start.astype("<f8"))
    np.save(folder / "hessian.npy", hessian.astype("<f8"))
    np.save(folder / "projections.npy", projections.astype("<f8"))
    write(folder, name=name, kind="logistic", n=len(x), d=x.shape[1], temperature=1.0,
          prior_precision=prior_precision,
          largest_curvature=float(np.linalg.eigvalsh(hessian)[-1]))


def mode(x, y, prior_precision):
    """Newton's method; the problem is convex and these starts need no line search."""
    theta = np.zeros(x.shape[1])
    while True:
        p = 1 / (1 + np.exp(-(x @ theta)))
        gradient = x.T @ (p - y) + prior_precision * theta
        hessian = (x.T * (p * (1 - p))) @ x + prior_precision * np.eye(len(theta))
        move = np.linalg.solve(hessian, gradient)
        theta -= move
        if np.abs(move).max() < 1e-9:
            return theta, hessian


def network(folder, data, temperature, prior_precision=10.0):
    for part, suffix in (("train", ""), ("t10k", "_test")):
        images, labels = mnist(data, part)
        np.save(folder / f"x{suffix}.npy", images)
        np.save(folder / f"y{suffix}.npy", labels.astype("<f4"))
    d = sum((a + 1) * b for a, b in zip(LAYERS, LAYERS[1:]))
    # `jax_peers.train` adds start.npy and largest_curvature.
    write(folder, name="network", kind="network", n=60_000, d=d, layers=LAYERS,
          prior_precision=prior_precision, temperature=temperature,
          logit_images=LOGIT_IMAGES, likelihood_images=LIKELIHOOD_IMAGES)


def write(folder, **fields):
    (folder / "problem.json").write_text(json.dumps(fields, indent=1) + "\n")


def mnist_folder():
    beside = pathlib.Path(__file__).resolve().parents[5] / "shared" / "data"
    folder = pathlib.Path(os.environ.get("SANTA_DATA", beside)) / "mnist"
    return folder if (folder / "train-images-idx3-ubyte.gz").exists() else None


def mnist(folder, part):
    """Images in [0, 1] and labels of an IDX pair."""
    header = {"images-idx3": 16, "labels-idx1": 8}
    images, labels = (
        np.frombuffer(gzip.open(folder / f"{part}-{kind}-ubyte.gz").read(), np.uint8, offset=at)
        for kind, at in header.items()
    )
    return (images.reshape(-1, LAYERS[0]) / np.float32(255)).astype("<f4"), labels
