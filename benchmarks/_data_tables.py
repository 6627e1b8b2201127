"""Tables about data: what starting from them costs, and what coverage buys."""

from __future__ import annotations

import statistics
from collections.abc import Callable

from benchmarks import _results
from benchmarks.comparison.markdown import table


def topping_up() -> str:
    """Episodes over phi* of what is missing, by kind of data."""
    rows = _results.read("topping_up")["rows"]
    kinds = list(dict.fromkeys(row["data"] for row in rows))
    cases = list(dict.fromkeys((row["env"], row["target"]) for row in rows))

    def cell(env: str, target: str, kind: str) -> str:
        (row,) = [
            one for one in rows if (one["env"], one["target"], one["data"]) == (env, target, kind)
        ]
        left = "" if kind == "nothing" else f" ({row['left']:.0%} left)"
        return f"{row['ratio']:.3f} ± {row['error']:.3f}{left}"

    body = [
        [f"`{env}`", f"`{target}`", *(cell(env, target, kind) for kind in kinds)]
        for env, target in cases
    ]
    return table(["world", "target", *(f"from {kind}" for kind in kinds)], body)


def offline_cases() -> str:
    """What the datasets cover, and what was played for the rest."""
    cases = _results.read("offline")["cases"]
    said = {
        "episodes in the data": "episodes",
        "states and actions asked for": "rows",
        "that lack visits": "open",
        "episodes that this takes at least (phi*)": "missing_episodes",
        "episodes played": "played",
        "that lack visits afterwards": "open after",
    }
    values = {what: [case[name] for case in cases] for what, name in said.items()}
    body = [[what, _mean(found, ",.0f")] for what, found in values.items()]
    return table(["", f"mean of {len(cases)} datasets"], body)


def offline() -> str:
    """What policies lose, by what they were learnt from."""
    rows = _results.read("offline")["rows"]
    kinds = list(dict.fromkeys(row["data"] for row in rows))
    errands = list(dict.fromkeys(row["errand"] for row in rows))
    seeds = sorted({row["seed"] for row in rows})

    def cell(errand: str, kind: str) -> str:
        of_seed = [
            statistics.fmean(
                row["loss"]
                for row in rows
                if (row["seed"], row["errand"], row["data"]) == (seed, errand, kind)
            )
            for seed in seeds
        ]
        return _mean(of_seed, ".1%")

    body = [[errand, *(cell(errand, kind) for kind in kinds)] for errand in errands]
    return table(["errand", *kinds], body)


def _mean(values: list[float], how: str) -> str:
    """A mean with its standard error, unless all are the same."""
    error = statistics.stdev(values) / len(values) ** 0.5
    mean = format(statistics.fmean(values), how)
    return f"{mean} ± {format(error, how)}" if error else mean


TABLES: dict[str, Callable[[], str]] = {
    "topping_up": topping_up,
    "offline_cases": offline_cases,
    "offline": offline,
}
