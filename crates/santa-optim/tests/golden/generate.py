"""Golden values of the classic optimizers, computed by PyTorch in double precision.

Writes `optimizers.json` beside this file, which `tests/golden.rs` compares with the library. To run
it in a scratch virtual environment:

    python3 -m venv venv
    venv/bin/pip install torch numpy
    venv/bin/python crates/santa-optim/tests/golden/generate.py

Nothing is random. The loss is

    L(theta) = sum_i  c_i (theta_i - a_i)^2 / 2  +  s (1 - cos theta_i)

and only its gradient, c (theta - a) + s sin(theta), is handed to the optimizer. The settings of each
run are stored as the library's `Algorithm` reads them; weight decay is stored beside them, since in
the library it is a prior of the target.
"""

import json
import math
import pathlib

import torch

CURVATURE = [0.8, 1.5, 0.3, 2.0, 1.1]
# On the side of zero where theta starts, so that relative errors mean something.
CENTRE = [1.7, -2.7, 2.5, 2.1, -3.1]
BUMP = 0.4
THETA_0 = [2.9, -1.3, 1.2, 3.0, -1.7]
STEPS = 20
KEPT = [1, 2, 5, 20]
WEIGHT_DECAY = 0.05


def gradient(theta):
    c = torch.tensor(CURVATURE, dtype=torch.float64)
    a = torch.tensor(CENTRE, dtype=torch.float64)
    return c * (theta - a) + BUMP * torch.sin(theta)


def constant(value):
    return {"kind": "constant", "value": value}


def rate(schedule, t):
    """The value of a schedule at step t = 1, 2, ..."""
    if schedule["kind"] == "constant":
        return schedule["value"]
    if schedule["kind"] == "block_decay":
        return schedule["start"] * schedule["factor"] ** ((t - 1) // schedule["every"])
    if schedule["kind"] == "power":
        return schedule["a"] * math.pow(t + schedule["b"], schedule["gamma"])
    raise ValueError(schedule)


def build(s, theta, weight_decay):
    """The PyTorch optimizer of the library's settings `s`."""
    common = {"lr": rate(s["lr"], 1), "weight_decay": weight_decay}
    name = s["algorithm"]
    if name == "sgd":
        return torch.optim.SGD(
            [theta], momentum=s["momentum"], nesterov=s["nesterov"], **common
        )
    if name == "adagrad":
        return torch.optim.Adagrad(
            [theta], eps=s["epsilon"], initial_accumulator_value=s["initial_v"], **common
        )
    if name == "adadelta":
        return torch.optim.Adadelta([theta], rho=s["rho"], eps=s["epsilon"], **common)
    if name == "rmsprop":
        return torch.optim.RMSprop(
            [theta], alpha=s["rho"], eps=s["epsilon"], momentum=s["momentum"], **common
        )
    if name == "adam":
        betas = (s["beta1"], s["beta2"])
        decoupled = s["decoupled_weight_decay"]
        if decoupled > 0.0:
            assert weight_decay == 0.0
            common["weight_decay"] = decoupled
            return torch.optim.AdamW([theta], betas=betas, eps=s["epsilon"], **common)
        return torch.optim.Adam([theta], betas=betas, eps=s["epsilon"], **common)
    raise ValueError(name)


def sgd(lr, momentum=0.0, nesterov=False):
    return {"algorithm": "sgd", "lr": lr, "momentum": momentum, "nesterov": nesterov}


def adagrad(initial_v=0.0):
    return {"algorithm": "adagrad", "lr": constant(0.1), "epsilon": 1e-10, "initial_v": initial_v}


def rmsprop(momentum=0.0):
    return {
        "algorithm": "rmsprop",
        "lr": constant(0.02),
        "rho": 0.95,
        "epsilon": 1e-8,
        "momentum": momentum,
    }


def adam(lr, decoupled=0.0):
    return {
        "algorithm": "adam",
        "lr": lr,
        "beta1": 0.9,
        "beta2": 0.99,
        "epsilon": 1e-8,
        "decoupled_weight_decay": decoupled,
    }


# Whether a run is repeated with weight decay; AdamW brings its own.
RUNS = [
    ("sgd", sgd(constant(0.1)), True),
    ("sgd with momentum", sgd(constant(0.05), 0.9), True),
    ("nesterov", sgd(constant(0.05), 0.9, True), True),
    (
        "sgd with momentum, decaying rate",
        sgd({"kind": "block_decay", "start": 0.1, "factor": 0.5, "every": 4}, 0.8),
        True,
    ),
    ("adagrad", adagrad(), True),
    ("adagrad with an initial accumulator", adagrad(0.3), True),
    (
        "adadelta",
        {"algorithm": "adadelta", "lr": constant(1.0), "rho": 0.9, "epsilon": 1e-6},
        True,
    ),
    ("rmsprop", rmsprop(), True),
    ("rmsprop with momentum", rmsprop(0.9), True),
    ("adam", adam(constant(0.05)), True),
    ("adam, decaying rate", adam({"kind": "power", "a": 0.1, "b": 1.0, "gamma": -0.5}), True),
    ("adamw", adam(constant(0.05), 0.1), False),
]


def run(settings, weight_decay):
    theta = torch.nn.Parameter(torch.tensor(THETA_0, dtype=torch.float64))
    optimizer = build(settings, theta, weight_decay)
    kept = {}
    for t in range(1, STEPS + 1):
        optimizer.param_groups[0]["lr"] = rate(settings["lr"], t)
        theta.grad = gradient(theta.detach())
        optimizer.step()
        if t in KEPT:
            kept[str(t)] = theta.detach().tolist()
    return kept


def main():
    torch.set_num_threads(1)
    runs = []
    for name, settings, repeat in RUNS:
        for weight_decay in [0.0, WEIGHT_DECAY] if repeat else [0.0]:
            runs.append(
                {
                    "name": name,
                    "weight_decay": weight_decay,
                    "settings": settings,
                    "theta": run(settings, weight_decay),
                }
            )
    golden = {
        "made_by": f"PyTorch {torch.__version__}, float64",
        "curvature": CURVATURE,
        "centre": CENTRE,
        "bump": BUMP,
        "theta_0": THETA_0,
        "runs": runs,
    }
    path = pathlib.Path(__file__).with_name("optimizers.json")
    path.write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    main()
