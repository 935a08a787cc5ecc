"""BlackJAX and SGMCMCJax: chains in one compiled loop, step sizes as arguments of it.

Import only in a process of its own, after its processors are set: XLA counts them once.
"""

import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random

# SGMCMCJax asks for a module that newer JAX has not, and uses it for progress bars alone.
sys.modules.setdefault("jax.experimental.host_callback", types.ModuleType("host_callback"))
jax.experimental.host_callback = sys.modules["jax.experimental.host_callback"]

import blackjax  # noqa: E402
import blackjax.sgmcmc.gradients as estimators  # noqa: E402
import sgmcmcjax.kernels as kernels  # noqa: E402


class Model:
    """Densities of a problem, in JAX; `position` is what the samplers move.

    A whitened regression has w = L^-1 theta for coordinates, where L L^T is the inverse of the
    Hessian at the mode. That only replaces the features x by x L, once, and the prior's matrix.
    """

    def __init__(self, problem, whitened=False):
        self.problem = problem
        precision, heat = problem.prior_precision, problem.temperature
        self.y = jnp.asarray(problem.array("y"))
        x, start = problem.array("x"), problem.array("start")
        if problem.kind == "network":
            self.start = unravel(start.astype(np.float32), problem.layers)
            shown = problem.array("x_test")
            self.shown = jnp.asarray(shown[: problem.logit_images])
            self.judged = jnp.asarray(shown[: problem.likelihood_images])
            self.labels = jnp.asarray(problem.array("y_test")[: problem.likelihood_images], int)
            self.x = jnp.asarray(x)
            self.loglikelihood = lambda w, x, y: jax.nn.log_softmax(forward(w, x))[y.astype(int)] / heat
            self.logprior = lambda w: -0.5 * precision / heat * sum(
                jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(w))
            self.draw = self.network_quantities
            self.to_parameters = lambda draws: draws
            return
        self.draw = lambda w: w
        root = self.root = inverse_root(problem.array("hessian")) if whitened else None
        if whitened:
            start, x = np.linalg.solve(root, start), x @ root.astype(np.float32)
            metric = jnp.asarray(precision * root.T @ root, jnp.float32)
            self.logprior = lambda w: -0.5 * w @ (metric @ w)
        else:
            self.logprior = lambda w: -0.5 * precision * (w @ w)
        self.to_parameters = lambda draws: draws @ root.T if whitened else draws
        self.x = jnp.asarray(x)
        self.start = jnp.asarray(start, jnp.float32)

        def loglikelihood(w, x, y):
            logit = x @ w
            return y * logit - jax.nn.softplus(logit)

        self.loglikelihood = loglikelihood

    def network_quantities(self, w):
        logits = forward(w, self.shown)
        logits = (logits - logits.mean(axis=1, keepdims=True)).ravel()
        scores = jax.nn.log_softmax(forward(w, self.judged))
        score = jnp.mean(jnp.take_along_axis(scores, self.labels[:, None], axis=1))
        return jnp.append(logits, score)

    def logdensity(self, position):
        terms = jax.vmap(self.loglikelihood, (None, 0, 0))(position, self.x, self.y)
        return self.logprior(position) + jnp.sum(terms)

    def scale(self):
        """Largest curvature in the samplers' coordinates."""
        return 1.0 if getattr(self, "root", None) is not None else self.problem.largest_curvature


def inverse_root(hessian):
    """L with L L^T the inverse of the Hessian."""
    values, vectors = np.linalg.eigh(hessian)
    return vectors / np.sqrt(values)


def forward(layers, x):
    for w, b in layers[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def unravel(flat, sizes):
    layers, at = [], 0
    for a, b in zip(sizes, sizes[1:]):
        w, bias = flat[at : at + a * b].reshape(a, b), flat[at + a * b : at + (a + 1) * b]
        layers.append((jnp.asarray(w), jnp.asarray(bias)))
        at += (a + 1) * b
    return layers


class Runner:
    """One sampler with one batch size: `run` continues all chains by `chunk` draws."""

    def __init__(self, problem, job, chains, seed):
        self.model = Model(problem, job.get("whitened", False))
        self.chains, self.seed = chains, seed
        self.network = problem.kind == "network"
        sampler = job["sampler"]
        self.chunk = {True: 5}.get(self.network or sampler == "nuts", 200)
        self.gradients_per_step = job.get("leaps", 1) if sampler.startswith("sghmc") else 1
        self.step = jnp.float32(0)
        self.job = job
        # SGMCMCJax's thermostat keeps what it has traced, and with it the step.
        self.one_step_only = job["peer"] == "sgmcmcjax" and sampler.startswith("sgnht")
        if not self.one_step_only:
            self.compile(None)

    def compile(self, step):
        make = blackjax_kernel if self.job["peer"] == "blackjax" else sgmcmcjax_kernel
        init, advance, position = make(self.model, self.job, step)

        def chain(carry, step, thin):
            def draw(carry, _):
                def body(_, carry):
                    key, i, state = carry
                    key, now = random.split(key)
                    return key, i + 1, advance(i, now, state, step)

                carry = lax.fori_loop(0, thin, body, carry)
                return carry, self.model.draw(position(carry[2]))

            return lax.scan(draw, carry, None, length=self.chunk)

        # Not compiled: XLA would fold the whole data into a constant, slowly.
        self.init = jax.vmap(init, (0, None))
        self.chain = jax.jit(jax.vmap(chain, (0, None, None)))

    def start(self, relative_step):
        """`relative_step` is that of SGLD times the largest curvature (2 is the limit)."""
        step = jnp.float32(relative_step / self.model.scale())
        if self.one_step_only and step != self.step:
            self.compile(float(step))
        self.step = step
        keys = random.split(random.key(self.seed, impl=PRNG), self.chains)
        states = self.init(keys, self.step)
        self.carry = (keys, jnp.zeros(self.chains, int), states)

    def run(self, thin):
        self.carry, draws = self.chain(self.carry, self.step, thin)
        return np.asarray(draws)

    def finish(self, draws):
        return self.model.to_parameters(draws.astype(np.float64))


# Of JAX's generators the one that is fast on CPUs.
PRNG = "rbg"


def blackjax_kernel(model, job, _):
    """`step` is SGLD's; those with momentum take its square root, and friction per step."""
    n, batch, friction = model.problem.n, job.get("batch"), job.get("friction", 0.01)
    sampler = job["sampler"]
    if sampler == "nuts":
        return nuts_kernel(model)
    each = lambda w, row: model.loglikelihood(w, *row)  # noqa: E731
    gradient = estimators.grad_estimator(model.logprior, each, n)
    if sampler.endswith("CV"):
        # Once, outside of the compiled loop.
        gradient = estimators.control_variates(gradient, model.start, (model.x, model.y))
    kind = sampler.removesuffix("CV")

    def advance_with(step_of):
        def advance(i, key, state, step):
            pick, noise = random.split(key)
            rows = random.randint(pick, (batch,), 0, n)
            return step_of(noise, state, (model.x[rows], model.y[rows]), step)

        return advance

    if kind == "sgld":
        algorithm = blackjax.sgld(gradient)
        return (lambda key, step: model.start), advance_with(algorithm.step), lambda s: s
    if kind == "sghmc":
        leaps = job.get("leaps", 10)

        def leap(key, state, rows, step):
            h = jnp.sqrt(step)
            kernel = blackjax.sgmcmc.sghmc.build_kernel(friction / h)
            return kernel(key, state, gradient, rows, h, leaps)

        return (lambda key, step: model.start), advance_with(leap), lambda s: s
    if kind == "sgnht":

        def thermostat(key, state, rows, step):
            h = jnp.sqrt(step)
            kernel = blackjax.sgmcmc.sgnht.build_kernel(friction / h)
            return kernel(key, state, gradient, rows, h)

        def init(key, step):
            return blackjax.sgmcmc.sgnht.init(model.start, key, friction / jnp.sqrt(step))

        return init, advance_with(thermostat), lambda s: s.position
    raise ValueError(f"no sampler {sampler}")


def nuts_kernel(model):
    """Full gradients, the Laplace approximation for a metric; the step is that of whitened HMC."""
    metric = jnp.asarray(np.linalg.inv(model.problem.array("hessian")), model.start.dtype)
    if model.root is not None:
        metric = jnp.ones(model.problem.d, model.start.dtype)
    scale = model.scale()

    def advance(i, key, state, step):
        kernel = blackjax.nuts(model.logdensity, step * scale, metric)
        return kernel.step(key, state)[0]

    init = lambda key, step: blackjax.mcmc.hmc.init(model.start, model.logdensity)  # noqa: E731
    return init, advance, lambda s: s.position


def sgmcmcjax_kernel(model, job, fixed):
    """The kernels are built once; their schedule reads the step that is being traced, or is fixed."""
    sampler, friction = job["sampler"], job.get("friction", 0.01)
    common = dict(loglikelihood=model.loglikelihood, logprior=model.logprior,
                  data=(model.x, model.y), batch_size=job["batch"])
    if sampler == "baoab":
        # Friction per unit of time in it, per step in the others.
        def build(step):
            h = jnp.sqrt(step)
            return kernels.build_baoab_kernel(h, **common, gamma=friction / h)

    else:
        traced = {}
        if sampler.endswith("CV"):
            common["centering_value"] = model.start
        extra = {"sgld": {}, "psgld": {}, "sgnht": {"a": friction},
                 "sghmc": {"alpha": friction, "L": job.get("leaps", 10)}}[sampler.removesuffix("CV")]
        make = getattr(kernels, f"build_{sampler}_kernel")
        triple = make(fixed or (lambda i: traced["step"]), **common, **extra)

        def build(step):
            traced["step"] = step
            return triple

    def init(key, step):
        return build(step)[0](key, model.start)

    def advance(i, key, state, step):
        return build(step)[1](i, key, state)

    return init, advance, build(jnp.float32(1))[2]


def train(problem, epochs=12, batch=100, rate=1e-3, curvature_images=5000, power_steps=30):
    """The network's start by Adam, and its largest curvature by the power method."""
    flat = np.concatenate([
        np.concatenate([np.random.default_rng(b).standard_normal(a * b) * np.sqrt(2 / a), np.zeros(b)])
        for a, b in zip(problem.layers, problem.layers[1:])
    ])
    np.save(problem.folder / "start.npy", flat.astype("<f4"))
    model, n = Model(problem), problem.n
    losses = lambda w, x, y: -jnp.mean(jax.vmap(model.loglikelihood, (None, 0, 0))(w, x, y))  # noqa: E731
    loss = lambda w, x, y: losses(w, x, y) - model.logprior(w) / n  # noqa: E731

    import optax
    steps = epochs * n // batch
    adam = optax.adam(optax.cosine_decay_schedule(rate, steps))

    @jax.jit
    def epoch(carry, key):
        def step(carry, rows):
            w, state = carry
            moves, state = adam.update(jax.grad(loss)(w, model.x[rows], model.y[rows]), state)
            return (optax.apply_updates(w, moves), state), None

        return lax.scan(step, carry, random.permutation(key, n).reshape(-1, batch))[0]

    carry = (model.start, adam.init(model.start))
    for key in random.split(random.key(1), epochs):
        carry = epoch(carry, key)
    w = carry[0]
    x, y = model.x[:curvature_images], model.y[:curvature_images]
    push = jax.jit(lambda v: jax.jvp(jax.grad(lambda w: loss(w, x, y)), (w,), (v,))[1])
    v = jax.tree.map(lambda leaf: random.normal(random.key(2), leaf.shape), w)
    for _ in range(power_steps):
        norm = jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(v)))
        v = push(jax.tree.map(lambda leaf: leaf / norm, v))
    curvature = n * float(jnp.sqrt(sum(jnp.sum(leaf * leaf) for leaf in jax.tree.leaves(v))))
    flat = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(w)])
    np.save(problem.folder / "start.npy", flat.astype("<f4"))
    print(f"network: largest curvature {curvature:.4g}, test log-likelihood "
          f"{float(model.network_quantities(w)[-1]):.4f}")
    return curvature
