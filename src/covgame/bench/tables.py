"""Tables from the tidy file, in Markdown: the ones that README and docs show."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import numpy as np

from covgame.bench import methods as m
from covgame.bench.experiments import ERRORS, LADDER, POLICIES, RIVER
from covgame.bench.results import Result
from covgame.types import FloatArray, IntArray

MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
RESAMPLES = 4_000
LEVEL = 0.95

Run = tuple[str, str, str, int]
"""(world, target, method, seed)."""


@dataclass(frozen=True)
class Covering:
    """The covering runs of a file: episodes of every run, stopped ones at their limit."""

    results: Sequence[Result]

    @cached_property
    def taus(self) -> dict[Run, float]:
        """Episodes until covered, or until the run was stopped."""
        return {
            (r.env, r.target, r.method, r.seed): r.value
            for r in self.results
            if r.kind == "cover" and r.measure in ("episodes", "stopped at")
        }

    @cached_property
    def stopped(self) -> set[Run]:
        return {
            (r.env, r.target, r.method, r.seed)
            for r in self.results
            if r.kind == "cover" and r.measure == "stopped at"
        }

    @cached_property
    def phi(self) -> dict[tuple[str, str], float]:
        """phi* of a target on a world."""
        return {
            (r.env, r.target): r.value
            for r in self.results
            if r.kind == "cover" and r.measure == "phi"
        }

    @cached_property
    def worlds(self) -> list[str]:
        """Of the suite: the ladder's world is another matter."""
        return [env for env in dict.fromkeys(run[0] for run in self.taus) if env != RIVER]

    @cached_property
    def targets(self) -> list[str]:
        return list(dict.fromkeys(run[1] for run in self.taus if run[0] in self.worlds))

    def methods(self, wanted: Sequence[str]) -> list[str]:
        """Those of the wanted ones that were run."""
        present = {run[2] for run in self.taus}
        return [name for name in wanted if name in present]

    def ratios(self, env: str, target: str, method: str) -> tuple[FloatArray, bool]:
        """(episodes over phi* by seed, whether some run was stopped)."""
        runs = self._runs.get((env, target, method), [])
        values = [self.taus[run] / self.phi[env, target] for run in runs]
        return np.array(values), any(run in self.stopped for run in runs)

    @cached_property
    def _runs(self) -> dict[tuple[str, str, str], list[Run]]:
        found = defaultdict[tuple[str, str, str], list[Run]](list)
        for run in self.taus:
            found[run[:3]].append(run)
        return found

    @cached_property
    def _seeds(self) -> dict[str, int]:
        found = defaultdict[str, set[int]](set)
        for env, _, method, seed in self.taus:
            if env in self.worlds:
                found[method].add(seed)
        return {method: len(seeds) for method, seeds in found.items()}

    def seeds(self, method: str) -> int:
        """How many seeds a method was run with."""
        return self._seeds.get(method, 0)

    def behind(self, env: str, method: str, only: str | None = None) -> tuple[FloatArray, bool]:
        """Mean log of the method's episodes over ours, by seed; whether some run was stopped.

        Over all targets, or one.
        """
        by_seed, stopped = defaultdict[int, list[float]](list), False
        for target in self.targets if only is None else [only]:
            for seed in range(self.seeds(method)):
                run, ours = (env, target, method, seed), (env, target, m.OURS, seed)
                if run in self.taus and ours in self.taus:
                    by_seed[seed].append(math.log(self.taus[run] / self.taus[ours]))
                    stopped |= run in self.stopped
        return np.array([statistics.fmean(logs) for logs in by_seed.values()]), stopped


def over_phi(results: Sequence[Result], wanted: Sequence[str], *, seeds: bool = False) -> str:
    """Episodes over phi*: mean over seeds, then the geometric mean over worlds."""
    data = Covering(results)
    rows = []
    for method in data.methods(wanted):
        cells = [_mean_over_worlds(data, target, method) for target in data.targets]
        rows.append([method, *([str(data.seeds(method))] if seeds else []), *cells])
    heads = ["", *(["seeds"] if seeds else []), *(f"`{target}`" for target in data.targets)]
    return table(heads, rows)


def _mean_over_worlds(data: Covering, target: str, method: str) -> str:
    found = [data.ratios(env, target, method) for env in data.worlds]
    means = [float(ratios.mean()) for ratios, _ in found if len(ratios)]
    if not means:
        return "-"
    at_least = any(stopped for _, stopped in found)
    return f"{'> ' if at_least else ''}{statistics.geometric_mean(means):.2f}"


def peers(results: Sequence[Result]) -> str:
    """All methods on all targets."""
    return over_phi(results, (m.OURS, *m.PEERS, m.FLOW, m.ADAPTIVE))


def variants(results: Sequence[Result]) -> str:
    """Our game with parts of it taken away, and with the model known."""
    return over_phi(results, (m.OURS, *m.VARIANTS, m.ADAPTIVE, m.FLOW))


def ours(results: Sequence[Result]) -> str:
    """Our game, world by world: mean and largest of its runs."""
    data = Covering(results)
    rows = []
    for env in data.worlds:
        found = [data.ratios(env, target, m.OURS)[0] for target in data.targets]
        cells = [f"{ratios.mean():.2f} ({ratios.max():.2f})" for ratios in found]
        rows.append([f"`{env.partition('@')[0]}`", *cells])
    return table(["mean (largest)", *(f"`{target}`" for target in data.targets)], rows)


def peers_paper(results: Sequence[Result]) -> str:
    """The same with the constants of the papers."""
    return over_phi(results, (m.PAPER, *m.PAPER_TOLD[1:], *m.PAPER_UNTOLD), seeds=True)


def ahead(results: Sequence[Result]) -> str:
    """How many times our episodes each peer takes, world by world, with its interval."""
    data = Covering(results)
    rows = []
    for method in data.methods((*m.PEERS, *m.VARIANTS, m.FLOW, m.ADAPTIVE)):
        found = [data.behind(env, method) for env in data.worlds]
        cells = [_with_interval(logs, stopped) for logs, stopped in found]
        everywhere = np.mean([logs for logs, _ in found], axis=0)
        cells.append(_with_interval(everywhere, any(stopped for _, stopped in found)))
        rows.append([method, *cells])
    return table(["", *(_short(env) for env in data.worlds), "all"], rows)


def wins(results: Sequence[Result]) -> str:
    """Where a peer needs fewer episodes than we do, beyond doubt."""
    data = Covering(results)
    rows = []
    for method in data.methods(m.PEERS):
        for env in data.worlds:
            for target in data.targets:
                logs, stopped = data.behind(env, method, target)
                if len(logs) and interval(logs)[1] < 0:
                    ratio = _with_interval(logs, stopped).strip("*")
                    rows.append([method, _short(env), f"`{target}`", ratio])
    return table(
        ["peer", "world", "target", "its episodes over ours"], rows or [["none", "", "", ""]]
    )


def _with_interval(logs: FloatArray, stopped: bool) -> str:
    """``1.31 (1.25-1.38)``; emphasised unless the interval lies above 1."""
    low, high = interval(logs)
    text = f"{math.exp(logs.mean()):.2f} ({math.exp(low):.2f}-{math.exp(high):.2f})"
    text = f"> {text}" if stopped else text
    return text if low > 0 else f"**{text}**"


@cache
def _resampled(size: int) -> IntArray:
    """Places drawn again and again, the same for every mean of so many values."""
    return np.random.default_rng(0).integers(size, size=(RESAMPLES, size))


def interval(values: FloatArray) -> tuple[float, float]:
    """A confidence interval of the mean, by resampling."""
    means = values[_resampled(len(values))].mean(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def ladder(results: Sequence[Result]) -> str:
    """Episodes over phi* by the visits wanted."""
    data = Covering(results)
    targets = [target for target in LADDER if (RIVER, target) in data.phi]
    rows = []
    for method in data.methods((m.OURS, m.PAPER, *m.PEERS)):
        cells = []
        for target in targets:
            ratios, stopped = data.ratios(RIVER, target, method)
            cells.append(f"{'> ' if stopped else ''}{ratios.mean():.2f}" if len(ratios) else "-")
        if set(cells) != {"-"}:
            rows.append([method, *cells])
    return table(["visits", *(target.partition(":")[2] for target in targets)], rows)


def reward_free(results: Sequence[Result]) -> str:
    """Episodes until an error of H/10 is promised for every reward."""
    last: dict[str, Result] = {}
    for result in results:
        if result.kind == "error" and result.measure == "error":
            last[result.method] = result
    rows = []
    for method in (name for name in ERRORS if name in last):
        played, ours = last[method].at or 0.0, last["certified"].at or 1.0
        rows.append(
            [method, f"{played:,.0f}", f"{played / ours:,.0f} x", f"{last[method].value:.3f}"]
        )
    return table(["", "episodes", "over ours", "promised error"], rows)


def best_policy(results: Sequence[Result]) -> str:
    """Episodes until a policy is promised to lose at most H/10."""
    episodes, losses = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    for result in results:
        if result.kind == "policy" and result.measure in ("episodes", "loss"):
            {"episodes": episodes, "loss": losses}[result.measure][result.method].append(
                result.value
            )
    ours = statistics.fmean(episodes["certified"]) if episodes else 1.0
    rows = []
    for method in (name for name in POLICIES if name in episodes):
        mean = statistics.fmean(episodes[method])
        rows.append(
            [method, f"{mean:,.0f}", f"{mean / ours:,.0f} x", f"{max(losses[method]):.4f}",
             str(len(episodes[method]))]
        )  # fmt: skip
    return table(["", "episodes", "over ours", "largest loss", "runs"], rows)


def speed(results: Sequence[Result]) -> str:
    """Microseconds by the size of the world."""
    measured = {
        (r.env.partition("@")[0], r.env.partition("@")[2], r.method): r.value
        for r in results
        if r.kind == "speed" and r.measure == "microseconds"
    }
    names = list(dict.fromkeys(key[2] for key in measured))
    rows = [
        [
            f"{kind}, {int(size):,} cells",
            *(
                f"{measured[kind, size, name]:,.1f}" if (kind, size, name) in measured else "-"
                for name in names
            ),
        ]
        for kind, size in dict.fromkeys(key[:2] for key in measured)
    ]
    return table(["microseconds", *names], rows)


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown."""
    lines = [list(heads), ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _short(env: str) -> str:
    """The family, or the name of the Gymnasium environment."""
    name = env.removeprefix("gym:").partition("@")[0]
    return re.split(r"[:?]", name)[0].removesuffix("-v1")


TABLES: dict[str, Callable[[Sequence[Result]], str]] = {
    "peers": peers,
    "peers_variants": variants,
    "peers_ours": ours,
    "peers_ahead": ahead,
    "peers_wins": wins,
    "peers_paper": peers_paper,
    "peers_ladder": ladder,
    "peers_reward_free": reward_free,
    "peers_best_policy": best_policy,
    "peers_speed": speed,
}


def all_tables(results: Sequence[Result]) -> dict[str, str]:
    """Every table that the results have something for."""
    return {name: made for name, make in TABLES.items() if (made := make(results)).count("\n") > 1}


def update_page(page: Path, tables: dict[str, str]) -> bool:
    """Write the tables between their markers; returns whether the page has changed."""
    text = page.read_text()

    def replaced(match: re.Match[str]) -> str:
        if match[2] not in tables:
            return match[0]
        return f"{match[1]}{tables[match[2]]}\n{match[3]}"

    made = MARKED.sub(replaced, text)
    if made != text:
        page.write_text(made)
    return made != text
