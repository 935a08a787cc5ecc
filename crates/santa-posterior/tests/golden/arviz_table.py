"""Convergence diagnostics of a few made-up chains, computed by ArviZ, and Stein discrepancies by NumPy.

Writes `arviz.json` beside this file, or to the path given, which `tests/arviz.rs` compares with the
library. To run it in a scratch virtual environment:

    python3 -m venv venv
    venv/bin/pip install arviz numpy
    venv/bin/python crates/santa-posterior/tests/golden/arviz_table.py [PATH]

The draws are seeded, and rounded before anything is computed from them. Not a number is null.
"""

import json
import math
import pathlib
import sys
import warnings

warnings.simplefilter("ignore")

import arviz
import numpy

SEED = 20160509
CHAINS = 4
DECIMALS = 9
PROBABILITIES = [0.05, 0.1, 0.5, 0.9, 0.95]
LAGS = 12


def autoregression(rng, rho, chains, draws):
    x = rng.standard_normal((chains, draws))
    for i in range(1, draws):
        x[:, i] = rho * x[:, i - 1] + math.sqrt(1 - rho**2) * x[:, i]
    return x


def cases(rng):
    yield "independent", rng.standard_normal((CHAINS, 100))
    yield "autoregression of 0.9", autoregression(rng, 0.9, CHAINS, 200)
    yield "autoregression of -0.5", autoregression(rng, -0.5, CHAINS, 100)
    yield "odd length", autoregression(rng, 0.5, CHAINS, 101)
    yield "Cauchy", rng.standard_cauchy((CHAINS, 100))
    yield "other means", rng.standard_normal((CHAINS, 100)) + numpy.arange(CHAINS)[:, None] / 2
    yield "other scales", rng.standard_normal((CHAINS, 100)) * 2.0 ** numpy.arange(CHAINS)[:, None]
    yield "drift", rng.standard_normal((CHAINS, 100)) + numpy.arange(100) / 25
    yield "ties", rng.poisson(2.0, (CHAINS, 100)).astype(float)
    yield "coin", rng.integers(0, 2, (CHAINS, 51)).astype(float)
    yield "alternating", numpy.tile([1.0, -1.0], (2, 30)) + rng.standard_normal((2, 60)) / 10
    yield "one chain", autoregression(rng, 0.7, 1, 150)
    yield "seven chains", autoregression(rng, 0.3, 7, 31)
    yield "constant", numpy.full((CHAINS, 20), 2.5)
    yield "far from zero", 1e3 + autoregression(rng, 0.6, CHAINS, 50)
    for draws in range(4, 10):
        yield f"{draws} draws", rng.standard_normal((2, draws))
    yield "too short", rng.standard_normal((CHAINS, 3))


def number(x):
    x = float(x)
    return None if math.isnan(x) else x


def diagnostics(x):
    return {
        "r_hat": number(arviz.rhat(x)),
        "ess_bulk": number(arviz.ess(x, method="bulk")),
        "ess_tail": number(arviz.ess(x, method="tail")),
        "ess_mean": number(arviz.ess(x, method="mean")),
        "ess_sd": number(arviz.ess(x, method="sd")),
        "ess_quantile": [number(arviz.ess(x, method="quantile", prob=p)) for p in PROBABILITIES],
        "mcse_mean": number(arviz.mcse(x, method="mean")),
        "mcse_sd": number(arviz.mcse(x, method="sd")),
        "mcse_quantile": [number(arviz.mcse(x, method="quantile", prob=p)) for p in PROBABILITIES],
        "autocorrelation": [number(r) for r in arviz.autocorr(x[0])[:LAGS]],
    }


def stein(x, gradient, beta, scale):
    """By two plain loops, straight from the definition with its derivatives of the kernel."""
    n, dim = x.shape
    if scale is None:
        scale = numpy.median([numpy.linalg.norm(x[i] - x[j]) for i in range(n) for j in range(i)])
    score = -beta * gradient
    total, diagonal = 0.0, 0.0
    for i in range(n):
        for j in range(n):
            r = x[i] - x[j]
            q = scale**2 + r @ r
            k = q**-0.5
            k_x, k_y = -r * q**-1.5, r * q**-1.5
            k_xy = dim * q**-1.5 - 3 * (r @ r) * q**-2.5
            k_0 = score[i] @ score[j] * k + score[i] @ k_y + score[j] @ k_x + k_xy
            total += k_0
            diagonal += k_0 if i == j else 0.0
    return {
        "scale": float(scale),
        "discrepancy": math.sqrt(total / n**2),
        "unbiased_square": (total - diagonal) / (n * (n - 1)),
    }


def steins(rng):
    for name, factor, shift, beta, scale in [
        ("right", 1.0, 0.0, 1.0, None),
        ("wide", 1.5, 0.0, 1.0, None),
        ("shifted, given scale", 1.0, 0.5, 1.0, 0.7),
        ("cold", 0.5, 0.0, 4.0, 1.0),
    ]:
        x = numpy.round(factor * rng.standard_normal((30, 2)) + shift, DECIMALS)
        yield {
            "name": name,
            "points": x.tolist(),
            "beta": beta,
            "given_scale": scale,
            # Of the standard normal law, whose gradient at x is x.
            **stein(x, x, beta, scale),
        }


def main():
    rng = numpy.random.Generator(numpy.random.PCG64(SEED))
    table = {
        "made_by": f"ArviZ {arviz.__version__}, NumPy {numpy.__version__}",
        "probabilities": PROBABILITIES,
        "cases": [],
    }
    for name, draws in cases(rng):
        draws = numpy.round(draws, DECIMALS)
        table["cases"].append({"name": name, "draws": draws.tolist(), **diagnostics(draws)})
    table["stein"] = list(steins(rng))
    beside = pathlib.Path(__file__).with_name("arviz.json")
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else beside
    path.write_text(json.dumps(table, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
