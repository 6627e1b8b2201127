"""A game played by several workers at once; nobody waits for the slowest.

Whoever has finished gets the next policy, planned on what is counted and on what is expected of
everybody still playing. Episodes are numbered in the order in which they arrive.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

from covgame.episodes import Block, Episode, as_block
from covgame.errors import EnvironmentFailed, PremiseBroken, StorageFailed
from covgame.failures import ATTEMPTS, Failure
from covgame.game.batches import UnderWay
from covgame.game.game import Game
from covgame.game.growth import Growth
from covgame.players.compiled import inner_game
from covgame.players.stepped import SteppedPlayer, anything
from covgame.rng import episode_seed
from covgame.sources.external import STREAM, ExternalSource, seed_of_attempt
from covgame.sources.states import DiscoveredStates
from covgame.types import Policy
from covgame.workers.desk import renumbered
from covgame.workers.jobs import Job, Lost, News, Outcome, Report, Stop, Team
from covgame.workers.sizing import Pace

SITTING = 5
"""The stream of random numbers that gives the workers of every process seeds of their own."""

SECONDS_PER_LOOK = 0.1


@dataclass
class _Flight:
    """A job that was handed over."""

    job: Job
    by_chance: bool


class TeamPlayer(SteppedPlayer):
    """Plans, hands out, tells the game what comes back.

    Seeds of episodes are keyed by (seed, episodes when this began, ticket), so that none comes
    twice in a run, whatever was lost on the way. ``each`` and ``ahead`` None: as measured.
    """

    def __init__(
        self,
        game: Game,
        source: ExternalSource,
        growth: Growth | None,
        team: Team,
        *,
        budget: Callable[[], int] | None = None,  # episodes that may still be told
        each: int | None = None,
        ahead: int | None = None,
    ) -> None:
        super().__init__(game, source, growth, inner_game(game))  # plans for all states, all stages
        self.team, self.budget = team, budget
        self.each, self.ahead, self.pace = each, ahead, Pace()
        self.seed = episode_seed(source.seed, SITTING, game.counts.n_episodes)
        self.under_way = UnderWay(game, self.inner.plan)
        self.assigned: list[deque[_Flight]] = [deque() for _ in range(team.size)]
        self.known = [0] * team.size  # states that workers know
        self.jobs = self.tickets = 0
        self.inbox: deque[tuple[_Flight, deque[Outcome]]] = deque()
        self.held: list[tuple[_Flight, deque[Outcome]]] = []  # until chance has had its share

    def play(self, episodes: int) -> Block:
        """At most so many episodes as they arrive; fewer after a moment, so that one may look."""
        if self.failure is not None:
            raise self.failure
        first, played = self.game.counts.n_episodes, list[Episode]()
        until = time.monotonic() + SECONDS_PER_LOOK
        try:
            while len(played) < episodes and (not self._over() or self.held):
                if not self.inbox:  # plan on all that is known
                    self._hand_out()
                episode = self._next_episode(until)
                if episode is None:
                    break
                played.append(episode)
        except (EnvironmentFailed, StorageFailed, KeyboardInterrupt) as error:
            self.failure = error
        self._over()
        return as_block(first, played)

    def close(self) -> None:
        """Send the workers home."""
        self.team.close()

    # ------------------------------------------------------------------------------ handing out

    def _hand_out(self) -> None:
        """Give everybody something to do, those who have nothing first."""
        each = self.each or self.pace.episodes_each(self.team.size, self._played())
        ahead = self.pace.jobs_ahead(each) if self.ahead is None else self.ahead
        for queued in range(1 + ahead):
            for worker, jobs in enumerate(self.assigned):
                count = min(each, self._left())
                if len(jobs) == queued and count > 0:
                    self._send(worker, self._plan(count))

    def _played(self) -> int:
        return self.game.counts.n_episodes - self.growth.given

    def _left(self) -> int:
        """Episodes that may still be handed out."""
        if self.budget is None:
            return 2**62
        under_way = sum(len(one.job.tickets) for jobs in self.assigned for one in jobs)
        arrived = sum(
            isinstance(one, Episode) for _, rest in [*self.inbox, *self.held] for one in rest
        )
        return self.budget() - under_way - arrived

    def _plan(self, episodes: int) -> _Flight:
        began = time.perf_counter()
        by_chance = self.growth.leaves_to_chance(self.game)
        if by_chance:
            policy = anything(self.game.target.shape)
        else:
            policy = self.under_way.plan(self.jobs, episodes)
        tickets = range(self.tickets, self.tickets + episodes)
        job = Job(self.jobs, self.seed, tickets, policy, avoided=self._avoided())
        self.jobs, self.tickets = self.jobs + 1, self.tickets + episodes
        self.pace.measure("planning", time.perf_counter() - began)
        return _Flight(job, by_chance)

    def _avoided(self) -> dict[int, list[int]]:
        return {state: sorted(actions) for state, actions in self.source.masks.avoided.items()}

    def _send(self, worker: int, flight: _Flight) -> None:
        """Hand a job over, with the states that this worker has not heard of yet."""
        states, first = self.source.states, self.known[worker]
        news = News()
        if isinstance(states, DiscoveredStates):
            news = News(first, states.keys[first:], states.labels[first:])
            self.known[worker] = states.size
        self.assigned[worker].append(flight)
        job = flight.job
        self.team.send(worker, replace(job, news=news, policy=_compact(job.policy)))

    # -------------------------------------------------------------------------- what comes back

    def _next_episode(self, until: float) -> Episode | None:
        """The next that arrives, counted and written down; None if none does in time."""
        while True:
            while (arrived := self._next_outcome()) is None:
                if not any(self.assigned) or not self._receive(until - time.monotonic()):
                    return None
            flight, outcome = arrived
            if isinstance(outcome, Episode):
                return self._count(flight, outcome)
            self._hear_of(outcome)

    def _next_outcome(self) -> tuple[_Flight, Outcome] | None:
        """What has arrived first; of what was planned nothing while it is chance's turn.

        Whether an episode was left to chance is not recorded: it is, if it was chance's turn when
        it was told. So those that were not are told later.
        """
        chances_turn = self.growth.leaves_to_chance(self.game)
        if self.held and not chances_turn:
            self.inbox.extendleft(reversed(self.held))
            self.held.clear()
        while self.inbox:
            flight, rest = self.inbox.popleft()
            if chances_turn and not flight.by_chance:
                self.held.append((flight, rest))
                continue
            outcome = rest.popleft()
            if rest:
                self.inbox.appendleft((flight, rest))
            return flight, outcome
        return None

    def _count(self, flight: _Flight, episode: Episode) -> Episode:
        began = time.perf_counter()
        number = self.game.counts.n_episodes
        if self.note is not None:
            self.note(number, episode)
        self._tell(episode)
        self.under_way.arrive(flight.job.number, 1)
        self.pace.measure("telling", time.perf_counter() - began)
        return episode

    def _hear_of(self, outcome: Failure | Stop) -> None:
        """Note a failure, as that of the episode that is told next; or stop."""
        number = self.source.number_of(self.game.counts.n_episodes)
        if isinstance(outcome, Failure):
            failure = replace(outcome, episode=number)
            if failure.then == "set aside":
                self.source.set_aside(failure)
            else:
                self.source.take_for_an_end(failure)
            return
        if outcome.premise:
            raise PremiseBroken(f"the environment failed in episode {number}: {outcome.words}")
        raise EnvironmentFailed(self.source.in_words(self.source.failures.last, last=True))

    def _receive(self, seconds: float) -> bool:
        """Take in what comes within so many seconds; False if there was nothing."""
        heard = self.team.wait(seconds)
        for worker, found in heard:
            if isinstance(found, Lost):
                self._begin_again(worker, found)
            else:
                self._take_in(worker, found)
        return bool(heard)

    def _take_in(self, worker: int, report: Report) -> None:
        """Number the states that a report brings, and put it with those that arrived before."""
        flight, states = self.assigned[worker].popleft(), self.source.states
        numbers: list[int] = []
        if isinstance(states, DiscoveredStates):
            news = zip(report.keys, report.labels, strict=True)
            numbers = [states.number_of_key(key, label) for key, label in news]
        for state, mask in report.masks:
            new = state >= report.known
            number = numbers[state - report.known] if new else state
            self.source.masks.show(number, mask, self.source.shape.states)
        self.pace.measure("episode", report.seconds / max(1, len(flight.job.tickets)))
        outcomes = renumbered(report, numbers)
        self.inbox.append((flight, deque(outcomes)))

    def _begin_again(self, worker: int, lost: Lost) -> None:
        """A worker is gone: what it was playing is tried again, what it had queued is played."""
        flights, self.assigned[worker] = self.assigned[worker], deque()
        self.known[worker] = 0
        if flights:
            flights[0] = self._another_try(flights[0], lost)
        for flight in flights:
            self._send(worker, flight)

    def _another_try(self, flight: _Flight, lost: Lost) -> _Flight:
        job = flight.job
        number = self.source.number_of(self.game.counts.n_episodes)
        seed = episode_seed(seed_of_attempt(job.seed, job.attempt), STREAM, job.tickets.start)
        failure = Failure(number, job.attempt, seed, lost.words, (), died=True, placed=False)
        self.source.set_aside(failure)
        if job.attempt + 1 >= ATTEMPTS:
            raise EnvironmentFailed(self.source.in_words(failure, last=True))
        return _Flight(replace(job, attempt=job.attempt + 1), flight.by_chance)


def _compact(policy: Policy) -> Policy:
    """The same in fewer bytes."""
    if policy.is_stochastic:
        return policy
    kind = "uint8" if policy.actions <= 256 else "uint16"
    return replace(policy, table=policy.table.astype(kind))
