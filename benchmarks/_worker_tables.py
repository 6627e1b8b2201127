"""Tables about workers: what they cost in episodes, what they save, and what a model says."""

from __future__ import annotations

from typing import Any

from benchmarks import _results
from benchmarks.comparison.markdown import table

SIZES = (2, 8, 64)


def worker_plans() -> str:
    """Episodes over phi* by the number of workers."""
    rows = [
        [
            f"`{row['env']}`",
            str(row["visits"]),
            f"{row['anticipated 1'] * row['phi']:,.0f}",
            _ratio(row, "anticipated 1"),
            *(_ratio(row, f"anticipated {size}") for size in SIZES),
            _more(row, "anticipated 64"),
            _ratio(row, "naive 64"),
            _more(row, "naive 64"),
        ]
        for row in _results.read("workers")["rows"]
    ]
    sizes = [f"K = {size}" for size in SIZES]
    head = ["world", "visits", "episodes at K = 1", "K = 1", *sizes, "more than K = 1"]
    return table([*head, "naive, K = 64", "more than K = 1"], rows)


def _ratio(row: dict[str, Any], name: str) -> str:
    if name not in row:
        return ""
    error = row[f"error {name}"]
    return f"{row[name]:.2f}" + (f" ± {error:.2f}" if row["seeds"] > 1 else "")


def _more(row: dict[str, Any], name: str) -> str:
    """How many more episodes than one worker, seed by seed."""
    error = 100 * row[f"error lost {name}"]
    return f"{100 * row[f'lost {name}']:.1f}%" + (f" ± {error:.1f}" if row["seeds"] > 1 else "")


def worker_pairs() -> str:
    """Episodes for pairs: one process that plans within episodes, beside workers."""
    rows = [
        [
            f"`{row['env']}`, {row['visits']} visits",
            f"{row['phi']:.0f}",
            *(_count(row, name) for name in ("alone", "workers 1", "workers 8", "workers 64")),
        ]
        for row in _results.read("workers")["pairs"]
    ]
    head = ["world", "phi*", "`--workers 1`", "a team of one", "8 workers", "64 workers"]
    return table(head, rows)


def _count(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:.0f} ± {row[f'error {name}']:.1f}"


def worker_long() -> str:
    """Episodes and virtual time in deterministic worlds with long episodes."""
    rows = [
        [
            row["world"],
            str(row["stages"]),
            f"{row['episodes 1']:.0f}",
            *(f"{row[f'episodes {n}'] / row['episodes 1']:.2f}" for n in (2, 8)),
            *(f"{row['time 1'] / row[f'time {n}']:.2f}" for n in (2, 8)),
        ]
        for row in _results.read("workers")["long"]
    ]
    head = ["world", "stages", "one worker", "two", "eight", "speed-up with two", "with eight"]
    return table(head, rows)


def worker_rates() -> str:
    """Episodes a second, and how many times those of one worker."""
    found = _results.read("workers")["rates"]
    kinds = list(dict.fromkeys((row["micros"], row["busy"]) for row in found))
    workers = sorted({row["workers"] for row in found})
    rows = []
    for micros, busy in kinds:
        rate = {
            row["workers"]: row["per_second"]
            for row in found
            if (row["micros"], row["busy"]) == (micros, busy)
        }
        cells = [f"{rate[1]:,.0f}"]
        cells += [f"{rate[n]:,.0f} ({rate[n] / rate[1]:.1f} x)" for n in workers if n > 1]
        rows.append([f"{_micros(micros)}, {'computing' if busy else 'waiting'}", *cells])
    return table(["a step takes", *(f"N = {n}" for n in workers)], rows)


def _micros(micros: int) -> str:
    return f"{micros} us" if micros < 1000 else f"{micros // 1000} ms"


def throughput() -> str:
    """The model beside measurements."""
    rows = [
        [
            f"{_micros(row['micros'])}, {'computing' if row['busy'] else 'waiting'}",
            str(row["workers"]),
            f"{row['per_second']:,.0f}",
            f"{row['predicted']:,.0f}",
            f"{row['predicted'] / row['per_second']:.2f}",
        ]
        for row in _results.read("throughput")["rows"]
    ]
    return table(["a step takes", "workers", "episodes/s", "predicted", "ratio"], rows)


def plan_costs() -> str:
    """What a plan and an episode take who hands out jobs, by the size of the world."""
    rows = [
        [
            f"{row['cells']:,}",
            f"{1e3 * row['planning']:,.1f} ms",
            f"{1e3 * row['telling']:,.2f} ms",
        ]
        for row in _results.read("throughput")["costs"]
    ]
    return table(["cells", "a plan", "telling an episode"], rows)


def throughput_on_paper() -> str:
    """Where nobody has measured."""
    rows = [
        [
            row["name"],
            _seconds(row["step"]),
            f"{row['workers']:,}",
            f"{row['cells']:.0e}",
            str(row["each"]),
            _seconds(row["planning"]),
            f"{row['per_hour']:,.0f}",
            row["limit"],
            f"{row['worth_having']:,}",
        ]
        for row in _results.read("throughput")["paper"]
    ]
    head = ["", "a step", "workers", "cells", "episodes a job", "a plan", "episodes an hour"]
    return table([*head, "narrowest", "workers that find work"], rows)


def _seconds(value: float) -> str:
    return f"{value:,.1f} s" if value >= 1 else f"{1e3 * value:,.3g} ms"


TABLES = {
    "worker_plans": worker_plans,
    "worker_pairs": worker_pairs,
    "worker_long": worker_long,
    "worker_rates": worker_rates,
    "throughput": throughput,
    "plan_costs": plan_costs,
    "throughput_on_paper": throughput_on_paper,
}
