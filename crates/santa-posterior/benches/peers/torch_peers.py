"""posteriors, on PyTorch: one chain in a process of its own, since its loop is Python's."""

import warnings

warnings.filterwarnings("ignore", category=FutureWarning)

import numpy as np  # noqa: E402
import posteriors  # noqa: E402
import torch  # noqa: E402
from torch.nn.functional import cross_entropy, log_softmax, softplus  # noqa: E402


class Runner:
    """Like that of `jax_peers`."""

    gradients_per_step = 1

    def __init__(self, problem, job, chains, seed):
        if chains != 1:
            raise ValueError("posteriors runs one chain in a process")
        if job.get("whitened"):
            raise ValueError("whitened coordinates are written for JAX only")
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self.problem, self.job = problem, job
        self.chunk = 5 if problem.kind == "network" else 50
        self.x, self.y = (torch.from_numpy(problem.array(name)) for name in ("x", "y"))
        start = torch.from_numpy(problem.array("start").astype(np.float32))
        if problem.kind == "network":
            self.y = self.y.long()
            self.first = unravel(start, problem.layers)
            shown = torch.from_numpy(problem.array("x_test"))
            self.shown, self.judged = shown[: problem.logit_images], shown[: problem.likelihood_images]
            self.labels = torch.from_numpy(problem.array("y_test"))[: problem.likelihood_images].long()
        else:
            self.first = {"w": start}

    def log_posterior(self, params, batch):
        x, y = batch
        n, heat = self.problem.n, self.problem.temperature
        if self.problem.kind == "network":
            mean = -cross_entropy(forward(params, x), y)
        else:
            logit = x @ params["w"]
            mean = torch.mean(y * logit - softplus(logit))
        prior = -0.5 * self.problem.prior_precision * sum((p * p).sum() for p in params.values())
        return (n * mean + prior) / heat, torch.tensor([])

    def start(self, relative_step):
        step = relative_step / self.problem.largest_curvature
        sampler, friction = self.job["sampler"], self.job.get("friction", 0.01)
        if sampler == "sgld":
            self.kernel = posteriors.sgmcmc.sgld.build(self.log_posterior, lr=step)
        else:
            h = step**0.5
            module = getattr(posteriors.sgmcmc, sampler)
            self.kernel = module.build(self.log_posterior, lr=h, alpha=friction / h)
        self.state = self.kernel.init({name: p.clone() for name, p in self.first.items()})

    def run(self, thin):
        draws = []
        for _ in range(self.chunk):
            for _ in range(int(thin)):
                rows = torch.randint(self.problem.n, (self.job["batch"],))
                self.state, _ = self.kernel.update(
                    self.state, (self.x[rows], self.y[rows]), inplace=True)
            draws.append(self.draw())
        return np.stack(draws)[None]

    def draw(self):
        params = self.state.params
        if self.problem.kind != "network":
            return params["w"].numpy().copy()
        with torch.no_grad():
            logits = forward(params, self.shown)
            logits = (logits - logits.mean(dim=1, keepdim=True)).ravel()
            scores = log_softmax(forward(params, self.judged), dim=1)
            score = scores.gather(1, self.labels[:, None]).mean()
        return np.append(logits.numpy(), score.numpy())

    def finish(self, draws):
        return draws.astype(np.float64)


def forward(params, x):
    x = torch.relu(torch.addmm(params["b1"], x, params["w1"]))
    x = torch.relu(torch.addmm(params["b2"], x, params["w2"]))
    return torch.addmm(params["b3"], x, params["w3"])


def unravel(flat, sizes):
    params, at = {}, 0
    for i, (a, b) in enumerate(zip(sizes, sizes[1:]), start=1):
        params[f"w{i}"] = flat[at : at + a * b].reshape(a, b).clone()
        params[f"b{i}"] = flat[at + a * b : at + (a + 1) * b].clone()
        at += (a + 1) * b
    return params
