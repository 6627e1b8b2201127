"""Tables of what is built on covering: the paper's algorithms and certificates."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks import _results
from benchmarks._formats import in_seconds
from benchmarks.comparison.markdown import table


def pac_runs() -> str:
    """PCE and PRINCIPLE on the toy, at the paper's constants."""
    rows = [
        [
            row["algorithm"],
            f"{row['epsilon']:g}",
            f"{row['episodes']:.2e}",
            f"{row['conclusions_rest_on']:.1e}",
            f"{row['phases']}",
            in_seconds(row["seconds"]),
        ]
        for row in _results.read("pac")["first_runs"]
    ]
    heads = ["algorithm", "epsilon", "episodes", "of which used for estimates", "parts", "time"]
    return table(heads, rows)


def visitations() -> str:
    """EstimateVisitations on random worlds: failures of each claim."""
    found = _results.read("pac")["visitations"]
    failed = found["failed"]
    rows = [
        ["runs, each on a random world", f"{found['runs']:,}"],
        ["episodes a run, on average", f"{found['episodes_a_run']:.1e}"],
        ["W outside its interval", f"{failed['interval']}"],
        ["one of the two inclusions violated", f"{failed['inclusions']}"],
        ["upper bound more than 36 W", f"{failed['factor 36']}"],
        ["largest upper bound over W seen", f"{found['largest_factor']:.2f}"],
    ]
    return table(["", ""], rows)


def worst_rewards() -> str:
    """PCE's model against the worst of all rewards."""
    rows = [
        [
            f"S {row['states']}, A 2, H {row['horizon']}",
            f"{row['epsilon']:g}",
            f"{row['runs']}",
            f"{row['certified']:.3f}",
            f"{row['worst_loss']:.1e}",
            f"{row['failed']}",
        ]
        for row in _results.read("pac")["worst_rewards"]
    ]
    heads = ["worlds", "epsilon", "runs", "certified", "worst loss, any reward", "failed"]
    return table(heads, rows)


def scan() -> str:
    """PCE over sizes and precisions."""
    rows = [
        [
            f"{row['states']}, {row['actions']}, {row['horizon']}",
            f"{row['epsilon']:.3g}",
            f"{row['visitation_episodes']:.1e}",
            f"{row['phase_episodes']:.1e}",
            f"{row['last_ratio']:.2f}",
            f"{row['last_bound']:.1e}",
            f"{row['phase_episodes'] / row['leading_term']:.0f}",
        ]
        for row in _results.read("pac")["rows"]
    ]
    heads = ["S, A, H", "eps", "visitations", "phases", "tau/phi*", "bound/phi*", "/leading term"]
    return table(heads, rows)


def two_branches() -> str:
    """What elimination saves on the two-branch world."""
    rows = [
        [
            f"{row['epsilon']:g}",
            f"{row['phases']}",
            f"{row['episodes']:.1e}",
            f"{row['entered_over_uniform']:.3f}",
            f"{row['episodes_over_uniform']:.2f}",
            f"{row['functional_share']:.2f}",
            f"{row['moca'] / row['principle']:.0f}",
        ]
        for row in _results.read("pac")["two_branches"]
    ]
    heads = [
        *("epsilon", "phases", "episodes", "barren branch / uniform", "all / uniform"),
        *("PRINCIPLE / PCE", "MOCA / PRINCIPLE"),
    ]
    return table(heads, rows)


def pruning() -> str:
    """The rare prize with PruneDataset and without."""
    rows = [
        [
            f"{row['scale']:g}",
            "with" if row["pruned"] else "without",
            f"{row['episodes']:,.0f}",
            f"{row['believed']:.3f}",
            f"{row['wrong']} of {row['runs']}",
        ]
        for row in _results.read("pac")["pruning"]
    ]
    return table(["scale", "PruneDataset", "episodes", "believed", "policy wrong by > eps"], rows)


def suprema() -> str:
    """A program per cell beside the one-dimensional duals."""
    rows = [
        [
            f"{row['states']}, {row['actions']}, {row['horizon']}",
            f"{row['cells']:,}",
            f"{row['slack']:g}",
            in_seconds(row["relaxed_seconds"]),
            in_seconds(row["exact_seconds"]),
            f"{row['relaxed_over_exact']:.3f}",
        ]
        for row in _results.read("suprema")["rows"]
    ]
    heads = ["S, A, H", "cells", "slack", "relaxed", "exact", "targets, relaxed / exact"]
    return table(heads, rows)


RULES = (
    *("paper", "RF-Express", "RF-UCRL, H-h, 2 beta", "RF-UCRL, authors' code"),
    "RF-UCRL, sharpened by us",
)


def certified() -> str:
    """Reward-free episodes, and those of the other rules as multiples."""
    content = _results.read("certified")["rows"]
    rows = [
        [
            f"`{row['env']}`, H {row['horizon']}",
            f"{row['certified']:,}",
            *(f"{row[rule] / row['certified']:,.0f} x" for rule in RULES),
            f"{row['pooled']:,}" if "pooled" in row else "-",
        ]
        for row in content
    ]
    means = [statistics.geometric_mean(row[r] / row["certified"] for row in content) for r in RULES]
    rows.append(["geometric mean", "", *(f"**{mean:,.0f} x**" for mean in means), ""])
    return table(["world", "certified", *RULES, "certified, stages pooled"], rows)


def certified_best() -> str:
    """Best-policy episodes beside reward-free ones."""
    content = _results.read("certified")["rows"]
    rows = [
        [
            f"`{row['env']}`",
            f"{row['identify']:,}",
            f"{row['certified'] / row['identify']:.0f} x",
            f"{row['proportional'] / row['identify']:.1f} x",
            f"{row['identify pooled']:,}" if "identify pooled" in row else "-",
            f"{row['true_gap']:.4f}",
        ]
        for row in content
    ]
    for name in ("certified", "proportional"):
        mean = statistics.geometric_mean(row[name] / row["identify"] for row in content)
        rows.append([f"geometric mean, {name}", "", "", "", "", ""])
        rows[-1][2 if name == "certified" else 3] = f"**{mean:.1f} x**"
    heads = ["world", "identify", "reward-free", "proportional", "stages pooled", "true gap"]
    return table(heads, rows)


def certified_lake() -> str:
    """FrozenLake with 50 stages by its own steps."""
    rows = [
        [
            f"{row['epsilon']:g}",
            f"{row['episodes']:,}",
            f"{row['seconds'] / 60:.1f} min",
            f"{row['lower']:.3f}",
            f"{row['value']:.3f}",
            f"{row['best']:.3f}",
            f"{row['upper']:.3f}",
        ]
        for row in _results.read("certified")["lake"]
    ]
    heads = ["epsilon", "episodes", "time", "lower", "its value", "best value", "upper"]
    return table(heads, rows)


def certified_clock() -> str:
    """Seconds for a certificate."""
    rows = [
        [
            f"{row['cells']:,.0f}",
            f"{row['reward_free'] * 1000:.0f} ms",
            f"{row['best_policy'] * 1000:.0f} ms",
        ]
        for row in _results.read("certified")["clock"]
    ]
    return table(["cells", "reward-free", "best policy"], rows)


def floors() -> str:
    """Floors beside what our certificates take, with an estimate of what data could do."""
    content = _results.read("floor")["rows"]
    rows = []
    for env in dict.fromkeys(row["env"] for row in content):
        cells = [f"`{env}`"]
        for task in ("identify", "explore"):
            row = next(one for one in content if (one["env"], one["task"]) == (env, task))
            cells[0] = f"`{env}`, H {row['horizon']}"
            floor = f"{row['floor']:.1f}" + ("" if row["ended"] else "+")
            if "floor_pooled" in row:
                floor += f" ({row['floor_pooled']:.1f})"
            taken = f"{row['episodes']:,}"
            times = f"{row['episodes'] / row['floor']:,.0f} x"
            estimate = f"{float(format(row['estimate'], '.2g')):,.0f}"
            cells += [floor, f"{taken}, {times}", estimate]
        rows.append(cells)
    heads = [
        *("world", "identify: floor (pooled)", "takes", "estimate"),
        *("explore: floor (pooled)", "takes", "estimate"),
    ]
    return table(heads, rows)


TABLES: dict[str, Callable[[], str]] = {
    "floors": floors,
    "pac_runs": pac_runs,
    "visitations": visitations,
    "worst_rewards": worst_rewards,
    "scan": scan,
    "two_branches": two_branches,
    "pruning": pruning,
    "suprema": suprema,
    "certified": certified,
    "certified_best": certified_best,
    "certified_lake": certified_lake,
    "certified_clock": certified_clock,
}
