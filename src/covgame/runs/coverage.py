"""A run of ``cover``: what was asked, what was collected, how it is saved and taken up again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from covgame.config import CoverConfig
from covgame.episodes import Block
from covgame.errors import BadInput, Row
from covgame.game.counts import Counts, summed_to
from covgame.game.custom_players import name_of
from covgame.game.game import Game
from covgame.game.growth import Growth, SecondLook
from covgame.game.presets import configured_game, configured_size
from covgame.game.progress import Pace
from covgame.game.size import Size
from covgame.mdp import dp
from covgame.pac.aliasing import Ways
from covgame.pac.assumptions import assumptions_of_coverage
from covgame.pac.learnt import LearntModel
from covgame.pac.tasks import CoverTask, Task
from covgame.planning import episodes
from covgame.runs import lower_bound
from covgame.runs.lower_bound import Kind, LowerBound
from covgame.runs.prior_data import PriorData
from covgame.runs.run import Arrays, Run, StopReason
from covgame.sources.source import Source
from covgame.storage.folder import TARGET
from covgame.storage.state import fitting, game_arrays, restore_game, target_from
from covgame.targets.discovered import (
    SeenGroups,
    SeenLabels,
    SeenTransitions,
    Transition,
    open_rows,
)
from covgame.targets.moves import moves_target
from covgame.targets.requests import Listed
from covgame.targets.target import Target
from covgame.types import ANY, BoolArray, FloatArray, IntArray, Shape

STEPS_TO_JUDGE = 1000
"""After so many steps it is noticed if more than half of them led to states never seen before."""


@dataclass(eq=False, repr=False)
class Coverage(Run):
    """A run of ``cover``: what was asked, what was collected, and how it ended."""

    settings: CoverConfig
    game: Game
    growth: Growth  # how the target changes, where states show only as one goes
    request: str = ""  # the target, as it was asked for
    never_reached: list[tuple[Row, float]] = field(default_factory=list)  # by the known model

    FINISHED: ClassVar[StopReason] = "covered"
    ONE_TASK = True

    def __post_init__(self) -> None:
        unknown = self.environment.model is None
        self.ways = Ways(self.source.shape.actions) if unknown else None
        self._compared: dict[tuple[Target, int | None], LowerBound] = {}  # the last only
        self.steps_before = 0  # steps that were counted, but not kept block by block
        self.steps_kept = 0
        self.pace = Pace(self.game)

    # ------------------------------------------------------------------------ what there is

    @property
    def target(self) -> Target:
        """What is to be covered; on an environment without a table it grows."""
        return self.game.required

    @property
    def collected(self) -> FloatArray:
        """(G,), the visits that each row of the target has."""
        return self.game.required_visits

    @property
    def counts(self) -> Counts:
        return self.game.counts

    @property
    def model(self) -> LearntModel:
        """What was learnt on the way; ``model.plan(reward)`` gives a policy."""
        learnt = LearntModel.of(self.counts)
        return replace(learnt, allowed=self.game.allowed, names=self.names).first(self.n_states)

    @property
    def n_episodes(self) -> int:
        return self.counts.n_episodes - self.n_given

    @property
    def n_looks(self) -> int:
        """Episodes at the end that looked for further states."""
        return self.growth.second_look.episodes if self.growth.second_look else 0

    def number_of(self, episode: int) -> int:
        return episode - self.n_given

    def start_from(self, given: list[PriorData]) -> None:
        """Count prior data; only what is still missing will be played."""
        if not given:
            return
        self.given, self.growth.given = given, sum(one.episodes for one in given)
        for one in given:
            self.counts.include(one.counts)
        self.steps_before = int(self.counts.visits.sum())
        self.source = self.source.seeded(self.stream)
        self.game.grow(self.target)
        self.pace.restart(self.game)

    @property
    def given_visits(self) -> IntArray:
        """Visits in prior data: (H, S, A), or (1, S, A) if the counts add up stages."""
        visits = np.zeros_like(self.counts.visits)
        for one in self.given:
            visits[:, : one.visits.shape[1]] += summed_to(len(visits), one.visits)
        return visits

    @property
    def pools_stages(self) -> bool:
        """Whether what is learnt at one stage may count for the others."""
        return self.source.stationary and not self.growth.needs_stages

    @property
    def size(self) -> Size:
        """Memory, and time before an episode."""
        stage_free = self.counts.stage_free
        return configured_size(
            self.settings, self.target, stationary=self.pools_stages, stage_free=stage_free
        )

    @property
    def covered(self) -> bool:
        """Whether every row has its visits (and something was seen, where that is the target)."""
        return self.done and not (isinstance(self.growth.request, SeenLabels) and self.uncovered)

    @property
    def uncovered(self) -> list[tuple[Row, float]]:
        """What is still missing: (row, visits), most first."""
        request = self.growth.request
        game = self.game
        if request is None:
            return open_rows(game.target, game.collected)
        return request.uncovered(game.target, game.collected, game.counts, game.allowed)

    @property
    def transitions(self) -> list[tuple[Transition, float]] | None:
        """The transitions that are asked for and the visits that they lack, most first.

        None where the target is about something else.
        """
        request = self.growth.request
        if not isinstance(request, SeenTransitions):
            return None
        return request.transitions(self.game.target, self.counts)

    @property
    def uncovered_transitions(self) -> list[tuple[Transition, float]]:
        """Those that lack visits: ((state, action, next state), visits)."""
        return [one for one in self.transitions or [] if one[1] > 0]

    @property
    def unreachable(self) -> list[tuple[Row, float]]:
        """What ``min_reach`` has left out: (row, a bound on the chance to reach it)."""
        return self.never_reached + self.growth.left_out

    @property
    def aliased(self) -> list[tuple[int, float]]:
        """States whose successors depend on how they were reached, with log10 of the evidence."""
        return self.ways.aliased() if self.ways else []

    @property
    def states_seen(self) -> int:
        """How many states some episode acted in."""
        return int(self.counts.visits.any(axis=(0, 2)).sum())

    @property
    def masked_pairs(self) -> tuple[int, int] | None:
        """State-action pairs that the action mask excluded, and the pairs without it.

        Of the reachable states of a known model, otherwise of the states seen. None if the
        environment allows every action there.
        """
        allowed = self.game.allowed
        if allowed is None:
            return None
        masked = ~allowed
        if self.source.masks.avoided:
            masked &= ~self.source.masks.as_array(len(masked))
        known = self.environment.model is not None
        masked = masked[self._reachable_states if known else self.counts.visits.any(axis=(0, 2))]
        return (int(masked.sum()), masked.size) if masked.any() else None

    @cached_property
    def _reachable_states(self) -> BoolArray:
        transitions = self.environment.require_model("reachability").transitions
        return np.asarray(dp.reachable(transitions, self.game.allowed).any(axis=0))

    @property
    def is_mapped(self) -> bool:
        """Whether a state map makes states of observations."""
        return self.environment.spec.states is not None

    @property
    def assumptions(self) -> list[str]:
        """What covering rests on that data cannot show; ``certify`` lists the same."""
        request, forbidden, avoided = self.growth.request, 0, 0
        if self.source.masks.avoided:
            avoided = int(self.source.masks.as_array(self.source.shape.states).sum())
        if self.game.allowed is not None:
            forbidden = int((~self.game.allowed).sum()) - avoided
        return assumptions_of_coverage(
            self.target.shape.horizon,
            left_out=len(self.unreachable),
            min_reach=self.settings.min_reach,
            forbidden=forbidden,
            avoided=avoided,
            groups=isinstance(request, SeenGroups),
            possible=isinstance(request, SeenTransitions) and request.wanted is not None,
            given=self.given,
        )

    @property
    def warning(self) -> str | None:
        steps = self.steps_before + self.steps_kept if self.source.discovers_states else 0
        if steps < STEPS_TO_JUDGE or 2 * self.n_states <= steps:
            return None
        return (
            f"{self.n_states:,} states in {steps:,} steps: most observations are new states, so "
            "that covering will hardly end; a coarser map (--states) would help"
        )

    @property
    def min_episodes(self) -> float | None:
        """phi*(target), or a lower bound on it (``min_episodes_is``); None if it is unknown."""
        return self.lower_bound.episodes if self.lower_bound else None

    @property
    def min_episodes_is(self) -> Kind | None:
        """``"exact"``, or ``"lower bound"`` in a large world without ``exact_bound``."""
        return self.lower_bound.kind if self.lower_bound else None

    @property
    def lower_bound(self) -> LowerBound | None:
        """The fewest episodes that any method needs; None if the model is unknown."""
        known = self._last_compared()
        if known or self.environment.model is None or self.stopped == "interrupted":
            return known  # after an interruption no linear program is begun
        if self.given and isinstance(self.growth.request, SeenTransitions):
            return None  # what visits of pairs have left of transitions is a matter of chance
        kernel, target = self.environment.model.transitions, self._to_play()
        known = lower_bound.default_bound(kernel, target, self.counts.visits, self.n_episodes)
        self._compared = {(self.target, None if known.kind == "exact" else self.n_episodes): known}
        return known

    def solve_exactly(self) -> None:
        """Have ``min_episodes`` exact, however long that takes: a linear program over all cells."""
        if self.environment.model is not None and self.min_episodes_is == "lower bound":
            exact = lower_bound.exact_bound(self.environment.model.transitions, self._to_play())
            self._compared = {(self.target, None): exact}

    def _last_compared(self) -> LowerBound | None:
        """What was computed for this target; a lower bound depends on how long was played."""
        asked = [(self.target, None), (self.target, self.n_episodes)]
        return next((self._compared[one] for one in asked if one in self._compared), None)

    @cached_property
    def min_episodes_estimate(self) -> float | None:
        """Where the model is unknown: about phi*, judged by what was learnt. No bound.

        Only of a run that has covered its target; None also where it would be much work.
        """
        unknown = self.environment.model is None and self.transitions is None
        if not (unknown and self.covered and self.n_episodes) or self.stopped == "interrupted":
            return None
        learnt = replace(self.counts.kernel(), allowed=self.game.allowed)
        return lower_bound.estimated_bound(learnt, self._to_play(), self.counts.visits)

    def dearest(self, most: int = 10) -> list[tuple[Row, float]]:
        """What makes it expensive: rows and what their next visit costs, most expensive first.

        Empty where phi* is not known, or takes a while and nobody has asked for it.
        """
        exact = self.bound_at_hand is not None and self.min_episodes_is == "exact"
        return self.lower_bound.found.dearest(most) if exact and self.lower_bound else []

    def _to_play(self) -> Target:
        """The target whose phi* bounds the episodes: without what prior data have collected."""
        target, request, model = self.target, self.growth.request, self.environment.model
        if model is not None and isinstance(request, SeenTransitions) and request.wanted:
            # Of transitions, the visits of pairs that they take on average.
            kernel, last_step = model.transitions, request.last_step
            target = moves_target(kernel, request.wanted, request.count, last_step=last_step)
        if not self.given:
            return target
        missing = np.maximum(target.counts - target.collected(self.given_visits), 0.0)
        return target.remainder(missing > 0, missing)

    @property
    def has_bound(self) -> bool:
        """Whether ``min_episodes`` was computed before."""
        return bool(self._compared)

    @property
    def has_exact_bound(self) -> bool:
        """Whether the bound that was computed before, or saved, is phi* itself."""
        known = self._last_compared()
        if known is not None:
            return known.kind == "exact"
        saved = self.folder.load_result() if self.folder else {}
        return saved.get("min_episodes_is") == "exact"

    @property
    def bound_at_hand(self) -> float | None:
        """``min_episodes``, if it is known or quickly computed."""
        return self.min_episodes if not self.is_large or self.has_bound else None

    @property
    def is_large(self) -> bool:
        """Whether phi* takes a while."""
        return lower_bound.is_large(self.target.shape)

    @property
    def ratio(self) -> float | None:
        """Episodes played over ``min_episodes``, so that a lower bound makes it an upper one."""
        if not self.min_episodes:
            return None
        ratio = self.n_episodes / self.min_episodes
        return ratio if math.isfinite(ratio) else None

    def to_dict(self, *, solve: bool = True) -> dict[str, Any]:
        """The JSON answer of ``covgame cover``; without ``solve`` no bound is computed for it."""
        known, masked = solve or bool(self._compared), self.masked_pairs
        answer = {
            "environment": self.environment.name,
            "states": self.n_states,
            "episodes": self.n_episodes,
            "episodes_planned": self.n_episodes - self.n_looks,
            "covered": self.covered,
            "stopped": self.stopped,
            "uncovered": [[*row, missing] for row, missing in self.uncovered],
            "unreachable": [[*row, bound] for row, bound in self.unreachable],
            **self.names.named(uncovered=self.uncovered, unreachable=self.unreachable),
            "min_episodes": self.min_episodes if known else None,
            "min_episodes_is": self.min_episodes_is if known else None,
            "min_episodes_estimate": self.min_episodes_estimate if known else None,
            "ratio": self.ratio if known else None,
            "states_seen": self.states_seen,
            "states_possible": self.states_possible,
            "action_mask": masked and {"excluded": masked[0], "pairs": masked[1]},
            "aliased": [
                {"state": state, "label": self.names.state(state), "evidence": evidence}
                for state, evidence in self.aliased
            ],
            "second_look": asdict(self.growth.second_look) if self.growth.second_look else None,
            "assumptions": self.assumptions,
            "warning": self.warning,
            "failure": self.failure,
            "failures": self.failures.to_list(self.names),
            "cut_off": [list(row) for row in self.growth.cut],
            "given": [one.to_dict() for one in self.given],
            "seed": self.settings.seed,
            "workers": self.settings.workers,
            "preset": self.settings.preset,
            "run": str(self.path) if self.path else None,
        }
        if self.transitions is not None:
            answer["uncovered_transitions"] = [[*move, n] for move, n in self.uncovered_transitions]
        return answer

    def __repr__(self) -> str:
        state = "covered" if self.covered else f"{len(self.uncovered)} rows open"
        if self.environment.model is None and self.states_possible is not None:
            state += f", {self.states_seen:,} of {self.states_possible:,} states seen"
        return f"Coverage({self.environment.name!r}, {episodes(self.n_episodes)}, {state})"

    # ------------------------------------------------------------------------ to be played

    @property
    def done(self) -> bool:
        """A second look follows when all is covered, unless the budget is spent."""
        looking = self.growth.is_second_look(self.game) and self.budget_left > 0
        over = self.game.covered and (self.growth.request is None or self.counts.n_episodes > 0)
        return over and not looking

    @property
    def stop_reason(self) -> StopReason:
        reason = super().stop_reason
        return "unseen" if reason == self.FINISHED and not self.covered else reason

    @property
    def by_counts(self) -> bool:
        return self.settings.play == "counts"

    @property
    def task_seed(self) -> int:
        return self.stream

    def next_task(self) -> Task | None:
        if self.done:
            return None
        if self.growth.request is not None:
            self.growth.request.check()
        rounds = self.settings.play == "lazy"
        return CoverTask("cover", self.game, growth=self.growth, rounds=rounds)

    def tell(self, task: Task) -> bool:
        del task  # its game is ours
        return True

    def keep(self, block: Block) -> None:
        self.steps_kept += len(block.state)
        self.pace.add(self.game)
        if self.ways is not None:
            self.ways.tell(block)

    # ----------------------------------------------------------------- to be saved and resumed

    def config(self) -> dict[str, Any]:
        request, settings = self.growth.request, self.settings
        custom = {"planner": settings.planner, "adversary": settings.adversary}
        return {
            "command": "cover",
            "request": self.request,
            "growing": request.to_dict() if request else None,
            **dict(self.settings),
            **{key: value and name_of(value) for key, value in custom.items()},
            "unreachable": [[*row, bound] for row, bound in self.never_reached],
        }

    def documents(self) -> dict[str, str]:
        from covgame.targets.files import listed_text, target_text

        request = self.growth.request
        if isinstance(request, SeenLabels):
            return {TARGET: listed_text(Listed(request.rows))}
        return {TARGET: target_text(self.target)}

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        left_out, look = self.growth.left_out, self.growth.second_look
        request, wanted = self.growth.request, {}
        if isinstance(request, SeenTransitions) and request.wanted is not None:
            moves = np.column_stack([request.wanted.pair, request.wanted.successor])
            wanted = {"wanted_transitions": moves}  # those that a known model has
        return {
            **game_arrays(self.game),
            **self.growth.arrays(),
            **wanted,
            "left_out_rows": _as_array([row for row, _ in left_out]),
            "left_out_bounds": np.array([bound for _, bound in left_out]),
            "cut_off_rows": _as_array(self.growth.cut),
            **(self.ways.arrays() if self.ways else {}),
            **({"by_chance": np.array(astuple(look))} if look is not None else {}),
        }

    def restore(self, arrays: Arrays) -> None:
        if self.growth.request is not None or self.growth.rare is not None:
            target = _saved_target(arrays, self.source)
            self.game = configured_game(
                self.settings,
                target,
                stationary=self.pools_stages,
                allowed=self.allowed,
                stage_free=self.counts.stage_free,
            )
        restore_game(self.game, arrays)
        self.pace.restart(self.game)
        self.steps_before = int(self.counts.visits.sum())
        self.growth.restore(arrays)
        visited = np.flatnonzero(self.counts.visits.any(axis=(0, 2)))
        self.source.restore(self.game.allowed, visited)
        if self.source.masks.avoided:
            self.growth.avoided = self.source.masks.as_array(self.source.shape.states)
        if "left_out_rows" in arrays:
            rows, bounds = arrays["left_out_rows"], arrays.get("left_out_bounds", np.zeros(0))
            if bounds.shape != (len(rows),):
                raise BadInput("the saved state does not say which rows were left out")
            self.growth.left_out = list(zip(_as_rows(rows), bounds.tolist(), strict=True))
        self.growth.cut = _as_rows(arrays.get("cut_off_rows", np.zeros((0, 3), dtype=np.int64)))
        with fitting():
            if self.ways is not None:
                self.ways.restore(arrays)
            if self.growth.second_look is not None:
                self.growth.second_look = SecondLook(*map(int, arrays["by_chance"].tolist()))


def _saved_target(arrays: Arrays, source: Source) -> Target:
    """A target that had grown, as it was saved.

    There may be room for more states by now: some were seen in an episode that did not count.
    """
    if not {"visits", "target_rows", "target_counts"} <= arrays.keys():
        raise BadInput("the saved state lacks the target of this run")
    horizon, room, actions = source.shape.hsa
    visits, keys = arrays["visits"], source.state_keys
    if visits.ndim != 3 or visits.shape[1] > room:
        raise BadInput("the saved state has other states than this run")
    if keys is not None and visits[:, len(keys) :].any():
        raise BadInput("the saved state counts states that are not listed")
    shape = Shape(horizon, visits.shape[1], actions)
    return target_from(arrays, shape)


def _as_array(rows: Sequence[Row]) -> npt.NDArray[Any]:
    """Rows of a target as they are saved."""
    numbers = [[ANY if i is None else i for i in row] for row in rows]
    return np.array(numbers, dtype=np.int64).reshape(-1, 3)


def _as_rows(saved: npt.NDArray[Any]) -> list[Row]:
    if saved.ndim != 2 or saved.shape[1] != 3:
        raise BadInput("the saved state does not say which rows were left out")
    return [(None if h == ANY else h, s, None if a == ANY else a) for h, s, a in saved.tolist()]
