"""How few episodes can do: players who know the model, and the exact optimum on tiny worlds.

    python3 dev.py bench known_limit [--quick] [--large] [--seeds N]

phi* bounds the mean from below, but visits are whole and luck is random, so at 1 to 5 visits nobody
attains it. The players here know the transitions and look at what every episode collected:

- *weights*: backward induction on the weights of our adversary, or on 1 for whatever is missing;
- *flow*: the minimum-flow program of what is still missing is solved before every episode, and
  its policy is played;
- *prices*: the shadow prices of that program are the rewards of a backward induction, with a
  little for every open row, since what is free in the mean is not free by chance.

On worlds with few rows the least mean over *all* adaptive players is computed, by dynamic
programming over what is collected, the stage and the state. Figures are means of tau/phi*, each
with its standard error; the default game, which has to learn the model, stands beside them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from benchmarks import _results
from benchmarks.comparison.measures import REACH, priced, world
from benchmarks.comparison.players import GamesPlayer, episodes_to_cover
from covgame.flow.highs import Method, Solver
from covgame.flow.min_flow import ScaledProgram, flow_policy
from covgame.flow.polytope import flow_polytope
from covgame.game.adversary import AdversaryState, Gains, MissingOnly, TargetAware
from covgame.game.counts import Counts
from covgame.game.game import Game, rounds
from covgame.game.planner import KnownModelPlanner
from covgame.game.presets import default_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import END, FloatArray, FloatHSA, IntArray, Policy

TARGETS = ["uniform:1", "uniform:1/pair", "uniform:5/pair"]
WORLDS = [
    "garnet:states=20,actions=4,horizon=10,stationary=true",
    "garnet:states=20,actions=4,horizon=10,stationary=false",
    "riverswim:states=8,horizon=20",
    "deepsea:size=10,noise=0.1",
    "grid:rows=5,columns=5,horizon=12",
    "chain:states=10,horizon=20",
    "inventory:capacity=10,horizon=12",
]
TINY = [
    ("garnet:states=3,actions=2,horizon=3", "uniform:1"),
    ("garnet:states=3,actions=2,horizon=3,stationary=true,seed=2", "uniform:1"),
    ("deepsea:size=3,noise=0.1", "uniform:1"),
    ("deepsea:size=3,noise=0.3", "uniform:1"),
    ("garnet:states=2,actions=2,horizon=3,branching=2", "uniform:2"),
    ("riverswim:states=6,horizon=12", "uniform:1/pair"),
    ("riverswim:states=4,horizon=8", "uniform:2/pair"),
    ("riverswim:states=3,horizon=6", "uniform:5/pair"),
    ("chain:states=6,horizon=8", "uniform:1/pair"),
    ("chain:states=4,horizon=8", "uniform:2/pair"),
    ("garnet:states=6,actions=2,horizon=5,stationary=true", "uniform:1/pair"),
    ("garnet:states=4,actions=2,horizon=5,stationary=true", "uniform:2/pair"),
]
SHARE = 0.1
"""Of the mean price, what every open row is worth beside its own."""

CAP = 60
"""Runs of the default game are stopped at so many phi*."""

MOST_SETS = 100_000
"""The exact optimum is computed for at most so many states of the collection."""

TOO_LONG = 1e9
"""More episodes than any of these worlds takes: where Newton's method starts, from above."""

TOLERANCE = 1e-10


class Remainder:
    """The minimum-flow program of a target, solved again and again for what is missing of it."""

    def __init__(self, transitions: Transitions, target: Target) -> None:
        self.target = target
        reach = dp.reach_bound(transitions)
        self.scaled = ScaledProgram(target, flow_polytope(transitions), reach)
        self.solver = Solver(self.scaled.program, Method.SIMPLEX)

    def solve(self, missing: FloatArray) -> tuple[FloatHSA, FloatArray]:
        """(flow, prices) of the cheapest way to collect what is missing."""
        scaled = self.scaled
        cell_lower = missing[scaled.cell_rows] / scaled.column_unit[scaled.cell_columns]
        self.solver.change_lower(scaled.cell_columns, cell_lower / scaled.unit)
        group_lower = missing[scaled.group_rows] / scaled.group_unit / scaled.unit
        self.solver.change_row_lower(scaled.polytope.matrix.rows, group_lower)
        answer = self.solver.solve()
        flow = np.zeros(self.target.shape.cells)
        flow[scaled.polytope.cells] = answer.x[1:] * scaled.column_unit[1:]
        return np.maximum(flow, 0.0).reshape(self.target.shape.hsa), scaled.prices(answer)


@dataclass(frozen=True, eq=False)
class ShadowPrices:
    """An adversary that weighs open rows by the prices of the remainder."""

    remainder: Remainder
    share: float = SHARE
    forgets_covered: ClassVar[bool] = True

    def start(self, target: Target) -> AdversaryState:
        state = AdversaryState(np.zeros(len(target)), 0.0)
        self.extend(target, state, np.zeros(len(target)))
        return state

    def observe(
        self, target: Target, state: AdversaryState, gains: Gains, collected: FloatArray
    ) -> None:
        del gains
        self.extend(target, state, collected)

    def weight_of(self, target: Target, state: AdversaryState, row: int, n: float) -> float:
        return float(state.weights[row]) if n < target.counts[row] else 0.0

    def weight_fell(self, target: Target, state: AdversaryState, row: int, gain: int) -> bool:
        del target, state, row, gain
        return False

    def extend(self, target: Target, state: AdversaryState, collected: FloatArray) -> None:
        state.weights = self.anticipate(target, state, collected)
        state.total = float(state.weights.sum())

    def anticipate(
        self, target: Target, state: AdversaryState, collected: FloatArray
    ) -> FloatArray:
        del state
        missing = np.maximum(target.counts - collected, 0.0)
        still_open = missing > 0
        if not still_open.any():
            return np.zeros(len(target))
        _, prices = self.remainder.solve(missing)
        return np.where(still_open, prices + self.share * prices[still_open].mean(), 0.0)

    def observe_many(
        self, target: Target, state: AdversaryState, gains: FloatArray, episodes: int,
        collected: FloatArray,
    ) -> None:  # fmt: skip
        del gains, episodes
        self.extend(target, state, collected)


@dataclass(frozen=True, eq=False)
class RemainderFlow:
    """A planner that plays the flow policy of what is missing, whatever the weights are."""

    remainder: Remainder

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        del reward
        target = self.remainder.target
        flow, _ = self.remainder.solve(
            np.maximum(target.counts - target.collected(counts.visits), 0.0)
        )
        return flow_policy(flow)


@dataclass(frozen=True, eq=False)
class Collection:
    """What can be collected of a target, numbered: a digit per row, up to its count."""

    target: Target
    counts: IntArray = field(init=False)  # (G,), whole visits
    unit: IntArray = field(init=False)  # (G,), what one visit of a row adds to the number

    def __post_init__(self) -> None:
        counts = np.ceil(self.target.counts).astype(np.int64)
        object.__setattr__(self, "counts", counts)
        unit = np.concatenate([[1], np.cumprod(counts + 1)[:-1]]).astype(np.int64)
        object.__setattr__(self, "unit", unit)

    @property
    def size(self) -> int:
        """How many states the collection has."""
        return math.prod((self.counts + 1).tolist())

    def levels(self) -> IntArray:
        """The visits in each state of the collection, those beyond a count left out."""
        number = np.arange(self.size)[:, None]
        total: IntArray = ((number // self.unit) % (self.counts + 1)).sum(axis=1)
        return total

    def after(self, number: IntArray, cell: int) -> IntArray:
        """The collection after a visit of the cell."""
        for row in self.target.rows_of_cell(cell):
            has_room = (number // self.unit[row]) % (self.counts[row] + 1) < self.counts[row]
            number = number + self.unit[row] * has_room
        return number


def exact_optimum(transitions: Transitions, target: Target) -> float:
    """The least mean number of episodes, over all players who know the model.

    Let V(C) be what is left to play from the collection C. An episode that starts there is a
    decision problem over (collection, stage, state) that costs V at its end. Collections only
    grow, so V is found from the full one downwards; only V(C) itself occurs on both sides, where
    an episode may collect nothing. With v for it on the right the best episode costs the minimum
    of affine functions of v: Newton's method on v = 1 + min is policy iteration and ends.
    """
    collection = Collection(target)
    if collection.size > MOST_SETS:
        raise ValueError(f"{collection.size:,} states of the collection are too many")
    levels = collection.levels()
    H, S, A = transitions.shape.hsa
    kernels = [_with_end(transitions, h) for h in range(H)]
    initial = np.append(transitions.initial, 0.0)
    values = np.zeros((H + 1, collection.size, S + 1))  # to go within the episode and after it
    for level in reversed(range(int(levels.max()))):
        here = np.flatnonzero(levels == level)
        following = [collection.after(here, cell) for cell in range(H * S * A)]
        left = np.full(len(here), TOO_LONG)
        while True:
            stays = np.ones((H + 1, len(here), S + 1))  # probability of collecting nothing more
            values[:, here] = left[None, :, None]
            for h in reversed(range(H)):
                for s in range(S):
                    options = [
                        _continue(values, stays, kernels[h][s * A + a], here, to, h, s)
                        for a, to in enumerate(following[(h * S + s) * A : (h * S + s + 1) * A])
                    ]
                    costs = np.array([cost for cost, _ in options])
                    best = costs.argmin(axis=0)
                    chances = np.array([chance for _, chance in options])
                    values[h, here, s] = np.take_along_axis(costs, best[None], 0)[0]
                    stays[h, :, s] = np.take_along_axis(chances, best[None], 0)[0]
            cost, again = values[0, here] @ initial, stays[0] @ initial
            better = (1.0 + cost - again * left) / (1.0 - again)
            done = bool(np.allclose(better, left, rtol=TOLERANCE, atol=0.0))
            left = better
            if done:
                break
    return float(values[H, 0, 0])


def _continue(
    values: FloatArray, stays: FloatArray, row: FloatArray, here: IntArray, to: IntArray,
    h: int, s: int,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    """Cost of going on after a visit at (h, s), and the probability of collecting nothing."""
    last = h + 1 == len(stays) - 1
    cost = values[h + 1, to, s] if last else values[h + 1, to] @ row
    chance = stays[h + 1, :, s] if last else stays[h + 1] @ row
    return cost, np.where(to == here, chance, 0.0)


def _with_end(transitions: Transitions, h: int) -> FloatArray:
    """The rows of a stage as a matrix, (S * A, S + 1), the last column the end."""
    kernel = transitions.stages[h]
    matrix = np.zeros((transitions.shape.pairs, transitions.shape.states + 1))
    pair = np.repeat(np.arange(transitions.shape.pairs), np.diff(kernel.start))
    end = kernel.next_state == END
    matrix[pair, np.where(end, transitions.shape.states, kernel.next_state)] = kernel.probability
    return matrix


Player = Callable[[TabularMDP, Target, Remainder], Game]
PLAYERS: dict[str, Player] = {
    "weights": lambda model, target, _: Game(
        target, KnownModelPlanner(model.transitions), TargetAware(), _no_counts(target)
    ),
    "weights, 1 for missing": lambda model, target, _: Game(
        target, KnownModelPlanner(model.transitions), MissingOnly(), _no_counts(target)
    ),
    "flow": lambda _, target, remainder: Game(
        target, RemainderFlow(remainder), MissingOnly(), _no_counts(target)
    ),
    "prices": lambda model, target, remainder: Game(
        target, KnownModelPlanner(model.transitions), ShadowPrices(remainder), _no_counts(target)
    ),
}
DEFAULT = "default, model unknown"
EXACT = "exact optimum"


def _no_counts(target: Target) -> Counts:
    return Counts(target.shape, pooled=True)


def measure(env: str, text: str, seeds: int, *, exact: bool = False) -> list[dict[str, Any]]:
    """tau/phi* of all players on one world."""
    model = world(env)
    target, phi = priced(env, text)
    remainder = Remainder(model.transitions, target)

    def tau(name: str, seed: int) -> int:
        if name == DEFAULT:
            game = default_game(target, pooled=model.transitions.stationary)
            player = GamesPlayer(iter([game]), SimulatedSource(model, seed))
            return episodes_to_cover(player, [target], [int(CAP * phi)])[0] or int(CAP * phi)
        game = PLAYERS[name](model, target, remainder)
        for _ in rounds(game, SimulatedSource(model, seed)):
            pass
        return game.counts.n_episodes

    found = {name: [tau(name, seed) / phi for seed in range(seeds)] for name in [DEFAULT, *PLAYERS]}
    if exact:
        found[EXACT] = [exact_optimum(model.transitions, target) / phi]
    rows: list[dict[str, Any]] = [
        {"env": env, "target": text, "player": name, "phi": phi, "ratios": ratios}
        for name, ratios in found.items()
    ]
    print(f"{env} {text}: phi* {phi:.2f}, {len(target)} rows")
    for row in rows:
        print(f"    {row['player']:<24} {_figure(row['ratios'])}", flush=True)
    return rows


def _error(ratios: list[float]) -> float:
    """The standard error of the mean; none of what is exact."""
    return float(np.std(ratios) / math.sqrt(len(ratios)))


def _figure(ratios: list[float]) -> str:
    """Mean and standard error."""
    return f"{np.mean(ratios):.3f}" + (f" +- {_error(ratios):.3f}" if len(ratios) > 1 else "")


def summary(rows: list[dict[str, Any]], target: str, player: str) -> float:
    """The geometric mean over worlds of the mean over seeds."""
    means = [np.mean(r["ratios"]) for r in rows if (r["target"], r["player"]) == (target, player)]
    return float(np.exp(np.mean(np.log(means))))


def main() -> None:
    """Tiny worlds with their optimum; on demand worlds of the usual sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two tiny worlds, not saved")
    parser.add_argument("--large", action="store_true", help="larger worlds, printed only; hours")
    parser.add_argument("--seeds", type=int, default=200)
    arguments = parser.parse_args()
    if arguments.large:
        rows = []
        for target in TARGETS:
            for env in WORLDS:
                rows += measure(env, target, arguments.seeds)
            for player in [DEFAULT, *PLAYERS]:
                print(f"{target:>14}  {player:<24} {summary(rows, target, player):.3f}", flush=True)
        return
    tiny = []
    for env, target in TINY[:2] if arguments.quick else TINY:
        tiny += measure(env, target, arguments.seeds, exact=True)
    if not arguments.quick:
        means = [
            {name: value for name, value in row.items() if name != "ratios"}
            | {"mean": float(np.mean(row["ratios"])), "error": _error(row["ratios"])}
            for row in tiny
        ]
        _results.write("known_limit", means, reach=REACH, share=SHARE, seeds=arguments.seeds)


if __name__ == "__main__":
    main()
