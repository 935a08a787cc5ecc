"""The posterior of a regression by NUTS in f64, with the Laplace approximation for a metric.

    python reference.py PROBLEM_DIR SECONDS
"""

import json
import pathlib
import sys
import time

import jax

jax.config.update("jax_enable_x64", True)

import arviz  # noqa: E402
import blackjax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import random  # noqa: E402

import measure  # noqa: E402
import problems  # noqa: E402

CHAINS = 2
STEPS = (0.9, 0.7, 0.5, 0.35, 0.25)
LEAST_ACCEPTANCE = 0.75
PILOT = 10


def main(folder, seconds):
    problem = problems.Problem(pathlib.Path(folder))
    x, y = (jnp.asarray(problem.array(name), jnp.float64) for name in ("x", "y"))
    start, hessian = problem.array("start"), problem.array("hessian")
    root = np.linalg.inv(np.linalg.cholesky(hessian)).T
    # Whitened about the mode: the features are multiplied once.
    features, offset, root, start = x @ root, x @ start, jnp.asarray(root), jnp.asarray(start)

    def logdensity(z):
        logit, theta = features @ z + offset, start + root @ z
        likelihood = jnp.sum(y * logit - jax.nn.softplus(logit))
        return likelihood - 0.5 * problem.prior_precision * theta @ theta

    @jax.jit
    def step(key, state, size):
        state, info = blackjax.nuts(logdensity, size, jnp.ones(problem.d)).step(key, state)
        return state, info.acceptance_rate, info.num_integration_steps

    keys = random.split(random.key(problems.SEED), CHAINS)
    # Spread like the Laplace approximation, so that there is nothing to forget.
    states = [blackjax.nuts.init(random.normal(key, (problem.d,)), logdensity) for key in keys]
    for size in STEPS:
        rates = []
        for i in range(PILOT):
            states[0], rate, _ = step(random.fold_in(keys[0], i), states[0], size)
            rates.append(float(rate))
        if np.mean(rates) >= LEAST_ACCEPTANCE:
            break
    draws, leaps, i, begun = [[] for _ in keys], 0, PILOT, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for c, key in enumerate(keys):
            states[c], _, n = step(random.fold_in(key, i), states[c], size)
            draws[c].append(np.asarray(states[c].position))
            leaps += int(n)
        i += 1
    elapsed = time.perf_counter() - begun
    theta = np.asarray(start) + np.asarray(draws) @ np.asarray(root).T
    theta = theta[:, theta.shape[1] // 20 :]
    q = measure.quantities(problem, theta)
    data = arviz.convert_to_dataset({"q": q})
    ess, rhat = arviz.ess(data)["q"].values, arviz.rhat(data)["q"].values
    np.savez(problem.folder / "reference.npz", mean=q.mean(axis=(0, 1)), sd=q.std(axis=(0, 1)), ess=ess)
    print(json.dumps(dict(problem=problem.name, seconds=round(elapsed), step=size, leaps=leaps,
                          draws=q.shape[1] * CHAINS, ess_min=round(float(ess.min())),
                          rhat_max=round(float(rhat.max()), 4))))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
