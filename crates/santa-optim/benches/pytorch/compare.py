"""A step of Santa beside a step of PyTorch's fused Adam, in one run.

    cargo bench -p santa-optim --bench step --no-run
    python crates/santa-optim/benches/pytorch/compare.py [--rounds 10]

Runs under any Python that has PyTorch (2.4 or later, for the fused Adam on CPUs), from anywhere
inside the repository, with cargo on the path.

Both work on 1,000,000 float32 parameters in one piece, with two threads. Each round times first
Adam, then Santa by this crate's own benchmark, so that a machine that slows down slows both. A round
yields the best step of each; the table has the best and the median over the rounds. A ratio below 1
means that our step is the faster one.

What is compared is the optimizer's step alone, with the gradient already there. Adam carries two
state vectors and draws no noise. Santa has three (momentum, friction, second moment), and while
exploring it draws a normal deviate for every parameter.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch

PARAMETERS = 1_000_000
THREADS = 2
CASES = ("santa, refining", "santa, exploring")
ADAM = "torch Adam, fused"
# Steps of Adam in a round, of which the best counts: as many as our benchmark makes of 1e6.
STEPS = 100
# Steps before the first one that counts, for the state to be allocated.
WARM_UP = 10


def make_adam():
    theta = torch.full((PARAMETERS,), 0.1, dtype=torch.float32, requires_grad=True)
    theta.grad = torch.full((PARAMETERS,), 0.01, dtype=torch.float32)
    adam = torch.optim.Adam([theta], lr=1e-6, fused=True)
    for _ in range(WARM_UP):
        adam.step()
    return adam


def time_adam(adam):
    """Milliseconds of the best of a number of steps."""
    best = float("inf")
    for _ in range(STEPS):
        start = time.perf_counter()
        adam.step()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def time_santa():
    """Milliseconds of the best step, by case, from the crate's benchmark."""
    command = ["cargo", "bench", "--quiet", "-p", "santa-optim", "--bench", "step", "--"]
    command += ["--json", "--steps-only", *CASES, "1e6"]
    here = pathlib.Path(__file__).resolve().parent
    run = subprocess.run(command, cwd=here, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed")
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    times = {
        row["case"]: row["ms_per_step"]
        for row in rows
        if (row["type"], row["params"], row["threads"]) == ("f32", PARAMETERS, THREADS)
    }
    missing = [case for case in CASES if case not in times]
    if missing:
        sys.exit(f"the benchmark has no rows for {', '.join(missing)}")
    return {case: times[case] for case in CASES}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="alternating rounds (default 10)")
    rounds = parser.parse_args().rounds
    if rounds < 1:
        parser.error("--rounds must be at least 1")

    torch.set_num_threads(THREADS)
    adam = make_adam()
    times = {name: [] for name in (ADAM, *CASES)}
    for number in range(rounds):
        times[ADAM].append(time_adam(adam))
        for case, milliseconds in time_santa().items():
            times[case].append(milliseconds)
        print(f"round {number + 1} of {rounds}", file=sys.stderr)

    print(f"{PARAMETERS} float32 parameters, {THREADS} threads of {os.cpu_count()}, "
          f"torch {torch.__version__}, {rounds} rounds; ms per step")
    print(f"{'step':<20} {'best':>8} {'median':>8} {'best / Adam':>12} {'median / Adam':>14}")
    for name, values in times.items():
        best, median = min(values), statistics.median(values)
        of_best = best / min(times[ADAM])
        of_median = median / statistics.median(times[ADAM])
        print(f"{name:<20} {best:>8.3f} {median:>8.3f} {of_best:>12.2f} {of_median:>14.2f}")


if __name__ == "__main__":
    main()
