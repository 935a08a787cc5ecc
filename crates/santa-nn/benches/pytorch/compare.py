"""A training step of our models beside one of PyTorch, in one run.

    cargo bench -p santa-nn --bench models --no-run
    python crates/santa-nn/benches/pytorch/compare.py [--quick] [--json FILE] [CASE...]

Runs under any Python that has PyTorch (2.4 or later, for the fused Adam on CPUs), from anywhere
inside the repository, with cargo on the path. `torch.compile` also needs a C++ compiler; what does
not work is left out with a message. `--pytorch-only` needs no cargo.

A step is: gradients cleared, forward, loss, backward, optimizer. Batches of 100, float32, two
threads. Each case is built in several ways, since which one is fastest depends on the machine:

    fnn-400, fnn-800   784-400-400-10 and 784-800-800-10, ReLU
    cnn-paper          28x28x1, two 5x5 convolutions (32, 64) with padding 2, each followed by 2x2
                       max pooling and ReLU, then 200-200-10
    cnn-paper-valid    the same without padding
    cnn-authors        the same with padding 4 and one hidden layer of 500
    gru-200            one sequence of 500 steps of 88 keys, learned initial state

Each round takes the cases in turn, first every PyTorch variant, then our benchmark, so that a
machine that slows down slows both. A round yields the best step of each; the table has the best
and the median over the rounds, and the page faults of a step. A ratio below 1 means that our step
is the faster one. PyTorch's optimizer is Adam, ours is Santa: while it explores it draws a normal
deviate for every parameter, while it refines it does not.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import types
import typing

import torch
import torch.nn.functional as F
from torch import nn

from gru import CustomGru, PLAIN_LOOPS, TorchGru, check_custom_gru, scripted_loops

THREADS = 2
BATCH = 100
CLASSES = 10
IMAGE = 28
KEYS, HIDDEN, SEQUENCE = 88, 200, 500
# Parameters hardly move, so that no gradient dies out in thousands of steps on one batch.
RATE = 1e-6
# Steps before the first one that counts: buffers are allocated and the optimizer has its state.
WARM_UP = 5
# However slow a step is, a round makes this many.
LEAST_STEPS = 3
CRATE = pathlib.Path(__file__).resolve().parents[2]
# What our benchmark knows.
OURS = ("fnn-400", "fnn-800", "cnn-paper", "cnn-authors", "gru-200")


@dataclasses.dataclass
class Variant:
    """One way to make a step: `loss()` builds the graph, the optimizer holds the parameters."""

    name: str
    loss: typing.Callable
    optimizer: torch.optim.Optimizer
    rounds: list = dataclasses.field(default_factory=list)

    def step(self):
        """Seconds of the whole step, of forward, of backward and of the optimizer."""
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss = self.loss()
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        self.optimizer.step()
        end = time.perf_counter()
        return end - start, forward - start, backward - forward, end - backward

    def run(self, seconds):
        """One round."""
        for _ in range(WARM_UP):
            self.step()
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        times = []
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline or len(times) < LEAST_STEPS:
            times.append(self.step())
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        step, forward, backward, optimizer = (min(column) * 1e3 for column in zip(*times))
        self.rounds.append(
            {
                "ms_per_step": step,
                "forward_ms": forward,
                "backward_ms": backward,
                "optimizer_ms": optimizer,
                "faults_per_step": faults / len(times),
                "steps": len(times),
            }
        )


# ---- models -------------------------------------------------------------------------------------


def fnn(width):
    inputs = IMAGE * IMAGE
    return nn.Sequential(
        *(nn.Linear(inputs, width), nn.ReLU()),
        *(nn.Linear(width, width), nn.ReLU()),
        nn.Linear(width, CLASSES),
    )


def cnn(padding, hidden):
    channels, kernel, side = (1, 32, 64), 5, IMAGE
    layers = []
    for before, after in zip(channels, channels[1:]):
        layers += [nn.Conv2d(before, after, kernel, padding=padding), nn.MaxPool2d(2), nn.ReLU()]
        side = (side + 2 * padding - kernel + 1) // 2
    layers.append(nn.Flatten())
    width = side * side * channels[-1]
    for units in hidden:
        layers += [nn.Linear(width, units), nn.ReLU()]
        width = units
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


MODELS = {
    "fnn-400": lambda: fnn(400),
    "fnn-800": lambda: fnn(800),
    "cnn-paper": lambda: cnn(2, (200, 200)),
    "cnn-paper-valid": lambda: cnn(0, (200, 200)),
    "cnn-authors": lambda: cnn(4, (500,)),
}
CASES = (*MODELS, "gru-200")


def adam(model, **how):
    return torch.optim.Adam(model.parameters(), lr=RATE, **how)


def classifier(case, name, mode=None, channels_last=False, **how):
    """A classifier with Adam; `mode` is that of torch.compile."""
    torch.manual_seed(1)
    model = MODELS[case]()
    shape = (BATCH, IMAGE * IMAGE) if case.startswith("fnn") else (BATCH, 1, IMAGE, IMAGE)
    x = torch.rand(shape)
    labels = torch.randint(CLASSES, (BATCH,))
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)

    def loss(x, labels):
        return F.cross_entropy(model(x), labels)

    if mode:
        # Graphs are kept by code object: with one of its own, no variant recompiles another.
        loss = types.FunctionType(
            loss.__code__.replace(co_name=f"{case} {name}"), globals(), closure=loss.__closure__
        )
        loss = torch.compile(loss, mode=mode, dynamic=False)
    return Variant(name, lambda: loss(x, labels), adam(model, **(how or {"fused": True})))


def recurrent(name, make):
    torch.manual_seed(1)
    model = make(KEYS, HIDDEN)
    x = (torch.rand(SEQUENCE, KEYS) < 0.1).float()
    return Variant(name, lambda: model(x), adam(model, fused=True))


def custom(name, loops):
    check_custom_gru(loops)
    return recurrent(name, lambda keys, hidden: CustomGru(keys, hidden, loops))


def variants(case, compiled):
    """Name and constructor of each way to build a case."""
    if case == "gru-200":
        # Not compiled: torch.compile would unroll every step of the sequence.
        yield "nn.GRU", lambda name: recurrent(name, TorchGru)
        yield "custom function", lambda name: custom(name, PLAIN_LOOPS)
        yield "custom function, scripted", lambda name: custom(name, scripted_loops())
        return
    if case.startswith("fnn"):
        yield "eager, Adam fused", lambda name: classifier(case, name)
        yield "eager, Adam foreach", lambda name: classifier(case, name, foreach=True)
        layouts = [("", {})]
        modes = ["default", "max-autotune-no-cudagraphs"]
    else:
        yield "eager", lambda name: classifier(case, name)
        yield "eager, channels last", lambda name: classifier(case, name, channels_last=True)
        layouts = [("", {}), (", channels last", {"channels_last": True})]
        modes = ["default"]
    if compiled:
        for mode in modes:
            for label, layout in layouts:
                title = f"compiled {mode}".replace(" default", "") + label
                yield title, lambda name, m=mode, l=layout: classifier(case, name, m, **l)


def build(case, compiled):
    """The variants that work, each warmed up."""
    built = []
    for name, make in variants(case, compiled):
        start = time.perf_counter()
        try:
            variant = make(name)
            for _ in range(WARM_UP):
                variant.step()
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            print(f"{case}, {name}: left out, {reason}", file=sys.stderr)
            continue
        built.append(variant)
        print(f"{case}, {name}: ready in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    return built


# ---- our benchmark ------------------------------------------------------------------------------


def find_benchmark():
    """The path of our benchmark's binary, built if need be."""
    command = ["cargo", "bench", "-p", "santa-nn", "--bench", "models", "--no-run"]
    command.append("--message-format=json")
    run = subprocess.run(command, cwd=CRATE, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed; --pytorch-only does without")
    for line in run.stdout.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["target"]["name"] == "models":
            return message["executable"]
    sys.exit("cargo has built no benchmark named `models`")


def run_benchmark(binary, case):
    """The row of a case, with the peak of the machine that the benchmark saw."""
    command = [binary, "--json", case, "--bench"]  # as cargo would call it
    run = subprocess.run(command, cwd=CRATE, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"`{' '.join(command)}` failed")
    report = json.loads(run.stdout.splitlines()[-1])
    if report["threads"] != THREADS:
        sys.exit(f"our benchmark ran with {report['threads']} threads instead of {THREADS}")
    rows = [row for row in report["cases"] if row["name"] == case]
    if not rows:
        sys.exit(f"our benchmark has no case {case}")
    return {**rows[0], "gemm_peak_gflops": report["gemm_peak_gflops"]}


# ---- the table ----------------------------------------------------------------------------------


def best_and_median(rounds, key="ms_per_step"):
    values = [one[key] for one in rounds]
    return min(values), statistics.median(values)


def row(name, rounds, ours=None):
    best, median = best_and_median(rounds)
    cells = f"  {name:<38} {best:>8.2f} {median:>8.2f}"
    for part in ("forward_ms", "backward_ms", "optimizer_ms"):
        cells += f" {best_and_median(rounds, part)[0]:>8.2f}"
    faults = [one["faults_per_step"] for one in rounds if "faults_per_step" in one]
    cells += f" {statistics.median(faults):>8.0f}" if faults else f" {'':>8}"
    if ours:
        our_best, our_median = best_and_median(ours)
        cells += f" {our_best / best:>8.2f} {our_median / median:>8.2f}"
    return cells


def print_table(built, ours, rounds):
    print(f"float32, {THREADS} threads of {os.cpu_count()}, torch {torch.__version__}, "
          f"{rounds} rounds")
    print("ms per step: best and median over the rounds, best of each part; page faults per step;")
    print("ours / PyTorch: best / best and median / median")
    titles = ("best", "median", "forward", "backward", "optim.", "faults", "ratio", "median")
    print(f"{'':<40} " + " ".join(f"{title:>8}" for title in titles))
    for case, variants_of_case in built.items():
        print(case)
        for variant in variants_of_case:
            print(row(variant.name, variant.rounds, ours.get(case)))
        if case in ours:
            print(row("ours, exploring", ours[case]))
            best, median = best_and_median(ours[case], "refining_ms")
            print(f"  {'ours, refining':<38} {best:>8.2f} {median:>8.2f}")
    for case, our_rounds in ours.items():
        print_ratios(case, built[case], our_rounds)


def print_ratios(case, variants_of_case, our_rounds):
    """Our best round, and its ratio to PyTorch's best; for the GRU, to each kind of it."""
    ours = min(our_rounds, key=lambda one: one["ms_per_step"])
    print(
        f"{case}: {ours['ms_per_step']:.2f} ms, {ours['gflops']:.0f} GFLOP/s, "
        f"{ours['share_of_peak']:.0%} of the peak for products"
    )
    our_best, our_median = best_and_median(our_rounds)
    kinds = ["nn.GRU", "custom function"] if case == "gru-200" else [""]
    for kind in kinds:
        candidates = [variant for variant in variants_of_case if variant.name.startswith(kind)]
        if not candidates:
            continue
        fastest = min(candidates, key=lambda variant: best_and_median(variant.rounds))
        best, median = best_and_median(fastest.rounds)
        shown = fastest.name if kind else f"PyTorch, {fastest.name}"
        refining_best, refining_median = best_and_median(our_rounds, "refining_ms")
        print(
            f"  against {shown}: {our_best / best:.2f}, median {our_median / median:.2f}; "
            f"refining {refining_best / best:.2f}, median {refining_median / median:.2f}"
        )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (all)")
    parser.add_argument("--rounds", type=int, help="alternating rounds (default 5)")
    parser.add_argument("--seconds", type=float, help="for a variant in a round (default 0.4)")
    parser.add_argument("--quick", action="store_true", help="2 short rounds, nothing compiled")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--pytorch-only", action="store_true", help="leave our benchmark out")
    parser.add_argument("--json", metavar="FILE", help="write every round to a file")
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = options.seconds or (0.2 if options.quick else 0.4)
    options.cases = options.cases or list(CASES)
    unknown = [case for case in options.cases if case not in CASES]
    if unknown:
        parser.error(f"no case named {', '.join(unknown)}; there are {', '.join(CASES)}")
    if options.rounds < 1 or options.seconds <= 0:
        parser.error("--rounds and --seconds must be positive")
    return options


def main():
    options = arguments()
    torch.set_num_threads(THREADS)
    binary = None if options.pytorch_only else find_benchmark()
    compiled = not (options.quick or options.no_compile)
    built = {case: build(case, compiled) for case in options.cases}
    ours = {case: [] for case in options.cases if binary and case in OURS}
    for number in range(options.rounds):
        for case in options.cases:
            for variant in built[case]:
                variant.run(options.seconds)
            if case in ours:
                ours[case].append(run_benchmark(binary, case))
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)

    print_table(built, ours, options.rounds)
    if options.json:
        record = {
            "torch": torch.__version__,
            "threads": THREADS,
            "rounds": options.rounds,
            "pytorch": {c: {v.name: v.rounds for v in vs} for c, vs in built.items()},
            "ours": ours,
        }
        pathlib.Path(options.json).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
