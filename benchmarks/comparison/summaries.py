"""What the tidy file says, summed up: the tables of the comparison in README and docs."""

from __future__ import annotations

import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product

import numpy as np

from benchmarks.comparison import methods as m
from benchmarks.comparison.experiments import ERRORS, LADDER, POLICIES, RIVER, SUITE
from benchmarks.comparison.forms import FORMS, KINDS, kind_of
from benchmarks.comparison.markdown import table
from benchmarks.comparison.results import Result
from covgame.types import FloatArray, IntArray

RESAMPLES = 4_000
LEVEL = 0.95

RIVALS = (m.MISSING, *m.PEERS)
"""The peers, and GOSPRL as our paper reads it: its reward, for whoever plans best."""

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

    def worlds_of(self, method: str) -> list[str]:
        """Those that a method was run on."""
        return [env for env in self.worlds if any(self._runs[env, t, method] for t in self.targets)]

    def methods(self, wanted: Sequence[str]) -> list[str]:
        """Those of the wanted ones that were run."""
        present = {run[2] for run in self.taus}
        return [name for name in wanted if name in present]

    @cached_property
    def rivals(self) -> list[str]:
        """Whoever is compared with us, users' own methods included."""
        own = [name for name in dict.fromkeys(run[2] for run in self.taus) if m.is_own(name)]
        return [*self.methods(RIVALS), *own]

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

    def seeds(self, method: str) -> int:
        """The fewest seeds that a method was run with on a target of the suite."""
        found = [
            len(runs)
            for (env, _, name), runs in self._runs.items()
            if name == method and env in self.worlds
        ]
        return min(found, default=0)

    def over_phi(self, target: str, method: str) -> Estimate | None:
        """Episodes over phi*: mean over seeds, then the geometric mean over worlds."""
        found = [self.ratios(env, target, method) for env in self.worlds]
        means = [Estimate.of(ratios, stopped) for ratios, stopped in found if len(ratios)]
        return Estimate.geometric_mean(means) if means else None

    def behind(
        self, envs: Sequence[str], targets: Sequence[str], method: str
    ) -> tuple[list[FloatArray], bool]:
        """Logs of the method's episodes over ours, seed by seed: an array per world and target.

        And whether some run was stopped.
        """
        strata, stopped = [], False
        for env, target in product(envs, targets):
            pairs = [
                (run, (env, target, m.OURS, run[3]))
                for run in self._runs.get((env, target, method), [])
                if (env, target, m.OURS, run[3]) in self.taus
            ]
            if pairs:
                logs = [math.log(self.taus[run] / self.taus[ours]) for run, ours in pairs]
                strata.append(np.array(logs))
                stopped |= any(run in self.stopped for run, _ in pairs)
        return strata, stopped


@dataclass(frozen=True)
class Estimate:
    """A mean and its standard error; ``at_least`` if it is of runs that were stopped."""

    mean: float
    error: float
    at_least: bool

    @classmethod
    def of(cls, values: FloatArray, at_least: bool = False) -> Estimate:
        """The mean of a sample; of one value no error is known."""
        error = float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan
        return cls(float(values.mean()), error, at_least)

    @classmethod
    def geometric_mean(cls, parts: Sequence[Estimate]) -> Estimate:
        """Of independent means; the error to first order."""
        mean = statistics.geometric_mean(part.mean for part in parts)
        relative = math.sqrt(sum((part.error / part.mean) ** 2 for part in parts)) / len(parts)
        return cls(mean, mean * relative, any(part.at_least for part in parts))

    def __str__(self) -> str:
        error = "" if math.isnan(self.error) else f" ± {self.error:.2f}"
        return f"{'> ' if self.at_least else ''}{self.mean:.2f}{error}"


def over_phi(results: Sequence[Result], wanted: Sequence[str], *, seeds: bool = False) -> str:
    """Episodes over phi*, with standard errors."""
    data = Covering(results)
    rows = []
    for method in data.methods(wanted):
        cells = [str(data.over_phi(target, method) or "-") for target in data.targets]
        rows.append([method, *([str(data.seeds(method))] if seeds else []), *cells])
    heads = ["", *(["seeds"] if seeds else []), *(f"`{target}`" for target in data.targets)]
    return table(heads, rows)


def peers(results: Sequence[Result]) -> str:
    """All methods on all targets; a peer never in a worse form than that of its authors."""
    data = Covering(results)
    rows = [
        [method, *(_kindest(data, target, method) for target in data.targets)]
        for method in (*data.methods((m.OURS,)), *data.rivals, *data.methods((m.FLOW, m.ADAPTIVE)))
    ]
    return table(["", *(f"`{target}`" for target in data.targets)], rows)


def _kindest(data: Covering, target: str, method: str) -> str:
    """Of the form that was chosen and those of its authors the one with the fewest episodes."""
    found = [data.over_phi(target, form) for form in (method, *m.AUTHORS.get(method, ()))]
    known = [estimate for estimate in found if estimate is not None]
    return str(min(known, key=lambda estimate: estimate.mean)) if known and found[0] else "-"


def variants(results: Sequence[Result]) -> str:
    """Our game with parts of it taken away, and with the model known."""
    return over_phi(results, (m.OURS, *m.VARIANTS, m.ADAPTIVE, m.FLOW))


def ours(results: Sequence[Result]) -> str:
    """Our game, world by world: mean and largest of its runs."""
    data = Covering(results)
    rows = []
    for env in data.worlds_of(m.OURS):
        found = [data.ratios(env, target, m.OURS) for target in data.targets]
        cells = [
            f"{Estimate.of(ratios, stopped)} ({ratios.max():.2f})" if len(ratios) else "-"
            for ratios, stopped in found
        ]
        rows.append([f"`{env.partition('@')[0]}`", *cells])
    return table(["mean (largest)", *(f"`{target}`" for target in data.targets)], rows)


def seeds(results: Sequence[Result]) -> str:
    """phi* of every target and how many seeds it was run with."""
    data = Covering(results)
    rows = []
    for env in data.worlds_of(m.OURS):
        runs = [len(data.ratios(env, target, m.OURS)[0]) for target in data.targets]
        cells = [
            f"{data.phi[env, target]:,.0f}, {number} seeds" if number else "-"
            for target, number in zip(data.targets, runs, strict=True)
        ]
        rows.append([f"`{env.partition('@')[0]}`", *cells])
    return table(["phi*", *(f"`{target}`" for target in data.targets)], rows)


def peers_paper(results: Sequence[Result]) -> str:
    """The same with the constants of the papers."""
    return over_phi(
        results, (m.PAPER, *m.PAPER_WITH_TARGET[1:], *m.PAPER_WITHOUT_TARGET), seeds=True
    )


def ahead(results: Sequence[Result]) -> str:
    """How many times our episodes each peer takes, world by world, with its interval."""
    data = Covering(results)
    rows = []
    others = data.methods((*m.VARIANTS, m.FLOW, m.ADAPTIVE))
    for method in dict.fromkeys((*data.rivals, *others)):
        groups = [[env] for env in data.worlds]
        cells = [_behind(data, envs, data.targets, method) for envs in (*groups, data.worlds)]
        rows.append([method, *cells])
    return table(["", *(_short(env) for env in data.worlds), "all"], rows)


def wins(results: Sequence[Result]) -> str:
    """Where a peer needs fewer episodes than we do, beyond doubt."""
    data = Covering(results)
    rows = [
        [method, _short(env), f"`{target}`", _with_interval(strata, stopped).strip("*")]
        for method, env, target in product(data.rivals, data.worlds, data.targets)
        for strata, stopped in [data.behind([env], [target], method)]
        if strata and interval(strata)[1] < 0
    ]
    compared = data.methods((m.OURS,)) and data.rivals
    none = [["none", "", "", ""]] if compared else []
    return table(["peer", "world", "target", "its episodes over ours"], rows or none)


def cases(results: Sequence[Result]) -> str:
    """By peer and target: on how many worlds we are ahead, nobody can tell, and it is ahead."""
    data = Covering(results)
    rows = []
    for method in data.rivals:
        cells = []
        for target in data.targets:
            found = [data.behind([env], [target], method)[0] for env in data.worlds]
            ends = [interval(strata) for strata in found if strata]
            ahead = sum(low > 0 for low, _ in ends)
            behind = sum(high < 0 for _, high in ends)
            cells.append(f"{ahead} / {len(ends) - ahead - behind} / {behind}" if ends else "-")
        rows.append([method, *cells])
    return table(["ahead / tie / behind", *(f"`{target}`" for target in data.targets)], rows)


ABLATION = {
    "adversary: 1 for what is missing (GOSPRL's reward)": m.MISSING,
    "adversary: the paper's": m.MAJORITY,
    "adversary and optimism: the paper's, scaled": m.SCALED,
    "optimism: what was seen once is believed": m.UNDOUBTING,
    "nothing pooled or borrowed": m.NOT_BORROWED,
    "nothing learnt within an episode": m.NOT_WITHIN,
    "GOSPRL": "GOSPRL",
    "GOSPRL, nothing borrowed": m.GOSPRL_APART,
}
"""What is replaced, and the method that has it replaced."""


def ablation(results: Sequence[Result]) -> str:
    """What the parts of our game buy: episodes over its own, on every target."""
    data = Covering(results)
    first = [str(data.over_phi(target, m.OURS) or "-") for target in data.targets]
    rows = [["covgame, over phi*", *first]]
    present = data.methods(list(ABLATION.values()))
    for label, method in ABLATION.items():
        if method in present:
            cells = [_behind(data, data.worlds, [target], method) for target in data.targets]
            rows.append([label, *cells])
    return table(
        ["times covgame's episodes", *(f"`{target}`" for target in data.targets)],
        rows if len(rows) > 1 else [],
    )


def forms(results: Sequence[Result]) -> str:
    """What was chosen on the tuning worlds, and what else there was."""
    data, rows = Covering(results), []
    for peer, kind in product(FORMS, KINDS):
        scores = tuned(data, peer, kind)
        if scores:
            best = min(scores, key=lambda name: scores[name].mean)
            others = (_best(scores, "by stage"), _best(scores, "by pair"))
            worst = max(scores.values(), key=lambda score: score.mean)
            rows.append(
                [peer, kind, best.removeprefix(f"{peer}, "), str(scores[best]),
                 *(str(score or "-") for score in others), str(worst), str(len(scores))]
            )  # fmt: skip
    heads = ["", "targets", "chosen form", "episodes over phi*"]
    return table([*heads, "best by stage", "best by pair", "worst form", "forms"], rows)


def _best(scores: Mapping[str, Estimate], word: str) -> Estimate | None:
    """Of the forms that have a word in their name."""
    found = [score for name, score in scores.items() if word in name]
    return min(found, key=lambda score: score.mean, default=None)


def tuned(data: Covering, peer: str, kind: str) -> dict[str, Estimate]:
    """Every form of a method: episodes over phi*, of all targets of a kind."""
    scores = {}
    for form in data.methods([form.name for form in FORMS[peer]]):
        found = [data.over_phi(target, form) for target in data.targets if kind_of(target) == kind]
        parts = [part for part in found if part is not None]
        if parts:
            scores[form] = Estimate.geometric_mean(parts)
    return scores


def _behind(data: Covering, envs: Sequence[str], targets: Sequence[str], method: str) -> str:
    strata, stopped = data.behind(envs, targets, method)
    return _with_interval(strata, stopped) if strata else "-"


def _with_interval(strata: Sequence[FloatArray], stopped: bool) -> str:
    """``1.31 (1.25-1.38)``; emphasised unless the interval lies above 1."""
    low, high = interval(strata)
    mean = statistics.fmean(float(logs.mean()) for logs in strata)
    text = f"{math.exp(mean):.2f} ({math.exp(low):.2f}-{math.exp(high):.2f})"
    text = f"> {text}" if stopped else text
    return text if low > 0 else f"**{text}**"


@cache
def _resampled(size: int) -> IntArray:
    """Places drawn again and again, the same for every mean of so many values."""
    return np.random.default_rng(0).integers(size, size=(RESAMPLES, size))


def interval(strata: Sequence[FloatArray]) -> tuple[float, float]:
    """A confidence interval of the mean over strata of their means, by resampling seeds.

    Strata with as many seeds are resampled together: one run may have served several targets.
    """
    means = np.mean([logs[_resampled(len(logs))].mean(axis=1) for logs in strata], axis=0)
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
            cells.append(str(Estimate.of(ratios, stopped)) if len(ratios) else "-")
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


def _short(env: str) -> str:
    """What tables call a world: its name in the suite, or the family."""
    if env in SUITE:
        return SUITE[env]
    name = env.removeprefix("gym:").partition("@")[0]
    return re.split(r"[:?]", name)[0].removesuffix("-v1")


TABLES: dict[str, Callable[[Sequence[Result]], str]] = {
    "peers": peers,
    "peers_variants": variants,
    "peers_ours": ours,
    "peers_ahead": ahead,
    "peers_wins": wins,
    "peers_cases": cases,
    "peers_ablation": ablation,
    "peers_seeds": seeds,
    "peers_paper": peers_paper,
    "peers_ladder": ladder,
    "peers_reward_free": reward_free,
    "peers_best_policy": best_policy,
    "peers_speed": speed,
}

TUNING_TABLES: dict[str, Callable[[Sequence[Result]], str]] = {"peers_forms": forms}
"""From the results of the profile ``tuning``."""


def all_tables(results: Sequence[Result]) -> dict[str, str]:
    """Every table that the results have something for."""
    makers = TABLES | TUNING_TABLES
    return {name: made for name, make in makers.items() if (made := make(results)).count("\n") > 1}
