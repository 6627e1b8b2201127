"""Write the measured tables into README and docs, between their markers.

    python3 dev.py bench tables [--check]

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` and is made from
benchmarks/results/. With --check nothing is written; the exit code tells whether all are true.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks import _results
from covgame.bench.results import read_results
from covgame.bench.tables import MARKED, TUNING_TABLES, all_tables
from covgame.bench.tables import TABLES as PEER_TABLES

ROOT = Path(__file__).parent.parent


def main(check: bool) -> int:
    """Rewrite every page that has tables; with ``check`` only compare."""
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        made = MARKED.sub(lambda match: f"{match[1]}{TABLES[match[2]]()}\n{match[3]}", text)
        if made != text:
            stale.append(page)
            if not check:
                page.write_text(made)
                print(f"wrote {page}")
    if check and stale:
        print("stale tables:", *stale)
    return 1 if check and stale else 0


def min_flow() -> str:
    """phi* beside scipy: seconds, ratio, memory, certified gap."""
    content = _results.read("min_flow")
    rows = [
        [
            f"`{row['env']}`",
            f"`{row['target']}`",
            f"{row['covgame variables']:,}",
            _seconds(row["covgame seconds"]),
            _beside(row, "scipy default", content["limit"]),
            _beside(row, "scipy interior point", content["limit"]),
            f"{row['covgame MB']:,.0f} MB",
            f"{row['covgame gap']:.0e}",
        ]
        for row in content["rows"]
    ]
    heads = ["world", "target", "variables", "covgame", "linprog", "linprog, interior point"]
    return _table([*heads, "memory", "certified gap"], rows)


def backward_induction() -> str:
    """Seconds a backward induction, sparse and dense, and per transition."""
    rows = [
        [
            f"{row['cells']:,}",
            f"{row['transitions']:,}",
            f"{1e3 * row['seconds']:.2f} ms",
            f"{1e9 * row['seconds'] / row['transitions']:.1f} ns",
            "-"
            if row["dense seconds"] is None
            else f"{row['dense seconds'] / row['seconds']:.1f} x",
        ]
        for row in _results.read("backward_induction")["rows"]
    ]
    return _table(["cells", "transitions", "time", "per transition", "dense takes"], rows)


def units() -> str:
    """Methods and units side by side: seconds, and the gap where it is not small."""
    content = _results.read("units")
    variants = [name for name in content["rows"][0] if name not in {"env", "variables"}]
    rows = [
        [f"`{row['env']}`", f"{row['variables']:,}"]
        + [_solved(row[variant], content["limit"]) for variant in variants]
        for row in content["rows"]
    ]
    return _table(["world", "variables", *variants], rows)


def episode_time() -> str:
    """An exact episode on the double chain: microseconds, and the readable game beside it."""
    content = _results.read("episodes")
    rows = [
        [row["kind"], f"{row['us']:.1f} us", f"{row['readable us'] / row['us']:.0f} x"]
        for row in content["chain"]
    ]
    return _table(["1,240 cells, 2 successors", "an exact episode", "the readable game"], rows)


def episode_growth() -> str:
    """Time and memory by size."""
    rows = [
        [
            f"{row['cells']:,}",
            row["kind"],
            f"{row['us']:,.1f} us",
            f"{1e3 * row['us'] / row['cells']:.1f} ns",
            f"{row['bytes']:.0f} bytes",
        ]
        for row in _results.read("episodes")["rows"]
    ]
    return _table(["cells", "", "an exact episode", "a cell", "memory a cell"], rows)


def episode_costs() -> str:
    """Compilation and recording."""
    content = _results.read("episodes")
    compiling, record = content["compilation"], content["recording"]
    rows = [
        ["first run, compiling included", f"{compiling['first']:.1f} s"],
        ["next run, from the cache", f"{compiling['cached']:.1f} s"],
        ["an episode, not recorded", f"{record['off']:.1f} us"],
        ["an episode, recorded as Parquet", f"{record['on'] / record['off']:.2f} x"],
    ]
    return _table(["", ""], rows)


def gym_envs() -> str:
    """Gymnasium's toy text: episodes over phi*, and our share of the time."""
    rows = [
        [
            f"`{row['env']}`",
            f"{row['horizon']}",
            f"`{row['target']}`" + (f", reach >= {row['reach']}" if row["reach"] else ""),
            f"{row['episodes']:,.0f}",
            "-" if row["phi"] is None else f"{row['episodes'] / row['phi']:.2f}",
            f"{row['share']:.0%}",
        ]
        for row in _results.read("gym_envs")["rows"]
    ]
    heads = ["environment", "H", "target", "episodes", "over phi*", "time outside `step`"]
    return _table(heads, rows)


def batches() -> str:
    """Episodes over phi* by the size of batches."""
    content = _results.read("batches")
    sizes = [key.removeprefix("naive ") for key in content["rows"][0] if key.startswith("naive")]
    rows = [
        [f"`{row['env']}`", how] + [f"{row[f'{how} {size}']:.3f}" for size in sizes]
        for row in content["rows"]
        for how in ("anticipated", "naive")
    ]
    return _table(["world", "", *(f"K = {size}" for size in sizes)], rows)


def by_counts() -> str:
    """Play by counts: episodes, ratio, seconds."""
    rows = [
        [
            row["preset"],
            f"{row['visits']:.0e}",
            f"{row['episodes']:.2e}",
            ("" if row["covered"] else "> ") + f"{row['ratio']:.3f}",
            _seconds(row["seconds"]),
        ]
        for row in sorted(_results.read("batches")["by_counts"], key=lambda row: row["preset"])
    ]
    return _table(["preset", "visits a cell", "episodes", "over phi*", "time"], rows)


def pac_runs() -> str:
    """PCE and PRINCIPLE on the toy, at the paper's constants."""
    rows = [
        [
            row["algorithm"],
            f"{row['epsilon']:g}",
            f"{row['episodes']:.2e}",
            f"{row['conclusions_rest_on']:.1e}",
            f"{row['phases']}",
            _seconds(row["seconds"]),
        ]
        for row in _results.read("pac")["first_runs"]
    ]
    heads = ["algorithm", "epsilon", "episodes", "of which used for estimates", "parts", "time"]
    return _table(heads, rows)


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
    return _table(["", ""], rows)


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
    return _table(heads, rows)


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
    return _table(heads, rows)


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
    return _table(heads, rows)


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
    return _table(["scale", "PruneDataset", "episodes", "believed", "policy wrong by > eps"], rows)


def suprema() -> str:
    """A program per cell beside the one-dimensional duals."""
    rows = [
        [
            f"{row['states']}, {row['actions']}, {row['horizon']}",
            f"{row['cells']:,}",
            f"{row['slack']:g}",
            _seconds(row["relaxed_seconds"]),
            _seconds(row["exact_seconds"]),
            f"{row['relaxed_over_exact']:.3f}",
        ]
        for row in _results.read("suprema")["rows"]
    ]
    heads = ["S, A, H", "cells", "slack", "relaxed", "exact", "targets, relaxed / exact"]
    return _table(heads, rows)


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
    return _table(["world", "certified", *RULES, "certified, stages pooled"], rows)


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
    return _table(heads, rows)


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
    return _table(heads, rows)


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
    return _table(["cells", "reward-free", "best policy"], rows)


def public_code() -> str:
    """An episode of rlberry-scool's UCBVI beside ours."""
    content = _results.read("public_code")
    rows = [
        [
            f"{row['cells']:,}, stages {'apart' if row['staged'] else 'together'}",
            f"{row['rlberry']:,.0f} us",
            f"{row['our UCBVI']:.1f} us",
            f"{row['rlberry'] / row['our UCBVI']:,.0f} x",
            f"{row['our game']:.1f} us",
            f"{row['dense plan']:.0f} us",
        ]
        for row in content["rows"]
    ]
    heads = ["cells", "rlberry-scool's UCBVI", "our UCBVI", "ratio", "our game", "a dense plan"]
    return _table(heads, rows)


def known_limit() -> str:
    """Players who know the model beside the exact optimum, on tiny worlds."""
    content = _results.read("known_limit")["rows"]
    players = list(dict.fromkeys(row["player"] for row in content))
    found = {(row["env"], row["target"], row["player"]): row for row in content}
    worlds = dict.fromkeys((row["env"], row["target"]) for row in content)
    rows = [
        [f"`{env}`", f"`{target}`", *(_mean(found[env, target, player]) for player in players)]
        for env, target in worlds
    ]
    mean = [
        statistics.geometric_mean(found[env, target, player]["mean"] for env, target in worlds)
        for player in players
    ]
    rows.append(["geometric mean", "", *(f"**{value:.2f}**" for value in mean)])
    return _table(["world", "target", *players], rows)


def learner_limit() -> str:
    """The best learner beside those who know the model and the default, in episodes."""
    content = _results.read("learner_limit")["rows"]
    known, bayes = "model known, exact optimum", "Bayes-optimal learner"
    weights, default = "weights, model known", "covgame default"
    rows = [
        [
            f"`{row['env']}`",
            f"`{row['target']}`",
            f"{row['phi']:.2f}",
            f"{row[known]:.2f}",
            _with_error(row, weights),
            ("" if row["told_after"] is None else ">= ") + f"{row[bayes]:.2f}",
            _with_error(row, default),
            f"{row[default] / row[bayes]:.2f}",
        ]
        for row in content
    ]
    mean = statistics.geometric_mean(row[default] / row[bayes] for row in content)
    rows.append(["geometric mean", "", "", "", "", "", "", f"**{mean:.2f}**"])
    heads = ["world", "target", "phi*", known, weights, bayes, default, "default / Bayes"]
    return _table(heads, rows)


def first_visit() -> str:
    """Every cell or pair once: the default beside those who know more, in episodes."""
    rows = [
        [
            f"`{row['env'].replace('@', ', H ')}`",
            f"`{row['target']}`",
            f"{row['phi']:.1f}",
            *(_with_error(row, player) for player in ("covgame", "map known", "model known")),
            f"{row['covgame'] / row['model known']:.2f}",
            f"{row['worst']:.1f} of {row['runs']:,}",
        ]
        for row in _results.read("first_visit")["rows"]
    ]
    heads = ["world", "target", "phi*", "covgame", "map known", "model known"]
    return _table([*heads, "covgame / model known", "longest run / median"], rows)


@cache
def _peers(name: str) -> dict[str, str]:
    """The tables that ``covgame bench report`` makes of a file of results."""
    return all_tables(read_results(_results.RESULTS / f"{name}.parquet"))


TABLES: dict[str, Callable[[], str]] = {
    **{name: partial(lambda name: _peers("peers")[name], name) for name in PEER_TABLES},
    **{name: partial(lambda name: _peers("tuning")[name], name) for name in TUNING_TABLES},
    "public_code": public_code,
    "known_limit": known_limit,
    "learner_limit": learner_limit,
    "first_visit": first_visit,
    "min_flow": min_flow,
    "backward_induction": backward_induction,
    "units": units,
    "episode_time": episode_time,
    "episode_growth": episode_growth,
    "episode_costs": episode_costs,
    "gym_envs": gym_envs,
    "batches": batches,
    "by_counts": by_counts,
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


def _beside(row: dict[str, Any], solver: str, limit: float) -> str:
    """A solver's time as a multiple of covgame's, or at least so much if it was stopped."""
    if row[f"{solver} phi"] is None:
        return f"> {limit / row['covgame seconds']:.0f} x (stopped)"
    return f"{row[f'{solver} seconds'] / row['covgame seconds']:.1f} x"


def _with_error(row: dict[str, Any], name: str) -> str:
    """A mean with its standard error."""
    return f"{row[name]:.2f} ± {row[f'{name}, error']:.2f}"


def _mean(row: dict[str, Any]) -> str:
    """A mean with its standard error, if it has one."""
    return f"{row['mean']:.2f}" + (f" ± {row['error']:.2f}" if row["error"] else "")


def _solved(measured: dict[str, Any] | None, limit: float) -> str:
    """Seconds, with a remark where the answer is no good."""
    if measured is None:
        return f"failed or > {limit:.0f} s"
    gap = measured["gap"]
    remark = (
        ""
        if gap is not None and gap <= 1e-5
        else " (wrong)"
        if gap is None or gap > 0.1
        else f" (gap {gap:.0e})"
    )
    return _seconds(measured["seconds"]) + remark


def _seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def _table(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
