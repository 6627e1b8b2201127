"""``audit``: what data cover, what is missing, and how good data could be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from covgame.data.certificates import Certificates, certify_data
from covgame.data.combined_counts import CombinedCounts, gather
from covgame.data.dataset import Dataset, horizon_of_runs, open_all
from covgame.data.gaps import Gap, find_gaps
from covgame.data.model_check import check_fits
from covgame.data.shortfall import Shortfall, shortfall_of, size_of
from covgame.errors import BadInput, Row, SolverFailed
from covgame.flow.measures import thinnest
from covgame.flow.min_flow import MinFlow, dual_bound, min_flow
from covgame.mdp import dp
from covgame.names import Names
from covgame.pac.error_bounds import Range
from covgame.sources.environments import Environment, as_environment
from covgame.sources.maps import AnyMap
from covgame.targets.requests import Grouped, Listed, Proportional, Request, Uniform
from covgame.targets.resolve import AnyTarget, as_request, reachable_rows
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, FloatArray, Shape

SHOWN = 12
LARGE = 20_000
"""Above so many (stage, state, action) linear programs are solved on request only."""


@dataclass(frozen=True)
class Untold:
    """What these data cannot tell about."""

    rows: list[Row]  # of the target, to which the data show no way
    pairs: list[tuple[int, int]]  # (state, action) of states that were met, never tried


@dataclass(frozen=True, eq=False)
class Audit:
    """What data cover of a target, and what they lack."""

    combined: CombinedCounts
    shortfall: Shortfall
    request: str  # the target, as it was asked for
    certificates: Certificates | None = None  # with ``epsilon``: what is proved
    at_any_price: bool = False  # linear programs also where they take long

    # ------------------------------------------------------------------------ what there is

    @property
    def datasets(self) -> Sequence[Dataset]:
        """The data, one by one."""
        return self.combined.datasets

    @property
    def target(self) -> Target:
        """What was asked for, row by row."""
        return self.shortfall.target

    @property
    def names(self) -> Names:
        """What states and actions are called."""
        return self.combined.names

    @property
    def shape(self) -> Shape:
        """Stages, states and actions."""
        return self.combined.shape

    @property
    def episodes(self) -> int:
        """How many episodes there are, of all datasets."""
        return self.combined.n_episodes

    @property
    def steps(self) -> int:
        """Steps that count."""
        return sum(one.n_steps for one in self.datasets)

    @property
    def left_out(self) -> int:
        """Steps beyond the horizon, which do not count."""
        return sum(one.left_out for one in self.datasets)

    @property
    def covered(self) -> bool:
        """Whether nothing is missing."""
        return not self.shortfall.missing.any()

    @cached_property
    def uncovered(self) -> list[tuple[Row, float]]:
        """What is missing: (row, visits), most first."""
        rows = self.shortfall.open_rows()
        return list(
            zip(self.target.as_rows(rows), self.shortfall.missing[rows].tolist(), strict=True)
        )

    @cached_property
    def gaps(self) -> list[Gap]:
        """The same in words, grouped by state, most missing first."""
        return find_gaps(self.combined, self.shortfall)

    @property
    def known(self) -> bool:
        """Whether the world is known; otherwise it is judged as the data show it."""
        return self.combined.model is not None

    @cached_property
    def untold(self) -> Untold:
        """What these data cannot tell about."""
        away = np.flatnonzero(~self._within & (self.shortfall.missing > 0))
        anywhere = np.logical_or.reduce(self.combined.seen, axis=0)
        tried = self.combined.apart.visits.any(axis=0)
        pairs = np.argwhere(anywhere[:, None] & self.combined.allowed & ~tried)
        return Untold(self.target.as_rows(away), [(int(s), int(a)) for s, a in pairs])

    @cached_property
    def _within(self) -> BoolArray:
        """Rows to which the model knows a way."""
        return reachable_rows(self.target, self.combined.kernel)

    # ------------------------------------------------------------------------- what it costs

    @property
    def is_large(self) -> bool:
        """Whether linear programs take a while."""
        return self.shape.cells > LARGE

    @property
    def solves(self) -> bool:
        """Whether pages and texts solve them; the properties always do."""
        return self.at_any_price or not self.is_large

    @property
    def min_episodes(self) -> float | None:
        """phi* of the whole target: episodes that the best collector needs on average.

        On a learnt model, without the rows that are ``untold``.
        """
        return None if self._whole is None else self._whole.min_episodes

    @property
    def has_exact_costs(self) -> bool:
        """Whether ``min_episodes`` and ``told_episodes`` are phi*, not mere lower bounds."""
        return all(one is not None and one.is_exact for one in (self._whole, self._told))

    @cached_property
    def _whole(self) -> MinFlow | None:
        return self._price(self.target.counts, self._within)

    @cached_property
    def _told(self) -> MinFlow | None:
        return self._price(self.shortfall.more, self._within & (self.shortfall.more > 0))

    @property
    def told_episodes(self) -> float | None:
        """phi* of what is missing, as far as the model knows a way there."""
        return None if self._told is None else self._told.min_episodes

    @property
    def missing_episodes(self) -> float | None:
        """phi* of what is missing; None where something is untold, or past double precision."""
        return None if self.untold.rows else self.told_episodes

    @cached_property
    def at_least(self) -> float:
        """A quick lower bound on the episodes for what is missing."""
        part = self.target.remainder(self._within & (self.shortfall.more > 0), self.shortfall.more)
        if not len(part):
            return 0.0
        return dual_bound(self.combined.kernel, part, np.ones(len(part)))

    def _price(self, counts: FloatArray, wanted: BoolArray) -> MinFlow | None:
        part = self.target.remainder(wanted, counts)
        try:
            return min_flow(self.combined.kernel, part)
        except SolverFailed:
            return None

    @cached_property
    def _thinnest(self) -> tuple[float, tuple[int, int, int]]:
        had = self.combined.apart.visits / max(1, self.episodes)
        return thinnest(self.combined.kernel, had)

    @property
    def concentrability(self) -> float:
        """The largest factor by which some policy visits a cell more often than these data do.

        Infinite if they miss a (stage, state, action) that can be reached.
        """
        return self._thinnest[0]

    @property
    def thinnest_spot(self) -> Row:
        """(stage, state, action) where that is."""
        return self._thinnest[1]

    @cached_property
    def unvisited(self) -> tuple[int, int]:
        """(how many, of how many) actions in states at stages were never visited, and can be."""
        kernel = self.combined.kernel
        possible = dp.reachable(kernel)[:, :, None] & kernel.allowed_actions
        return int((possible & (self.combined.apart.visits == 0)).sum()), int(possible.sum())

    @cached_property
    def best_concentrability(self) -> float | None:
        """The least that any collector can reach: phi* of proportional:1 on the same model."""
        try:
            target = Proportional(1.0).resolve(self.combined.kernel)
            return min_flow(self.combined.kernel, target).min_episodes
        except SolverFailed:
            return None

    # ------------------------------------------------------------------------- how it is said

    def to_dict(self) -> dict[str, Any]:
        """The JSON answer of ``covgame audit``."""
        H, S, A = self.shape.hsa
        untold = self.untold
        answer = {
            "data": [one.name for one in self.datasets],
            "episodes": self.episodes,
            "steps": self.steps,
            "left_out": self.left_out,
            "horizon": H,
            "states": S,
            "actions": A,
            "states_seen": int(self.combined.seen.any(axis=0).sum()),
            "target": self.request,
            "requirements": len(self.target),
            "covered": self.covered,
            "uncovered": [[*row, missing] for row, missing in self.uncovered],
            "missing_visits": float(self.shortfall.missing.sum()),
            "holes": [vars(gap) for gap in self.gaps],
            **self.names.named(uncovered=self.uncovered),
            "model": "known" if self.known else "learnt",
            "stages": self.combined.stages[2],
            "min_episodes": self.min_episodes if self.solves else None,
            "missing_episodes": self.missing_episodes,
            "told_episodes": self.told_episodes,
            "missing_episodes_at_least": self.at_least,
            "unvisited": self.unvisited[0],
            "reachable": self.unvisited[1],
            "concentrability": _finite(self.concentrability) if self.solves else None,
            "thinnest_spot": list(self.thinnest_spot) if self.solves else None,
            "best_concentrability": _finite(self.best_concentrability) if self.solves else None,
            "untold": {
                "rows": [list(row) for row in untold.rows],
                "pairs": [list(pair) for pair in untold.pairs],
            },
        }
        if self.shortfall.moves is not None and self.shortfall.lacking is not None:
            answer["uncovered_transitions"] = self._transitions()
        if self.certificates is not None:
            answer["certificates"] = self.certificates.to_dict()
        return answer

    def _transitions(self) -> list[list[Any]]:
        moves, lacking = self.shortfall.moves, self.shortfall.lacking
        if moves is None or lacking is None:
            return []
        order = np.argsort(-lacking, kind="stable")[: np.count_nonzero(lacking)]
        return [
            [
                *divmod(int(moves.pair[i]), self.shape.actions),
                _state(moves.successor[i]),
                lacking[i],
            ]
            for i in order.tolist()
        ]

    def to_text(self, most: int = SHOWN) -> str:
        """A page for a terminal."""
        from covgame.report.audits import audit_view
        from covgame.report.text import as_text

        return as_text(audit_view(self, max(most, SHOWN)), most)

    def __str__(self) -> str:
        return self.to_text()

    def __repr__(self) -> str:
        state = "covered" if self.covered else f"{len(self.uncovered):,} rows open"
        names = ", ".join(repr(one.name) for one in self.datasets)
        return f"Audit({names}, {self.episodes:,} episodes, {state})"

    def _repr_html_(self) -> str:
        from covgame.report.audits import audit_view
        from covgame.report.text import as_notebook

        return as_notebook(audit_view(self), SHOWN)

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw visits against what was asked for.

        With a ``path`` a file is written, whose ending says the format (svg, png, pdf); without one
        the matplotlib figure is returned, which a notebook shows.
        """
        from covgame.report.audits import audit_page
        from covgame.report.figures import shown_or_saved, view_figure

        return shown_or_saved(lambda audit: view_figure(audit_page(audit)), self, path)

    def to_html(self) -> str:
        """The page: one file that needs nothing else."""
        from covgame.report.audits import audit_page
        from covgame.report.html import page_html

        return page_html(audit_page(self))

    def save_html(self, path: str | Path) -> None:
        """Write the page, as a whole or not at all."""
        from covgame.report.audits import audit_page
        from covgame.report.html import write_page

        write_page(audit_page(self), Path(path))


def audit(
    data: str | Path | Sequence[str | Path],
    target: AnyTarget | None = None,
    *,
    env: Any = None,
    horizon: int | None = None,
    states: AnyMap | None = None,
    actions: str | None = None,
    columns: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float = 0.1,
    reward_range: tuple[float, float] = (0.0, 1.0),
    most_states: int | None = None,
    stage_dependent: bool = False,
    at_any_price: bool = False,
) -> Audit:
    """What a dataset covers of a target, what is missing, and what that would cost to collect.

    Data are read a batch at a time, so they may be larger than memory.

    Args:
        data: A run's folder, a Parquet, CSV or Feather file or a folder of them, ``minari:ID``;
            or a list of such, which add up.
        target: What has to be visited how often, as in ``covgame.cover``. Left out,
            ``uniform:10/pair``. Without a known model, uniform targets are about what was seen.
        env: The environment that the data are from, as in ``covgame.cover``. If its transition
            table is known, everything is judged by that, otherwise by what the data show.
        horizon: Count only the first so many steps of every episode. Left out, that of ``env``,
            of the run, or of the longest episode.
        states: What counts as a state, where the data hold observations (see ``covgame.make``).
        actions: ``"grid:5"`` for an ``env`` whose actions are real numbers.
        columns: What the table calls our columns, such as ``{"state": "s", "action": "a"}``;
            ``{"state": "x+y"}`` makes a state of two columns. Ours are ``episode``, ``stage``,
            ``state``, ``action``, ``reward``, ``next_state``, ``terminated``, ``truncated`` and
            ``done``.
        epsilon: Also say what the certificates of ``explore`` and ``identify`` would prove.
        delta: The probability with which they may be wrong.
        reward_range: What a step may pay; the certificate of ``identify`` relies on it.
        most_states: An upper bound on the number of states, where only data say how many there
            are; certificates need it.
        stage_dependent: Do not assume that all stages behave alike.
        at_any_price: Compute exact costs in large worlds too, however long it takes.

    Returns:
        The audit: ``audit.covered``, ``audit.uncovered``, ``audit.gaps`` (in words),
        ``audit.missing_episodes``, ``audit.min_episodes``, ``audit.concentrability``,
        ``audit.untold``, ``audit.certificates``, ``audit.plot()``, ``audit.to_html()``.

    Raises:
        BadInput: The data or the target are not what they should be; the sentence names the file,
            the row and the column.
        UnreachableTarget: The target asks for what no policy reaches on the known model.

    Example:
        >>> import tempfile, covgame as cg
        >>> folder = tempfile.mkdtemp()
        >>> run = cg.cover("chain:states=4,horizon=6", "uniform:2/pair", out=folder)
        >>> audit = cg.audit(folder, "uniform:2/pair", env="chain:states=4,horizon=6")
        >>> audit.covered, audit.missing_episodes
        (True, 0.0)
    """
    if not 0 < delta < 1:
        raise BadInput(f"delta is a probability between 0 and 1, not {delta!r}")
    paths = [data] if isinstance(data, str | Path) else list(data)
    environment = None
    if env is not None:
        if horizon is None and not isinstance(env, Environment):
            horizon = horizon_of_runs(paths)
        environment = as_environment(env, horizon, states, actions)
        states = None
    datasets = open_all(
        paths, environment=environment, horizon=horizon, states=states, columns=columns
    )
    request = as_request(target)
    shape, names = size_of(datasets, environment, request)
    paid = None
    if epsilon is not None and all(one.has_rewards for one in datasets):
        paid = _range(reward_range)
    counts = gather(datasets, shape, paid=paid is not None)
    if environment is not None and environment.model is not None:
        said = " and ".join(one.name for one in datasets)
        check_fits(said, counts, environment.model.transitions, environment.model.names)
    combined = CombinedCounts(
        datasets, shape, environment, names, counts, delta, paid, stage_dependent
    )
    shortfall = shortfall_of(combined, request)
    found = Audit(combined, shortfall, _said(request, shortfall), at_any_price=at_any_price)
    if epsilon is None:
        return found
    return replace(
        found, certificates=certify_data(combined, epsilon, most_states, forecast=found.solves)
    )


def _range(given: tuple[float, float]) -> Range:
    low, high = given
    if not -np.inf < low < high < np.inf:
        raise BadInput(f"a range of rewards goes from LO to HI, not {low:g} to {high:g}")
    return Range(float(low), float(high))


def _said(request: Request | Target, shortfall: Shortfall) -> str:
    """The target as text."""
    if isinstance(request, Listed):
        return request.source
    if isinstance(request, Proportional):
        return f"proportional:{request.count:g}"
    if isinstance(request, Uniform | Grouped):
        return str(request)
    return f"a target of {len(shortfall.target):,} rows"


def _state(successor: Any) -> int | None:
    return None if successor == ANY else int(successor)


def _finite(value: float | None) -> float | None:
    """JSON knows no infinity."""
    return value if value is not None and np.isfinite(value) else None
