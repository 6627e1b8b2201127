"""What is run: sweeps over worlds, targets, methods and seeds. Nothing here does anything."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from benchmarks.comparison import methods as m
from benchmarks.comparison.forms import FORMS, form_of
from covgame.errors import BadInput

NINE = "grid:rows=9,columns=9,horizon=20,slip=0.0667,start=middle"
SUITE = {
    "garnet:states=20,actions=4,horizon=10": "garnet",
    "garnet:states=10,actions=3,horizon=15,branching=2,seed=1": "garnet-10",
    "garnet:states=20,actions=4,horizon=10,stationary=true": "garnet, stationary",
    "inventory:capacity=10,horizon=12": "inventory",
    "lock": "lock",
    "lock:slip=0.1": "lock, slips",
    "riverswim:states=8,horizon=20": "RiverSwim",
    "deepsea:size=10,noise=0.1": "DeepSea",
    "chain:states=10,horizon=20": "chain",
    "doublechain:length=15,horizon=20": "double chain",
    "doublechain:length=31,horizon=20,slip=0.05": "double chain-31",
    "grid:rows=5,columns=5,horizon=12": "grid",
    NINE: "grid 9x9",
    "gym:FrozenLake-v1@12": "FrozenLake",
    "maze:rows=7,columns=7,horizon=100,slip=0.05": "maze, 100 stages",
    "digraph:nodes=60,actions=3,horizon=100": "digraph, 100 stages",
}
"""Worlds and what tables call them; ``@12`` gives the number of stages where a name leaves it open.

The first six have another kernel at every stage.
"""

LONG = ("maze:rows=7,columns=7,horizon=100,slip=0.05", "digraph:nodes=60,actions=3,horizon=100")
"""Long episodes; only for targets of pairs, because runs that cover cells would take hours."""

CELLS = ("uniform:1", "uniform:5", "uniform:50", "unbalanced:100", "proportional:100")
PAIRS = ("uniform:1/pair", "uniform:10/pair")
"""Targets; of all of them, only what some policy reaches with probability 0.01 or more."""

PRICES: dict[str, tuple[float, ...]] = {
    "garnet:states=20,actions=4,horizon=10": (172, 860, 8598, 3683, 5422, 8.4, 84.4),
    "garnet:states=20,actions=4,horizon=10,stationary=true": (
        *(135, 676, 6760, 3186, 5174),
        *(10.5, 105),
    ),
    "garnet:states=10,actions=3,horizon=15,branching=2,seed=1": (103, 516, 5159, 2301, 2961, 2, 20),
    "riverswim:states=8,horizon=20": (272, 1359, 13586, 4933, 1708, 2.3, 22.5),
    "deepsea:size=10,noise=0.1": (30.5, 152, 1523, 750, 1640, 6.6, 66.4),
    "grid:rows=5,columns=5,horizon=12": (110, 552, 5516, 2856, 9239, 10.5, 105),
    NINE: (353, 1766, 17657, 10771, 30760, 17.3, 173),
    "chain:states=10,horizon=20": (30.5, 152, 1523, 885, 1776, 1.1, 11),
    "doublechain:length=15,horizon=20": (62.7, 313, 3134, 1782, 2596, 1.5, 15.5),
    "doublechain:length=31,horizon=20,slip=0.05": (64.7, 324, 3235, 1585, 3620, 4.8, 47.5),
    "inventory:capacity=10,horizon=12": (536, 2680, 26799, 8609, 1696, 38.5, 385),
    "gym:FrozenLake-v1@12": (418, 2090, 20900, 8785, 1866, 20.9, 209),
    LONG[0]: (346, 1731, 17311, 7753, 19126, 2.17, 21.7),
    LONG[1]: (258, 1290, 12900, 7726, 25800, 2.54, 25.4),
    "lock": (26, 130, 1300, 651, 2600, 1, 10),
    "lock:slip=0.1": (37.8, 189, 1891, 948, 2500, 1, 10),
}
"""phi* of (*CELLS, *PAIRS), rounded: it decides how many seeds a target gets."""

SEEDS = ((100.0, 60), (1_000.0, 30), (math.inf, 12))
"""Below so many phi* so many seeds: where a run is short, luck is large and seeds are cheap."""

FEW = dict.fromkeys(("RF-RL-Explore", "UCBVI", "uniform random"), 10)
"""Far behind and slow: nobody needs their second digit."""

TOO_DEAR = frozenset(
    [
        *((NINE, target) for target in CELLS[2:]),
        *((env, target) for env in LONG for target in CELLS),
    ]
)
"""Left out: more than 2 10^7 phi* times cells, and cells of long episodes."""

SHORT_TUNING_WORLDS = (
    "chain:states=7,horizon=12,slip=0.05",
    "grid:rows=4,columns=4,horizon=8",
    "garnet:states=10,actions=3,horizon=8,seed=11",
    "garnet:states=10,actions=3,horizon=8,seed=12,stationary=true",
    "deepsea:size=6,noise=0.1",
    "lock:horizon=6,actions=3,slip=0.05,seed=2",
    "gym:FrozenLake-v1?is_slippery=false@8",
)
LONG_TUNING_WORLDS = (
    "digraph:nodes=60,actions=2,horizon=100,slip=0.1,seed=3",
    "maze:rows=6,columns=6,horizon=100,seed=3",
)
TUNING_WORLDS = (*SHORT_TUNING_WORLDS, *LONG_TUNING_WORLDS)
TUNING_TARGETS = (
    *("uniform:1", "uniform:5", "uniform:20", "unbalanced:30", "proportional:30"),
    *("uniform:1/pair", "uniform:10/pair"),
)
"""None of these worlds is in the suite; constants are chosen on them."""

RIVER = "riverswim:states=6,horizon=12"
LADDER = tuple(f"uniform:{n}" for n in (1, 2, 5, 10, 20, 50, 100, 200, 500))
GRID = "grid:rows=5,columns=5,horizon=12"
SMALL = "garnet:states=4,actions=2,horizon=4"
TINY = "garnet:states=3,actions=2,horizon=3"
ERRORS = (
    *("certified", "RF-UCRL, authors' code", "RF-UCRL, H-h, 2 beta"),
    *("RF-Express, paper", "PCE, paper"),
)
POLICIES = ("certified", "BPI-UCBVI, paper", "PEDEL, paper", "PRINCIPLE, paper")
WHOLE = "covgame, all planned anew"
DENSE = "dense NumPy"
"""A plan, not an episode; it does not fit into memory at the largest size."""

SIZES = (1_000, 10_000, 100_000, 1_000_000)


LIMIT = 6.0
"""Runs are stopped at so many times phi*, unless a sweep says otherwise."""

LEAST_LIMIT = 200
"""But not before so many episodes: where phi* is 1, six episodes say nothing."""

SUITE_SHORT = tuple(env for env in SUITE if env not in LONG)
SUITE_SMALL = tuple(env for env in SUITE_SHORT if env != NINE)
"""Without the worlds on which 6 phi* take longest."""


@dataclass(frozen=True)
class Experiment:
    """One thing to run; equal ones give equal results, but for the clock."""

    kind: str
    env: str
    targets: tuple[str, ...]
    method: str
    seed: int
    limit: float  # episodes over phi*, or episodes, or whatever ends it

    @property
    def key(self) -> str:
        """Tells experiments apart in files."""
        return "|".join(
            (self.kind, self.env, "+".join(self.targets), self.method, str(self.seed),
             f"{self.limit:g}")
        )  # fmt: skip

    @property
    def alone(self) -> bool:
        """Whether it measures time, so that nothing may run beside it."""
        return self.kind == "speed"


@dataclass(frozen=True)
class Sweep:
    """All combinations; a method that does not use the target runs once for several of them."""

    kind: str
    envs: Iterable[str]
    methods: Sequence[str]
    targets: Sequence[str] = ("",)
    seeds: int | None = 1  # None: as many as ``SEEDS`` says
    limit: float = LIMIT
    skip: frozenset[tuple[str, str]] = field(default_factory=frozenset)  # (method, target)

    def experiments(self) -> list[Experiment]:
        """Seeds outermost, so that an interrupted sweep has a bit of everything."""
        most = max(number for _, number in SEEDS) if self.seeds is None else self.seeds
        return [
            Experiment(self.kind, env, group, method, seed, self.limit)
            for seed, env, method in product(range(most), self.envs, self.methods)
            for group in self._groups(seed, env, method)
        ]

    def _groups(self, seed: int, env: str, method: str) -> list[tuple[str, ...]]:
        """The targets of a seed, together if one run serves them."""
        wanted = [
            target
            for target in self.targets
            if (method, target) not in self.skip and seed < self._seeds(env, target, method)
        ]
        if self.kind != "cover" or m.method_named(method).uses_target:
            return [(target,) for target in wanted]
        by_form = defaultdict[str, list[str]](list)
        for target in wanted:
            by_form[form_of(method, target)].append(target)
        return [tuple(group) for group in by_form.values()]

    def _seeds(self, env: str, target: str, method: str) -> int:
        if self.seeds is not None:
            return self.seeds
        return seeds_of(env, target, method)


def seeds_of(env: str, target: str, method: str) -> int:
    """With how many seeds the comparison runs a method."""
    if (env, target) in TOO_DEAR:
        return 0
    phi = PRICES[env][(*CELLS, *PAIRS).index(target)]
    number = next(number for most, number in SEEDS if phi < most)
    return min(number, FEW.get(method, number))


def _sizes(sizes: Sequence[int]) -> tuple[str, ...]:
    """Worlds of these sizes: local ones, and ones that lead anywhere."""
    return tuple(f"{kind}@{cells}" for kind in ("grid", "garnet") for cells in sizes)


NOT_BY_STAGE = frozenset(
    (method, target)
    for method in (
        *("Learn2Explore (MOCA)", "Learn2Explore (MOCA), paper"),
        *(form.name for form in FORMS["Learn2Explore (MOCA)"]),
    )
    for target in PAIRS
)
TARGETS = (*CELLS, *PAIRS)
FULL = [
    Sweep("cover", SUITE, (m.OURS, *m.PEERS, m.FLOW, *m.VARIANTS), TARGETS, None,
          skip=NOT_BY_STAGE),
    Sweep("cover", SUITE_SHORT, (m.ADAPTIVE,), ("uniform:1", "uniform:5", *PAIRS), 20),
    Sweep("cover", LONG, (m.ADAPTIVE,), PAIRS, 20),
    Sweep("cover", SUITE_SMALL, m.PAPER_WITH_TARGET, ("uniform:1", "uniform:5"), 3),
    Sweep("cover", SUITE_SMALL, m.PAPER_WITHOUT_TARGET, TARGETS, 3),
    Sweep("cover", (RIVER,), (m.OURS, *m.PRACTICAL_WITH_TARGET), LADDER, 10, limit=20),
    Sweep("cover", (RIVER,), (m.PAPER, *m.PRACTICAL_WITHOUT_TARGET), LADDER, 2, limit=20),
    Sweep("progress", (GRID,), (m.OURS, m.PAPER, *m.PEERS, m.FLOW), ("uniform:10",), 5, limit=8),
    Sweep("visits", (GRID,), (m.OURS, m.FLOW, *m.PEERS), ("uniform:10",), 1, limit=4),
    Sweep("error", (SMALL,), ERRORS, limit=1e12),
    Sweep("policy", (TINY,), POLICIES, seeds=5, limit=1e13),
    Sweep("speed", _sizes(SIZES), (m.OURS, m.APART, WHOLE)),
    Sweep("speed", _sizes(SIZES[:3]), (DENSE,)),
]  # fmt: skip
TUNING = [
    Sweep("cover", envs, [form.name for form in forms], targets, 10, skip=NOT_BY_STAGE)
    for envs, targets in ((SHORT_TUNING_WORLDS, TUNING_TARGETS), (LONG_TUNING_WORLDS, PAIRS))
    for forms in FORMS.values()
]
QUICK_WORLDS = ("deepsea:size=5,noise=0.1", "lock")
QUICK = [
    Sweep("cover", QUICK_WORLDS, (m.OURS, *m.PEERS, m.FLOW, m.ADAPTIVE, *m.VARIANTS),
          ("uniform:1", "uniform:5", *PAIRS), 2, skip=NOT_BY_STAGE),
    Sweep("cover", QUICK_WORLDS[:1], (*m.PAPER_WITH_TARGET, *m.PAPER_WITHOUT_TARGET),
          ("uniform:1",), 1),
    Sweep("cover", (RIVER,), (m.OURS, "RF-Express"), LADDER[:3], 1),
    Sweep("progress", QUICK_WORLDS[:1], (m.OURS, "uniform random"), ("uniform:5",), 1, limit=4),
    Sweep("visits", ("grid:rows=3,columns=3,horizon=4",), (m.OURS, m.FLOW), ("uniform:5",)),
    Sweep("error", (TINY,), ERRORS[:2], limit=1e4),
    Sweep("policy", (TINY,), POLICIES[:1], limit=1e6),
    Sweep("speed", ("grid@1000",), (m.OURS, WHOLE, DENSE)),
]  # fmt: skip
PROFILES = {"quick": QUICK, "tuning": TUNING, "full": FULL}


def experiments_of(profile: str, also: Sequence[str] = ()) -> list[Experiment]:
    """All experiments of a profile, each once; further methods cover whatever ours does."""
    if profile not in PROFILES:
        raise BadInput(f"there is no profile {profile!r}; there are: {', '.join(PROFILES)}")
    sweeps = [_with(sweep, also) for sweep in PROFILES[profile]]
    listed = [one for sweep in sweeps for one in sweep.experiments()]
    return list(dict.fromkeys(listed))


def _with(sweep: Sweep, also: Sequence[str]) -> Sweep:
    if sweep.kind != "cover" or m.OURS not in sweep.methods:
        return sweep
    return replace(sweep, methods=(*sweep.methods, *also))
