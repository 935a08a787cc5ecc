"""What is measured of draws, the same for everyone."""

import json
import warnings

import numpy as np

# Of the draws of a chain, those that are dropped; their time counts.
BURN_IN = 0.2


def quantities(problem, draws):
    """(chains, draws, quantities) of the draws that a program leaves behind."""
    if problem.kind == "network":
        return draws
    projected = draws @ problem.array("projections").T
    if problem.name == "logistic":
        return projected
    return np.concatenate([projected, log_likelihood(problem, draws)[..., None]], axis=-1)


def log_likelihood(problem, draws):
    """Of all data, for every draw."""
    x, y = problem.array("x"), problem.array("y")
    flat = draws.reshape(-1, draws.shape[-1]).astype(np.float32)
    rows = []
    for part in np.array_split(flat, max(1, len(flat) // 200)):
        logits = part @ x.T
        rows.append((logits * y - np.logaddexp(0, logits)).sum(axis=1, dtype=np.float64))
    return np.concatenate(rows).reshape(draws.shape[:-1])


def measure(problem, draws, seconds, most_draws=4000, burn_in=BURN_IN):
    """Effective draws by ArviZ, and how far means and spreads are from the reference."""
    import arviz

    kept = draws[:, int(burn_in * draws.shape[1]) :]
    result = {"seconds": round(seconds, 3), "draws": int(np.prod(kept.shape[:2]))}
    if kept.shape[1] < 8 or not np.isfinite(kept).all():
        return result | {"failed": "diverged" if not np.isfinite(kept).all() else "too few draws"}
    # The likelihood of all data costs more than the rest: of draws beyond these every k-th is used.
    if problem.name == "mnist79":
        kept = kept[:, :: -(-kept.shape[1] // most_draws)]
    q = quantities(problem, kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = arviz.convert_to_dataset({"q": q})
        ess = arviz.ess(data, method="bulk")["q"].values
        rhat = arviz.rhat(data)["q"].values
    result |= {
        "ess_min": round(float(ess.min()), 2),
        "ess_median": round(float(np.median(ess)), 2),
        "ess_per_s": round(float(ess.min()) / seconds, 4),
        "ess_median_per_s": round(float(np.median(ess)) / seconds, 4),
        "rhat_max": round(float(rhat.max()), 3),
    }
    if problem.has("reference.npz"):
        reference = np.load(problem.folder / "reference.npz")
        off = np.abs(q.mean(axis=(0, 1)) - reference["mean"]) / reference["sd"]
        ratio = q.std(axis=(0, 1)) / reference["sd"]
        result |= {
            "bias_max": round(float(off.max()), 4),
            "bias_rms": round(float(np.sqrt((off**2).mean())), 4),
            # How far the ratios of standard deviations are from one.
            "sd_ratio_rms": round(float(np.sqrt(((ratio - 1) ** 2).mean())), 4),
            "sd_ratio_median": round(float(np.median(ratio)), 4),
        }
    if problem.kind == "network":
        result["test_log_likelihood"] = round(float(q[..., -1].mean()), 5)
    return result


# A run is within bounds if means are within this many standard deviations (rms), and standard
# deviations within this share, of the reference, beyond what so few effective draws explain.
BOUND = 0.1
# The fewest effective draws (median) of which that can be said.
LEAST_ESS = 10
# Chains with a larger R-hat disagree: their effective sample size is no number of anything.
RHAT_BOUND = 1.1


def converged(row):
    """Whether the chains agree, so that their effective draws can be counted."""
    return "failed" not in row and row["rhat_max"] <= RHAT_BOUND


def within_bounds(row):
    """`yes` or `no`, or why it cannot be said."""
    if "failed" in row:
        return "no"
    if "bias_rms" not in row:
        return "no reference"
    if not converged(row):
        return "not converged"
    noise = 1 / row["ess_median"] ** 0.5
    means, spreads = BOUND + noise, BOUND + noise / 2**0.5
    good = row["bias_rms"] <= means and row["sd_ratio_rms"] <= spreads
    return "yes" if good and row["ess_median"] >= LEAST_ESS else "no"


def admissible(row):
    """Within bounds; where there is no reference, converged."""
    within = within_bounds(row)
    return within == "yes" or within == "no reference" and converged(row)


def append(path, row):
    with open(path, "a") as file:
        file.write(json.dumps(row) + "\n")
