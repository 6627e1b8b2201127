"""Tables about data: what starting from them costs, and what coverage buys."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import _results
from covgame.comparison.markdown import table


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
        return f"{row['ratio']:.3f} +- {row['error']:.3f}{left}"

    body = [
        [f"`{env}`", f"`{target}`", *(cell(env, target, kind) for kind in kinds)]
        for env, target in cases
    ]
    return table(["world", "target", *(f"from {kind}" for kind in kinds)], body)


TABLES: dict[str, Callable[[], str]] = {"topping_up": topping_up}
