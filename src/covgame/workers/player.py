"""A game played by several workers at once.

A worker that has finished a job gets the next one at once. Where visits change the plan before an
episode is over (``Game.plans_within``), workers plan: each has a copy of the game and is told the
episodes of the others with its next job. Copies prefer different pairs, so that workers do not all
go to the same place. Otherwise the main process plans, on what is counted and on what is expected
of all episodes under way. Episodes are numbered in the order in which they arrive.

Episodes under way at the same time know nothing of each other. Where there is little to do at a
time, as early in a run, they mostly do the same. So their number is limited by a budget of lost
episodes. An episode is lost as far as the visits it was needed for were made by others since its
job was sent. All but one of the episodes under way may turn out to be lost, so there are never more
of them than would use up the budget.
"""

from __future__ import annotations

import math
import pickle
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from covgame.engine.engines import SteppedEngine
from covgame.episodes import Block, Episode, as_block
from covgame.errors import EnvironmentFailed, PremiseBroken, StorageFailed
from covgame.failures import ATTEMPTS, Failure
from covgame.game.game import Game
from covgame.game.growth import Growth
from covgame.game.in_flight import PoliciesInFlight
from covgame.rng import episode_seed
from covgame.sources.messages import GameCopy, Job, Lost, Numbering, Outcome, Report, Stop, Team
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.sources.stepped import STREAM, seed_of_attempt
from covgame.targets.target import Target
from covgame.types import BoolArray, FloatArray, Policy

SITTING = 5
"""The stream of random numbers that gives the workers of every process seeds of their own."""

SECONDS_PER_LOOK = 0.1

MOST_LOST, HALF_LOST = 0.5, 3
"""The share of its episodes that a team may lose: at most the first number, half of it with so many
workers."""


def loss_share(workers: int) -> float:
    """The share of its episodes that a team of so many workers may lose."""
    return MOST_LOST * workers / (workers + HALF_LOST)


MESSAGE = 1e-4
"""Seconds that a job and its report cost over a pipe, both sides together."""

OVERHEAD = 0.05
"""What messages may cost of a worker's time."""

PLANNING_SHARE = 0.4
"""Of the planner's time plans may take so much; what is left is for telling."""

MOST_EACH = 64
SHARE_UNDER_WAY = 0.05
"""Of the episodes so far, so many may be under way: those of one policy teach less than others."""

WEIGHT = 0.1
"""Of the latest measurement in a running mean."""


@dataclass
class _Worker:
    """What the main process knows of a worker."""

    numbering: Numbering
    jobs: deque[Job] = field(default_factory=deque)  # that were sent
    is_current: bool = False  # whether its copy of the game has the same target
    copies: int = 0  # how many copies of the game it was sent
    untold: list[Episode] = field(default_factory=list)  # of others, since its last job


@dataclass
class _Known:
    """What was collected when a job was sent."""

    target: Target
    collected: FloatArray  # (G,)


@dataclass
class _Arrived:
    """A report whose outcomes are still to be told."""

    worker: _Worker
    copies: int  # that the worker had been sent when it played
    job: Job
    known: _Known
    outcomes: deque[Outcome]


class TeamPlayer(SteppedEngine):
    """Sends jobs, and tells the game what comes back.

    Seeds of episodes are keyed by (seed, episodes when this began, ticket), so that none comes
    twice in a run, whatever was lost on the way. ``each`` and ``ahead`` None: as measured.
    """

    def __init__(
        self,
        game: Game,
        source: Source,
        growth: Growth | None,
        team: Team,
        *,
        budget: Callable[[], int] | None = None,  # episodes that may still be told
        each: int | None = None,
        ahead: int | None = None,
        observer: EpisodeObserver = UNOBSERVED,
    ) -> None:
        # Plans for all states and all stages.
        super().__init__(game, source, growth, observer, incremental=False)
        self.team, self.budget = team, budget
        self.each, self.ahead, self.pace = each, ahead, Pace()
        self.seed = episode_seed(source.seed, SITTING, game.counts.n_episodes)
        self.workers_plan = game.plans_within and self.is_compiled
        self.in_flight = PoliciesInFlight(game, self.inner.plan_all)
        self.workers = [_Worker(Numbering(source.states)) for _ in range(team.size)]
        self.pickled: bytes | None = None  # the game, since its target has changed
        self.jobs = self.tickets = 0
        self.known: dict[int, _Known] = {}  # by job
        self.first = game.counts.n_episodes  # that this process tells
        self.lost = 0.0  # episodes since then
        self.inbox: deque[_Arrived] = deque()
        self.held: list[_Arrived] = []  # until the second look is over

    def play(self, episodes: int) -> Block:
        """At most so many episodes as they arrive; fewer after a moment, so that one may look."""
        if self.failure is not None:
            raise self.failure
        first, played = self.game.counts.n_episodes, list[Episode]()
        until = time.monotonic() + SECONDS_PER_LOOK
        try:
            while len(played) < episodes and (not self.is_over() or self.held):
                if not self.inbox:  # plan on all that is known
                    self._hand_out()
                episode = self._next_episode(until)
                if episode is None:
                    break
                played.append(episode)
        except (EnvironmentFailed, StorageFailed, KeyboardInterrupt) as error:
            self.failure = error
        self.is_over()
        return as_block(first, played)

    # ------------------------------------------------------------------------------ sending jobs

    def _hand_out(self) -> None:
        """Give every worker something to do, those without a job first."""
        self.make_room()
        each = self.each or self.pace.episodes_each(self.team.size, self._played())
        ahead = self.ahead
        if ahead is None:
            ahead = 0 if self.workers_plan else self.pace.jobs_ahead(each)
        for queued in range(1 + ahead):
            for number, worker in enumerate(self.workers):
                count = min(each, self._left())
                if len(worker.jobs) == queued and count > 0:
                    self._send(number, self._new_job(count))

    def _played(self) -> int:
        return self.game.counts.n_episodes - self.growth.given

    def _left(self) -> int:
        """Episodes that may be started now."""
        under_way = sum(len(job.tickets) for worker in self.workers for job in worker.jobs)
        told = self.game.counts.n_episodes - self.first
        may_be_lost = max(0.0, loss_share(self.team.size) * told - self.lost)
        most = 1 + int(may_be_lost) - under_way
        if self.budget is None:
            return most
        waiting = [one for arrived in [*self.inbox, *self.held] for one in arrived.outcomes]
        arrived = sum(isinstance(one, Episode) for one in waiting)
        return min(most, self.budget() - under_way - arrived)

    def _new_job(self, episodes: int) -> Job:
        began = time.perf_counter()
        second_look, policy = self.growth.is_second_look(self.game), None
        if not second_look and not self.workers_plan:
            policy = _compact(self.in_flight.plan(self.jobs, episodes))
        tickets = range(self.tickets, self.tickets + episodes)
        at_random = second_look and self.looks_at_random()
        job = Job(self.jobs, self.seed, tickets, policy, second_look, at_random)
        self.jobs, self.tickets = self.jobs + 1, self.tickets + episodes
        self.pace.measure("planning", time.perf_counter() - began)
        return job

    def looks_at_random(self) -> bool:
        """As in one process, counting the episodes under way."""
        look = self.growth.second_look
        sent = [job for worker in self.workers for job in worker.jobs if job.second_look]
        looks = len(sent) + (look.in_vain if look is not None else 0)
        return not (self.workers_plan and self.game.looks_again) or looks % 2 == 1

    def _send(self, number: int, job: Job) -> None:
        """Send a job, with all that this worker has not heard of yet."""
        worker, game = self.workers[number], None
        if self.workers_plan and not worker.is_current:
            # The first worker plans as one process would.
            game = GameCopy(self._pickled_game(), number or None)
            worker.numbering = Numbering(self.source.states)
            worker.untold, worker.is_current = [], True
            worker.copies += 1
        first = worker.numbering.announced
        new = worker.numbering.announce()
        if game is not None:
            worker.numbering.agree()
        told, worker.untold = worker.untold, []
        worker.jobs.append(job)
        self.known[job.number] = _Known(self.game.target, self.game.collected.copy())
        self.team.send(
            number,
            replace(
                job,
                new_states=new,
                masks=self._masks(range(first, first + len(new.keys))),
                avoided={s: sorted(found) for s, found in self.source.masks.avoided.items()},
                game=game,
                told=told,
            ),
        )

    def _masks(self, states: range) -> list[tuple[int, BoolArray]]:
        masks = self.source.masks
        if masks.ever is None:
            return []
        return [(state, masks.ever[state].copy()) for state in states if masks.has_shown(state)]

    def _pickled_game(self) -> bytes:
        if self.pickled is None:
            self.pickled = pickle.dumps(partial(worker_player, self.game), pickle.HIGHEST_PROTOCOL)
        return self.pickled

    def target_changed(self) -> None:
        """Workers need another copy of the game."""
        super().target_changed()
        self.pickled = None
        for worker in self.workers:
            worker.is_current = False

    # -------------------------------------------------------------------------- what comes back

    def _next_episode(self, until: float) -> Episode | None:
        """The next that arrives, counted and written down; None if none does in time."""
        while True:
            while (arrived := self._next_outcome()) is None:
                playing = any(worker.jobs for worker in self.workers)
                if not playing or not self._receive(until - time.monotonic()):
                    return None
            report, outcome = arrived
            if isinstance(outcome, Episode):
                return self._count(report, outcome)
            self._hear_of(outcome)

    def _next_outcome(self) -> tuple[_Arrived, Outcome] | None:
        """What has arrived first; during a second look only its own episodes.

        Which episodes belong to it is not recorded: those that are told while it is due. So
        episodes that do not are told later.
        """
        looking = self.growth.is_second_look(self.game)
        if self.held and not looking:
            self.inbox.extendleft(reversed(self.held))
            self.held.clear()
        while self.inbox:
            arrived = self.inbox.popleft()
            if looking and not arrived.job.second_look:
                self.held.append(arrived)
                continue
            outcome = arrived.outcomes.popleft()
            if arrived.outcomes:
                self.inbox.appendleft(arrived)
            return arrived, outcome
        return None

    def _count(self, arrived: _Arrived, episode: Episode) -> Episode:
        began = time.perf_counter()
        number = self.game.counts.n_episodes
        self.observer.on_episode(self.observer.number_of(number), episode)
        self.tell(episode)
        self._note_loss(arrived, episode)
        self.pickled = None
        self.in_flight.arrive(arrived.job.number, 1)
        for worker in self.workers:
            has_it = worker is arrived.worker and worker.copies == arrived.copies
            if worker.is_current and not has_it:
                worker.untold.append(replace(episode, observations=None))
        self.pace.measure("telling", time.perf_counter() - began)
        return episode

    def _note_loss(self, arrived: _Arrived, episode: Episode) -> None:
        """Note which share of an episode's useful visits others made after its job was sent."""
        target, known = self.game.target, arrived.known
        if arrived.job.second_look or not target.continues(known.target):
            return
        gains = self.game.gains_of(episode.cells(target.shape))
        rows, gain = np.array([*gains], dtype=np.int64), np.array([*gains.values()])
        asked = self.game.asked[rows]
        rows, gain = rows[asked], gain[asked]
        before = np.zeros(len(target))
        before[: len(known.collected)] = known.collected
        before[np.isinf(before)] = 0.0  # rows that were reserved then

        def useful(collected: FloatArray) -> float:
            missing = np.maximum(target.counts[rows] - collected, 0.0)
            return float(np.minimum(gain, missing).sum())

        hoped_for = useful(before[rows])
        if hoped_for > 0:
            self.lost += 1.0 - useful(self.game.collected[rows] - gain) / hoped_for
        before[rows] += gain  # the next episode of the job knows of this one
        known.target, known.collected = target, before

    def _hear_of(self, outcome: Failure | Stop) -> None:
        """Note a failure, as that of the episode that is told next; or stop."""
        number = self.observer.number_of(self.game.counts.n_episodes)
        if isinstance(outcome, Failure):
            failure = replace(outcome, episode=number)
            if failure.then == "set aside":
                self.source.record_failure(failure, self.observer)
            else:
                self.source.end_by_failure(failure, self.observer)
            return
        if outcome.premise:
            raise PremiseBroken(f"the environment failed in episode {number}: {outcome.words}")
        raise EnvironmentFailed(self.source.failures.last.sentence(self.source.names, last=True))

    def _receive(self, seconds: float) -> bool:
        """Take in what comes within so many seconds; False if there was nothing."""
        heard = self.team.wait(seconds)
        for worker, found in heard:
            if isinstance(found, Lost):
                self._begin_again(worker, found)
            else:
                self._take_in(worker, found)
        return bool(heard)

    def _take_in(self, number: int, report: Report) -> None:
        """Number the states of a report, and put it behind those that arrived before."""
        worker = self.workers[number]
        job, numbering = worker.jobs.popleft(), worker.numbering
        known = self.known.pop(job.number)
        numbering.take(report.new_states)
        for state, mask in report.masks:
            self.source.masks.show(int(numbering.of(state)), mask, self.source.shape.states)
        played = sum(isinstance(one, Episode) for one in report.outcomes)
        self.pace.measure("episode", report.seconds / max(1, played))
        if played < len(job.tickets):
            self.in_flight.arrive(job.number, len(job.tickets) - played)
        outcomes = deque(_renumbered(one, numbering) for one in report.outcomes)
        if outcomes:
            self.inbox.append(_Arrived(worker, worker.copies, job, known, outcomes))

    def _begin_again(self, number: int, lost: Lost) -> None:
        """A worker is gone: its job is tried again, what it had queued is sent again."""
        jobs = self.workers[number].jobs
        self.workers[number] = _Worker(Numbering(self.source.states))
        if jobs:
            jobs[0] = self._another_try(jobs[0], lost)
        for job in jobs:
            self._send(number, job)

    def _another_try(self, job: Job, lost: Lost) -> Job:
        number = self.observer.number_of(self.game.counts.n_episodes)
        seed = episode_seed(seed_of_attempt(job.seed, job.attempt), STREAM, job.tickets.start)
        failure = Failure(number, job.attempt, seed, lost.words, (), died=True, placed=False)
        self.source.record_failure(failure, self.observer)
        if job.attempt + 1 >= ATTEMPTS:
            raise EnvironmentFailed(failure.sentence(self.source.names, last=True))
        return replace(job, attempt=job.attempt + 1)


def _renumbered(outcome: Outcome, numbering: Numbering) -> Outcome:
    if isinstance(outcome, Episode):
        return numbering.of_episode(outcome)
    return numbering.of_failure(outcome) if isinstance(outcome, Failure) else outcome


def _compact(policy: Policy) -> Policy:
    """The same in fewer bytes."""
    if policy.is_stochastic:
        return policy
    kind = "uint8" if policy.actions <= 256 else "uint16"
    return replace(policy, table=policy.table.astype(kind))


def worker_player(game: Game, source: Source, preference_seed: int | None) -> PlanningPlayer:
    """The player of a worker, on a copy of the game."""
    game.preference_seed = preference_seed
    return PlanningPlayer(game, source)


class PlanningPlayer(SteppedEngine):
    """Plans and counts on a copy of a game; its target grows in the main process only."""

    def play_episode(self, source: Source, number: int, observer: EpisodeObserver) -> Episode:
        """One episode, which is not counted yet."""
        return source.play(self.next_policy(), number, self.revise, observer)

    def count(self, episode: Episode) -> None:
        """Count an episode, own or not."""
        self.tell(episode)

    @property
    def has_room(self) -> bool:
        """Whether the game has room for all states that an episode can discover."""
        states = self.source.states
        if not states.discovered:
            return True
        return states.size + self.source.shape.horizon < self.game.target.shape.states

    def make_room(self) -> None:
        """The main process does; it sends another copy then."""


@dataclass
class Pace:
    """Seconds that things take, as they were measured: running means."""

    episode: float = 0.0  # of a worker, playing
    planning: float = 0.0  # of who plans, for a job
    telling: float = 0.0  # for an episode
    message: float = MESSAGE

    def measure(self, name: str, seconds: float) -> None:
        """Hear of one more."""
        before = getattr(self, name)
        mean = seconds if not before else before + WEIGHT * (seconds - before)
        setattr(self, name, mean)

    def episodes_each(self, workers: int, played: int) -> int:
        """Of a job: so many that neither messages nor plans hold the workers up."""
        if self.episode <= 0:
            return 1
        for_messages = self.message / (OVERHEAD * self.episode)
        for_plans = workers * self.planning / (PLANNING_SHARE * self.episode)
        wanted = math.ceil(max(for_messages, for_plans) - 1e-9)
        most = min(MOST_EACH, math.floor(SHARE_UNDER_WAY * played / workers))
        return max(1, min(wanted, most))

    def jobs_ahead(self, each: int) -> int:
        """How many jobs wait beside the one being played, so that no worker does."""
        turnaround = self.planning + each * self.telling + self.message
        return 1 if turnaround > OVERHEAD * each * self.episode else 0
