"""A team of any size in virtual time, on any machine, with exact step times.

It satisfies ``covgame.sources.messages.Team``, so the player is the one that users have. Episodes
are drawn from a model.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

import numpy as np

import covgame as cg
from benchmarks.long_episodes import Simulator
from covgame.episodes import Episode
from covgame.game.presets import default_game
from covgame.mdp.model import TabularMDP
from covgame.sources.environments import make
from covgame.sources.messages import Job, Lost, NewStates, Report
from covgame.sources.simulated import SimulatedSource
from covgame.sources.states import CountedStates
from covgame.sources.stepped import SteppedSource
from covgame.sources.steppers import AbsentStepper, Actions
from covgame.sources.worker import Recipe, Worker
from covgame.targets.target import Target
from covgame.workers.player import TeamPlayer


class VirtualTeam:
    """Workers whose steps take times of mean 1; ``uneven`` is their coefficient of variation."""

    def __init__(
        self,
        model: TabularMDP,
        size: int,
        seed: int,
        uneven: float = 0.5,
        *,
        discovered: bool = False,  # whether workers discover the states
    ) -> None:
        self.source, self.size = SimulatedSource(model, seed), size
        self.workers = [_worker(model, discovered=discovered) for _ in range(size)]
        self.rng, self.shape = np.random.default_rng([seed, 7]), uneven**-2
        self.clock, self.free = 0.0, [0.0] * size
        self.playing: list[tuple[float, int, int, Report]] = []

    def send(self, worker: int, job: Job) -> None:
        report = None
        if job.policy is None:
            report = self.workers[worker].play(job)
            episodes = [one for one in report.outcomes if isinstance(one, Episode)]
        else:
            episodes = [self.source.play(job.policy, ticket) for ticket in job.tickets]
        pace = self.rng.gamma(self.shape, 1 / self.shape, len(episodes))
        took = float(sum(len(one) * factor for one, factor in zip(episodes, pace, strict=True)))
        until = max(self.clock, self.free[worker]) + took
        self.free[worker] = until
        if report is None:
            report = Report(job.number, episodes, NewStates(), (), took)
        else:
            report = replace(report, seconds=took)
        heapq.heappush(self.playing, (until, job.number, worker, report))

    def wait(self, seconds: float) -> Sequence[tuple[int, Report | Lost]]:
        del seconds  # nobody waits
        self.clock, _, worker, report = heapq.heappop(self.playing)
        return [(worker, report)]

    def close(self) -> None:
        """There is nobody to send home."""


def _worker(model: TabularMDP, *, discovered: bool) -> Worker:
    """A worker that plans by itself."""
    horizon, states, _ = model.shape.hsa
    environment = make(Simulator(model), horizon=horizon)
    if discovered:
        return Worker(Recipe(horizon, copied=environment).open())
    source = cast("SteppedSource", environment.open(0))
    return Worker(SteppedSource(source.stepper, CountedStates(states), horizon, 0))


def absent(model: TabularMDP, seed: int) -> SteppedSource:
    """What a player knows of an environment that its workers have."""
    H, S, A = model.shape.hsa
    return SteppedSource(AbsentStepper(Actions(range(A))), CountedStates(S), H, seed)


def episodes_to_cover(
    model: TabularMDP, target: Target, workers: int, seed: int, *, anticipates: bool = True
) -> int:
    """How many episodes so many workers need, with the plans that users get or with naive ones."""
    game = default_game(target, pooled=model.transitions.stationary)
    team = VirtualTeam(model, workers, seed)
    player = TeamPlayer(game, absent(model, seed), None, team, each=1, ahead=0)
    player.in_flight.anticipates = anticipates
    while not game.covered:
        player.play(1_000)
    return game.counts.n_episodes


def discover_and_cover(
    model: TabularMDP, request: str, workers: int, seed: int
) -> tuple[int, float]:
    """Episodes that so many workers need on states to be discovered, and the time, in mean steps.

    Both until everything seen is covered the first time: without the second look.
    """
    horizon = model.shape.horizon
    run = cg.cover(lambda: Simulator(model), request, horizon=horizon, seed=seed, max_episodes=0)
    team = VirtualTeam(model, workers, seed, discovered=True)
    player = TeamPlayer(run.game, run.source, run.growth, team, each=1, ahead=0)
    while not (run.game.counts.n_episodes and run.growth.is_second_look(run.game)):
        player.play(1)
    return run.game.counts.n_episodes, team.clock
