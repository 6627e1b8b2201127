"""What is run: sweeps over worlds, targets, methods and seeds. Nothing here does anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

from covgame.bench import methods as m
from covgame.errors import BadInput

SUITE = (
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "riverswim:states=8,horizon=20",
    "deepsea:size=10,noise=0.1",
    "grid:rows=5,columns=5,horizon=12",
    "chain:states=10,horizon=20",
    "doublechain:length=15,horizon=20",
    "inventory:capacity=10,horizon=12",
    "gym:FrozenLake-v1@12",
)
"""Worlds; ``@12`` gives the number of stages where the name leaves it open."""

CELLS = ("uniform:1", "uniform:5", "uniform:50", "unbalanced:100", "proportional:100")
PAIRS = ("uniform:10/pair",)
"""Targets; of all of them, only what some policy reaches with probability 0.01 or more."""

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
    """All combinations; a method that is not told the target runs once for all of them."""

    kind: str
    envs: Sequence[str]
    methods: Sequence[str]
    targets: Sequence[str] = ("",)
    seeds: int = 1
    limit: float = LIMIT
    skip: frozenset[tuple[str, str]] = field(default_factory=frozenset)  # (method, target)

    def experiments(self) -> list[Experiment]:
        """Seeds outermost, so that an interrupted sweep has a bit of everything."""
        found = []
        for seed, env, method in product(range(self.seeds), self.envs, self.methods):
            told = self.kind != "cover" or m.METHODS[method].told
            groups = [(target,) for target in self.targets] if told else [tuple(self.targets)]
            found += [
                Experiment(self.kind, env, group, method, seed, self.limit)
                for group in groups
                if not {(method, target) for target in group} & self.skip
            ]
        return found


def _sizes(sizes: Sequence[int]) -> tuple[str, ...]:
    """Worlds of these sizes: local ones, and ones that lead anywhere."""
    return tuple(f"{kind}@{cells}" for kind in ("grid", "garnet") for cells in sizes)


NOT_BY_STAGE = frozenset(
    (method, target)
    for method in ("Learn2Explore (MOCA)", "Learn2Explore (MOCA), paper")
    for target in PAIRS
)

FULL = [
    Sweep("cover", SUITE, (m.OURS, *m.PEERS, m.FLOW, *m.VARIANTS), (*CELLS, *PAIRS), 20,
          skip=NOT_BY_STAGE),
    Sweep("cover", SUITE, (m.ADAPTIVE,), ("uniform:1", "uniform:5", *PAIRS), 20),
    Sweep("cover", SUITE, m.PAPER_TOLD, ("uniform:1", "uniform:5"), 3),
    Sweep("cover", SUITE, m.PAPER_UNTOLD, (*CELLS, *PAIRS), 3),
    Sweep("cover", (RIVER,), (m.OURS, *m.PRACTICAL_TOLD), LADDER, 10, limit=20),
    Sweep("cover", (RIVER,), (m.PAPER, *m.PRACTICAL_UNTOLD), LADDER, 2, limit=20),
    Sweep("progress", (GRID,), (m.OURS, m.PAPER, *m.PEERS, m.FLOW), ("uniform:10",), 5, limit=8),
    Sweep("visits", (GRID,), (m.OURS, m.FLOW, *m.PEERS), ("uniform:10",), 1, limit=4),
    Sweep("error", (SMALL,), ERRORS, limit=1e12),
    Sweep("policy", (TINY,), POLICIES, seeds=5, limit=1e13),
    Sweep("speed", _sizes(SIZES), (m.OURS, m.APART, WHOLE)),
    Sweep("speed", _sizes(SIZES[:3]), (DENSE,)),
]  # fmt: skip
QUICK_WORLDS = ("deepsea:size=5,noise=0.1", "lock")
QUICK = [
    Sweep("cover", QUICK_WORLDS, (m.OURS, *m.PEERS, m.FLOW, m.ADAPTIVE, *m.VARIANTS),
          ("uniform:1", "uniform:5", *PAIRS), 2, skip=NOT_BY_STAGE),
    Sweep("cover", QUICK_WORLDS[:1], (m.PAPER_TOLD + m.PAPER_UNTOLD), ("uniform:1",), 1),
    Sweep("cover", (RIVER,), (m.OURS, "RF-Express"), LADDER[:3], 1),
    Sweep("progress", QUICK_WORLDS[:1], (m.OURS, "uniform random"), ("uniform:5",), 1, limit=4),
    Sweep("visits", ("grid:rows=3,columns=3,horizon=4",), (m.OURS, m.FLOW), ("uniform:5",)),
    Sweep("error", (TINY,), ERRORS[:2], limit=1e4),
    Sweep("policy", (TINY,), POLICIES[:1], limit=1e6),
    Sweep("speed", ("grid@1000",), (m.OURS, WHOLE, DENSE)),
]  # fmt: skip
PROFILES = {"quick": QUICK, "full": FULL}


def experiments_of(profile: str) -> list[Experiment]:
    """All experiments of a profile, each once."""
    if profile not in PROFILES:
        raise BadInput(f"there is no profile {profile!r}; there are: {', '.join(PROFILES)}")
    listed = [one for sweep in PROFILES[profile] for one in sweep.experiments()]
    return list(dict.fromkeys(listed))
