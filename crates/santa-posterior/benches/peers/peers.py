"""Posterior sampling by stochastic gradients: BlackJAX, SGMCMCJax, posteriors, and ours.

    python peers.py prepare                      the problems' files
    python peers.py reference --seconds 300      their posteriors by long NUTS runs
    python peers.py tune --seconds 3             every sampler over a grid -> settings.json
    python peers.py run --seconds 20 [--ours "santa-peers ..."]
    python peers.py table [--rows peers.jsonl]   what `run` has found, as Markdown

Everything is in the folder of --work; README.md says what is measured, and how.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile
import time

import numpy as np

import measure
import problems

HERE = pathlib.Path(__file__).resolve().parent
CHAINS = 2
# Seconds that a chain waits for the other one to be compiled, before it takes it for dead.
PATIENCE = 300
# Draws kept of a chain. Those of `mnist79` are long, and measured by fewer anyway.
KEEP = {"logistic": 100_000, "mnist79": 10_000, "network": 10_000}
# Steps of SGLD, times the largest curvature; samplers with momentum take the square root.
GRID = (1e-4, 1e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)
NETWORK_GRID = (1e-3, 1e-2, 1e-1)
# psgld scales by the gradient's size, so its steps are in other units.
PSGLD_GRID = tuple(step * 100 for step in GRID)
NUTS_GRID = (0.2, 0.4, 0.8)
BATCHES = (100, 1000)
FRICTIONS = (0.01, 0.1)
LEAPS = (10,)
SAMPLERS = {
    "blackjax": ("sgld", "sgldCV", "sghmc", "sghmcCV", "sgnht", "sgnhtCV", "nuts"),
    "sgmcmcjax": ("sgld", "sgldCV", "psgld", "baoab", "sghmc", "sghmcCV", "sgnht", "sgnhtCV"),
    "posteriors": ("sgld", "sghmc", "sgnht"),
}


def jobs(problem, peer, sampler, whitened):
    """The settings to be tried, without the step: a job is compiled once for all steps."""
    network = problem == "network"
    if network and (sampler.endswith("CV") or sampler == "nuts"):
        return  # No mode to centre at, and full gradients are out of reach.
    if whitened and (network or peer == "posteriors"):
        return
    grids = {"batch": (100,) if network else BATCHES}
    if sampler == "nuts":
        grids = {}
    elif sampler.startswith("sghmc") and peer != "posteriors":
        # The momentum is drawn anew after so many leaps. Their Euler steps need friction besides.
        grids["leaps"] = LEAPS
        grids["friction"] = FRICTIONS[:1] if network else FRICTIONS
    elif sampler.removesuffix("CV") in ("sghmc", "sgnht", "baoab"):
        grids["friction"] = FRICTIONS[:1] if network else FRICTIONS
    for values in itertools.product(*grids.values()):
        yield dict(problem=problem, peer=peer, sampler=sampler, whitened=whitened) | dict(
            zip(grids, values))


def steps_of(job):
    if job["sampler"] == "nuts":
        return NUTS_GRID
    if job["sampler"] == "psgld":
        return PSGLD_GRID
    return NETWORK_GRID if job["problem"] == "network" else GRID


def worker(folder, job, steps, seconds, chains, seed, processors, barrier, out):
    """Compiles, then samples for `seconds` with every step; a file of draws for each."""
    os.sched_setaffinity(0, processors)
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["OMP_NUM_THREADS"] = str(len(processors))
    if job["peer"] == "posteriors":
        from torch_peers import Runner
    else:
        from jax_peers import Runner
    runner = Runner(problems.Problem(folder), job, chains, seed)
    runner.start(steps[0])
    runner.run(1)
    for index, step in enumerate(steps):
        # Of the fastest of three, how many steps to leave out between draws.
        runner.start(step)
        took = min(timed(runner.run, 1) for _ in range(3))
        thin = max(1, int(seconds * runner.chunk / took / KEEP[job["problem"]]))
        if job["problem"] == "network":
            thin = max(thin, 20)
        runner.start(step)
        barrier.wait(PATIENCE)
        parts, begun = [], time.perf_counter()
        while time.perf_counter() - begun < seconds:
            parts.append(runner.run(thin))
            if not np.isfinite(parts[-1]).all():
                break
        elapsed = time.perf_counter() - begun
        draws = np.concatenate(parts, axis=1)
        gradients = draws.shape[1] * thin * runner.gradients_per_step
        np.savez(out / f"{seed}-{index}.npz", draws=runner.finish(draws), seconds=elapsed,
                 thin=thin, gradients=gradients)


def timed(function, *arguments):
    begun = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begun


def sample(work, job, steps, seconds, mode):
    """Rows of results, one for each step. Two chains: in one program, or one in each of two."""
    folder = work / job["problem"]
    problem = problems.Problem(folder)
    context = multiprocessing.get_context("spawn")
    processors = sorted(os.sched_getaffinity(0))[:CHAINS]
    parts = [set(processors)] if mode == "vmap" else [{p} for p in processors]
    barrier = context.Barrier(len(parts))
    with tempfile.TemporaryDirectory(dir=work) as out:
        out = pathlib.Path(out)
        processes = [
            context.Process(target=worker, args=(folder, job, steps, seconds,
                                                 CHAINS // len(parts), seed, part, barrier, out))
            for seed, part in enumerate(parts)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        for index, step in enumerate(steps):
            row = dict(who=job["peer"], **{k: v for k, v in job.items() if k != "peer"},
                       step=step, mode=mode)
            files = sorted(out.glob(f"*-{index}.npz"))
            if len(files) < len(parts):
                yield row | {"failed": "the program ended early"}
                continue
            loaded = [np.load(file) for file in files]
            least = min(part["draws"].shape[1] for part in loaded)
            draws = np.concatenate([part["draws"][:, :least] for part in loaded])
            elapsed = max(float(part["seconds"]) for part in loaded)
            gradients = sum(int(part["gradients"]) for part in loaded) * CHAINS // len(parts)
            yield row | {"thin": int(loaded[0]["thin"]), "gradients_per_s": round(gradients / elapsed)
                         } | measure.measure(problem, draws, elapsed)


def ours(work, problem, command, seconds):
    """Runs `command PROBLEM_DIR OUT_DIR --seconds S --chains 2`, which leaves in OUT_DIR

    one or several NAME.npy f32 or f64 (chains, draws, d), parameters for regressions and
    quantities for the network, each with NAME.json: `seconds`, all that it took but reading the
    files, and what else is to be in the table (`sampler`, `batch`, `step`...). A true
    `warmed_up` means that the draws need no burn-in; the time of the warm-up is in `seconds`.
    """
    folder = work / problem
    with tempfile.TemporaryDirectory(dir=work) as out:
        call = shlex.split(command) + [str(folder), out, "--seconds", str(seconds),
                                       "--chains", str(CHAINS)]
        if subprocess.run(call).returncode != 0:
            yield dict(who="santa", problem=problem, failed="the program ended early")
            return
        for file in sorted(pathlib.Path(out).glob("*.npy")):
            about = json.loads(file.with_suffix(".json").read_text())
            burn_in = 0.0 if about.pop("warmed_up", False) else measure.BURN_IN
            about.setdefault("sampler", file.stem)
            yield dict(who="santa", problem=problem) | about | measure.measure(
                problems.Problem(folder), np.load(file).astype(np.float64), about["seconds"],
                burn_in=burn_in)


def tune(options):
    """Of every sampler the setting with most effective draws a second within the bound."""
    record = options.work / "tune.jsonl"
    for problem, peer in itertools.product(options.problems, options.peers):
        for sampler in SAMPLERS[peer]:
            if options.samplers and sampler not in options.samplers:
                continue
            for job in jobs(problem, peer, sampler, options.whitened):
                if options.batches and job.get("batch") not in (None, *options.batches):
                    continue
                own = sampler in ("nuts", "psgld")
                steps = steps_of(job) if own else options.steps or steps_of(job)
                for row in sample(options.work, job, steps, options.seconds, "processes"):
                    measure.append(record, row)
                    show(row)
    choose(options, record)


def choose(options, record):
    found = {}
    for row in map(json.loads, open(record)):
        found.setdefault(key(row), []).append(row)
    settings = json.loads(options.settings.read_text()) if options.settings.exists() else {}
    for name, rows in found.items():
        good = [row for row in rows if measure.admissible(row)]
        if good:
            best = max(good, key=lambda row: row["ess_per_s"])
        else:
            worked = [row for row in rows if "failed" not in row] or rows
            best = min(worked, key=lambda row: row.get("bias_rms", 9) + row.get("sd_ratio_rms", 9))
        kept = ("problem", "sampler", "whitened", "batch", "leaps", "friction", "step")
        settings[name] = {"peer": best["who"]} | {k: best[k] for k in kept if k in best} | {
            "within_bound": bool(good)}
    options.settings.write_text(
        "{\n" + ",\n".join(f'"{name}": {json.dumps(settings[name])}' for name in sorted(settings))
        + "\n}\n")


def key(row):
    return " ".join([row["problem"], row["who"], row["sampler"]] + ["whitened"] * row["whitened"])


def run(options):
    """The chosen settings and ours, each for the same time."""
    record = options.work / "results.jsonl"
    if not options.settings.exists():
        sys.exit(f"no {options.settings}; make it with `peers.py tune`")
    for problem in options.problems:
        if options.ours:
            for row in ours(options.work, problem, options.ours, options.seconds):
                measure.append(record, row)
                show(row)
        for setting in json.loads(options.settings.read_text()).values():
            job = {k: v for k, v in setting.items() if k not in ("step", "within_bound")}
            wanted = job["problem"] == problem and job["peer"] in options.peers
            if not wanted or (options.samplers and job["sampler"] not in options.samplers):
                continue
            for mode in options.modes:
                if mode == "vmap" and job["peer"] == "posteriors":
                    continue
                for row in sample(options.work, job, [setting["step"]], options.seconds, mode):
                    measure.append(record, row)
                    show(row)


def show(row):
    left_out = ("ess_median_per_s", "rhat_max", "sd_ratio_median", "draws")
    print(" ".join(f"{k}={v}" for k, v in row.items() if k not in left_out), flush=True)


def table(options):
    """The better of the modes for each sampler, ours first, ratios to our best admissible one.

    Effective draws are counted of chains that agree, and compared between such chains alone.
    """
    rows = [json.loads(line) for line in open(options.rows or options.work / "results.jsonl")]
    for problem in options.problems:
        best = {}
        for row in (row for row in rows if row["problem"] == problem and "ess_min" in row):
            name = (row["who"], row["sampler"], bool(row.get("whitened")))
            # Runs of the same kind: the last one of each mode, then the better mode.
            best.setdefault(name, {})[row.get("mode", "")] = row
        rows_here = [max(modes.values(), key=lambda row: row["ess_per_s"]) for modes in best.values()]
        rows_here.sort(key=lambda row: (
            row["who"] != "santa", not measure.converged(row),
            -row["ess_per_s"] if measure.converged(row) else -row.get("gradients_per_s", 0)))
        if not rows_here:
            continue
        mine = [row for row in rows_here if row["who"] == "santa" and measure.admissible(row)]
        against = max((row["ess_per_s"] for row in mine), default=None)
        print(f"\n### {problem}\n")
        print("| who | sampler | batch | step | gradients/s | ESS/s, least | ESS/s, median | "
              "R-hat, largest | bias, rms | sd off, rms | within bounds | ours is faster by |")
        print("| --- | --- " + "| ---: " * 8 + "| --- | ---: |")
        for row in rows_here:
            counts = measure.converged(row)
            compared = against and counts and row["who"] != "santa"
            ratio = against / row["ess_per_s"] if compared else None
            cells = [
                row["who"], row["sampler"] + (", whitened" if row.get("whitened") else ""),
                row.get("batch", ""), f"{row['step']:.3g}" if "step" in row else "",
                f"{row['gradients_per_s']:.0f}" if "gradients_per_s" in row else "",
                *(f"{row[k]:.3g}" if counts else "not converged"
                  for k in ("ess_per_s", "ess_median_per_s")),
                f"{row['rhat_max']:.2f}", row.get("bias_rms", ""), row.get("sd_ratio_rms", ""),
                measure.within_bounds(row),
                "" if ratio is None else f"{ratio:.3g}",
            ]
            print("| " + " | ".join(str(cell) for cell in cells) + " |")


def reference(options):
    """A process for each problem, since JAX is told once that it counts in f64."""
    for name in options.problems:
        call = [sys.executable, str(HERE / "reference.py"), str(options.work / name),
                str(options.seconds)]
        if name != "network" and (options.work / name).exists():
            subprocess.run(call, check=True)


def prepare(options):
    problems.prepare(options.work, options.problems, options.temperature)
    folder = options.work / "network"
    if folder.exists() and not (folder / "start.npy").exists():
        import jax_peers

        about = json.loads((folder / "problem.json").read_text())
        curvature = jax_peers.train(problems.Problem(folder))
        problems.write(folder, **about | {"largest_curvature": curvature})


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("do", choices=["prepare", "reference", "tune", "choose", "run", "table"])
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("peers-work"))
    parser.add_argument("--settings", type=pathlib.Path, default=HERE / "settings.json")
    parser.add_argument("--problems", nargs="*", default=problems.NAMES, choices=problems.NAMES)
    parser.add_argument("--peers", nargs="*", default=list(SAMPLERS), choices=list(SAMPLERS))
    parser.add_argument("--samplers", nargs="*", help="only these")
    parser.add_argument("--rows", type=pathlib.Path,
                        help="`table` of these rows instead of those in the work folder")
    parser.add_argument("--steps", nargs="*", type=float, help="tune over these only")
    parser.add_argument("--batches", nargs="*", type=int, help="tune with these only")
    parser.add_argument("--modes", nargs="*", default=["vmap", "processes"])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--temperature", type=float, default=1.0, help="of the network's posterior")
    parser.add_argument("--whitened", action="store_true",
                        help="tune on regressions whitened by the Hessian at the mode")
    parser.add_argument("--ours", help="our program; see `ours` for what it is given and leaves")
    options = parser.parse_args()
    if not options.rows:
        options.work.mkdir(parents=True, exist_ok=True)
    actions = dict(prepare=prepare, reference=reference, tune=tune, run=run, table=table,
                   choose=lambda o: choose(o, o.work / "tune.jsonl"))
    if options.do != "prepare" and not options.rows:
        options.problems = [p for p in options.problems if (options.work / p).exists()]
    actions[options.do](options)


if __name__ == "__main__":
    main()
