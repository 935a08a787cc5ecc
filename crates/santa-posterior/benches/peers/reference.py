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

# Many, since a product with a matrix costs little more than one with a vector.
CHAINS = 16
STEPS = (0.9, 0.7, 0.5, 0.35, 0.25)
LEAST_ACCEPTANCE = 0.75
PILOT = 5
BURN_IN_PART = 20


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
    def step(key, states, size):
        kernel = blackjax.nuts(logdensity, size, jnp.ones(problem.d))
        states, info = jax.vmap(kernel.step)(random.split(key, CHAINS), states)
        return states, jnp.mean(info.acceptance_rate), jnp.max(info.num_integration_steps)

    key = random.key(problems.SEED)
    # Spread like the Laplace approximation, so that there is little to forget.
    first = random.normal(key, (CHAINS, problem.d))
    states = jax.vmap(lambda z: blackjax.nuts.init(z, logdensity))(first)
    for size in STEPS:
        rates = []
        for i in range(PILOT):
            states, rate, _ = step(random.fold_in(key, i), states, size)
            rates.append(float(rate))
        if np.mean(rates) >= LEAST_ACCEPTANCE:
            break
    draws, leaps, begun = [], 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        states, _, n = step(random.fold_in(key, PILOT + len(draws)), states, size)
        draws.append(np.asarray(states.position))
        leaps += int(n)
    elapsed = time.perf_counter() - begun
    chains = np.stack(draws, axis=1)[:, len(draws) // BURN_IN_PART :]
    theta = np.asarray(start) + chains @ np.asarray(root).T
    q = measure.quantities(problem, theta)
    data = arviz.convert_to_dataset({"q": q})
    ess, rhat = arviz.ess(data)["q"].values, arviz.rhat(data)["q"].values
    np.savez(problem.folder / "reference.npz", mean=q.mean(axis=(0, 1)), sd=q.std(axis=(0, 1)), ess=ess)
    print(json.dumps(dict(problem=problem.name, seconds=round(elapsed), step=size, leaps=leaps,
                          draws=q.shape[1] * CHAINS, ess_min=round(float(ess.min())),
                          rhat_max=round(float(rhat.max()), 4))))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
