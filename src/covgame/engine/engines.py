"""Engines play the episodes of a task in blocks, and count them.

All have the members of ``Engine``. Which one plays a task is decided in ``runs.loop``:

- ``SteppedEngine`` and ``PolicyEngine`` play an environment step by step, a game or one policy.
- ``SimulatedEngine`` and ``SimulatedPolicyEngine`` play a known model, in compiled code.
- ``CountsEngine`` and ``CountsPolicyEngine`` draw the visits of many episodes of a known model.
- ``BatchEngine`` plans several policies at once (``--play lazy``).
- ``workers.player.TeamPlayer`` is a ``SteppedEngine`` whose episodes are played by workers.

Planning and counting run in compiled code if the planner and the adversary are ours
(``engine.compiled``). Otherwise, and until the code is compiled, the readable game is played; the
episodes are the same.
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from covgame.engine.compiled import CompiledGame, compiled_game, is_compiled
from covgame.episodes import Block, Episode, as_block, joined_blocks
from covgame.errors import EnvironmentFailed, EpisodeFailed, StorageFailed, TooLarge
from covgame.failures import Failure
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.growth import Growth
from covgame.game.in_flight import plan_batch
from covgame.kernels import layout
from covgame.mdp.model import TabularMDP
from covgame.sources.counted import MOST_EPISODES, SortedSuccessors, draw_visits
from covgame.sources.counted import STREAM as COUNTED_STREAM
from covgame.sources.simulated import STREAM, SimulatedSource
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.types import FloatArray, FloatHSA, Policy

SECONDS_PER_POLL = 0.1
"""How often to check for compiled code while readable episodes are played."""

GROWTH = 0.005
"""A round by counts takes this share of the episodes played so far."""

COARSE = 0.05
"""Enough where the reward stays the same, and only what is learnt changes the policy."""

POLICIES = 8
"""A round has so many policies, each planned with the visits that the earlier ones expect."""

ROUNDS = 64
"""So many rounds by counts draw from one stream of random numbers."""

PLANNING_SHARE = 0.2
"""Planning may take this share of the time where batches are planned."""

MOST_EACH = 64
"""A policy of a batch is played for at most so many episodes."""


class Engine(ABC):
    """Plays the episodes of a task and counts them.

    ``failure`` is the error that ended the last block early. ``play`` returns the episodes before
    it, and raises it when it is called again.
    """

    counts: Counts
    failure: EnvironmentFailed | StorageFailed | KeyboardInterrupt | None = None

    @abstractmethod
    def play(self, episodes: int) -> Block:
        """Play at most so many episodes, fewer if the task is over before."""

    def replay(self, episode: Episode, *, avoided: Failure | None = None) -> None:
        """Count a recorded episode as if it were played now.

        Args:
            episode: The episode.
            avoided: The failure that ended it, if its action was avoided from then on.
        """
        raise NotImplementedError


# ------------------------------------------------------------------------------- step by step


class EpisodeEngine(Engine):
    """Plays one episode after the other; it tries again where that makes sense."""

    def __init__(self, source: Source, observer: EpisodeObserver = UNOBSERVED) -> None:
        self.source, self.observer = source, observer

    @abstractmethod
    def play_once(self, number: int) -> Episode:
        """Play the episode with this number."""

    @abstractmethod
    def tell(self, episode: Episode) -> None:
        """Count an episode."""

    def abandon(self) -> None:
        """Forget an episode that will not be counted."""
        return

    def is_over(self) -> bool:
        """Whether nothing is left to play; looks at the last episode."""
        return False

    def play(self, episodes: int) -> Block:
        if self.failure is not None:
            raise self.failure
        first, played = self.counts.n_episodes, list[Episode]()
        while len(played) < episodes and not self.is_over():
            number = self.counts.n_episodes
            try:
                episode = self.play_once(number)
            except EpisodeFailed:
                self.abandon()
                continue
            except (EnvironmentFailed, StorageFailed, KeyboardInterrupt) as error:
                self.failure = error
                self.abandon()
                break
            self.tell(episode)
            played.append(episode)
        self.is_over()  # a covered target may have to grow
        return as_block(first, played)


class PolicyEngine(EpisodeEngine):
    """Plays one policy on an environment."""

    def __init__(
        self,
        policy: Policy,
        counts: Counts,
        source: Source,
        observer: EpisodeObserver = UNOBSERVED,
    ) -> None:
        super().__init__(source, observer)
        self.policy, self.counts = policy, counts

    def play_once(self, number: int) -> Episode:
        return self.source.play(self.policy, number, None, self.observer)

    def tell(self, episode: Episode) -> None:
        self.counts.add(episode)

    def replay(self, episode: Episode, *, avoided: Failure | None = None) -> None:
        if avoided is not None:
            self.source.avoid(avoided)
        self.counts.add(episode)


class SteppedEngine(EpisodeEngine):
    """Plays a game on an environment; the target may grow with the states that are discovered.

    Args:
        game: The game.
        source: The environment.
        growth: How the target changes.
        observer: Receives every episode as soon as it is over, and the failures.
        incremental: Whether compiled code keeps the plan from step to step.
    """

    def __init__(
        self,
        game: Game,
        source: Source,
        growth: Growth | None = None,
        observer: EpisodeObserver = UNOBSERVED,
        *,
        incremental: bool = True,
    ) -> None:
        super().__init__(source, observer)
        self.game, self.counts = game, game.counts
        self.growth = growth or Growth()
        self.growth.begin(game)
        game.looks_again |= self.growth.looks_again and game.revising is not None
        game.has_reserve |= self.growth.reserves(game)
        self.inner = compiled_game(game, incremental=incremental)
        self.discovered: set[int] = set()  # states whose rows are asked for
        self.is_looking: bool | None = None  # whether the episode being played is a second look
        self.n_avoided = source.masks.n_avoided if growth and growth.avoided is not None else 0

    def play_once(self, number: int) -> Episode:
        self.make_room()
        self.is_looking = self.growth.is_second_look(self.game)
        if self.is_looking and self.looks_at_random():
            policy = Policy.uniform(self.game.target.shape)
            return self.source.play(policy, number, None, self.observer)
        return self.source.play(self.next_policy(), number, self.revise, self.observer)

    def looks_at_random(self) -> bool:
        """Every other episode of a second look has random actions, the others are planned."""
        look = self.growth.second_look
        return not self.game.looks_again or (look is not None and look.in_vain % 2 == 1)

    def replay(self, episode: Episode, *, avoided: Failure | None = None) -> None:
        self.is_over()  # as before playing: given data are a part of the target
        if avoided is not None:
            self._discover_all(episode)  # before the failure
            self.source.avoid(avoided)
        self.tell(episode)
        self.is_over()  # the target grows when it did

    def is_over(self) -> bool:
        """Whether all is covered, what was seen last included, and a second look found nothing."""
        if self.source.masks.n_avoided != self.n_avoided:
            self.n_avoided = self.source.masks.n_avoided
            self.growth.avoid(self.source.masks.as_array(self.source.shape.states))
        if self.growth.update(self.game, self.source.allowed):
            self.target_changed()
        return self.counts.n_episodes > 0 and self.growth.is_over(self.game)

    def next_policy(self) -> Policy:
        """The policy to play next; the first state of an episode may be a new one."""
        policy = self.inner.ask()

        def start(state: int) -> Policy:
            self._discover(state)
            return policy.begin(state)

        return replace(policy, on_start=start)

    def revise(self, cell: int, successor: int) -> Policy | None:
        """Note a step, and a state that is seen for the first time."""
        self._discover(successor)
        return self.inner.revise(cell, successor)

    def _discover(self, state: int) -> None:
        """Ask for what is reserved for a state, in the step in which it is seen."""
        if state in self.discovered or not self.game.has_reserve:
            return
        self.discovered.add(state)
        if self.source.masks.ever is not None and self.game.reserved_rows(state):
            self.game.allow_in(state, self.source.masks.ever[state])
        self.inner.discover(state)

    def abandon(self) -> None:
        """Forget an episode that will not be counted, and the states that it discovered."""
        self.discovered.clear()
        self.is_looking = None
        self.inner.abandon()

    def make_room(self) -> None:
        """Make room for all states that the next episode can show."""
        room = self.source.shape.states
        if room > self.game.target.shape.states:
            self.growth.make_room(self.game, room, self.source.allowed)
            self.target_changed()

    @property
    def is_compiled(self) -> bool:
        """Whether planning and counting run in compiled code, as soon as there is any."""
        return isinstance(self.inner, CompiledGame)

    def plan_all(self, weights: FloatArray) -> Policy:
        """A plan for all states and stages and rows with these weights, between episodes."""
        return compiled_game(self.game, incremental=False).plan_all(weights)

    def target_changed(self) -> None:
        """Have plans made for the target as it is now."""
        if isinstance(self.inner, CompiledGame):
            self.inner.bind()

    def tell(self, episode: Episode) -> None:
        """Count an episode; the game tells whether a recorded one belongs to a second look."""
        looking, self.is_looking = self.is_looking, None
        if looking is None:
            looking = self.growth.is_second_look(self.game)
        if looking and self.growth.second_look is not None:
            self.growth.second_look.play()
        self._discover_all(episode)
        self.inner.tell(episode)
        self.growth.hear(self.game, episode)

    def _discover_all(self, episode: Episode) -> None:
        self.make_room()
        for state in episode.state.tolist():
            self._discover(state)


class BatchEngine(Engine):
    """Plans several policies, plays each for a few episodes, then counts them all.

    Args:
        game: The game.
        source: Plays the episodes.
        observer: Receives every episode as soon as it is over, and the failures.
        policies: Policies of a batch.
        each: Episodes of each policy. Left out, it follows from what planning and playing cost, so
            that planning takes about a fifth of the time; it is 1 where planning is cheap.
    """

    def __init__(
        self,
        game: Game,
        source: Source,
        observer: EpisodeObserver = UNOBSERVED,
        *,
        policies: int = POLICIES,
        each: int | None = None,
    ) -> None:
        self.game, self.counts, self.source, self.observer = game, game.counts, source, observer
        self.policies, self.each, self.is_measured = policies, each or 1, each is None
        self.inner = compiled_game(game, incremental=False)
        self.planning = self.playing = 0.0  # seconds per policy and per episode, added up

    def play(self, episodes: int) -> Block:
        """Play one batch of at most so many episodes."""
        if self.failure is not None:
            raise self.failure
        first, played = self.counts.n_episodes, list[Episode]()
        each = min(self.each, episodes)
        policies = max(1, min(self.policies, episodes // each))
        began = time.perf_counter()
        batch = plan_batch(self.game, policies, each, self.inner.plan_all)
        planned = time.perf_counter()
        try:
            for policy in batch:
                for _ in range(each):
                    played.append(self._play_once(policy, first + len(played)))
        except (EnvironmentFailed, StorageFailed, KeyboardInterrupt) as error:
            self.failure = error
        self._measure(planned - began, time.perf_counter() - planned, len(played))
        for episode in played:
            self.inner.tell(episode)
        return as_block(first, played)

    def _play_once(self, policy: Policy, number: int) -> Episode:
        while True:
            with contextlib.suppress(EpisodeFailed):  # tried again
                return self.source.play(policy, number, None, self.observer)

    def _measure(self, planning: float, playing: float, episodes: int) -> None:
        """Choose how many episodes a policy is played for."""
        self.planning += planning / self.policies
        self.playing += playing / max(1, episodes)
        if self.is_measured and self.playing > 0:
            share = (1 - PLANNING_SHARE) / PLANNING_SHARE
            wanted = self.planning / self.playing * share
            self.each = max(1, min(MOST_EACH, math.ceil(wanted - 1e-9)))


# ------------------------------------------------------------------------------ known models


class SimulatedEngine(Engine):
    """Plays a game on a known model, in compiled code where the players are ours.

    Args:
        game: The game.
        source: The model and the seed.
        growth: How the target changes.
        most: Episodes of a block at most.
        record: Whether blocks contain the steps.
        incremental: Whether plans are kept from episode to episode; the episodes are the same.
        waits: Whether to compile in this process, instead of playing the readable game meanwhile.
    """

    def __init__(
        self,
        game: Game,
        source: SimulatedSource,
        growth: Growth | None = None,
        *,
        most: int,
        record: bool,
        incremental: bool = True,
        waits: bool | None = None,
    ) -> None:
        self.game, self.counts, self.source, self.growth = game, game.counts, source, growth
        self.most = most
        if growth is not None:
            growth.begin(game)
        self.compiled = None
        if is_compiled(game):
            self.compiled = CompiledSimulation(
                game, source, most, record=record, incremental=incremental, waits=waits
            )

    def play(self, episodes: int) -> Block:
        """Play at most so many episodes, fewer if the target is covered or they take long."""
        first, episodes = self.counts.n_episodes, min(episodes, self.most)
        if self.growth is None:
            return self._play_block(episodes)
        blocks: list[Block] = []
        self._update(self.growth)
        while (left := first + episodes - self.counts.n_episodes) > 0:
            if self.game.covered and self.counts.n_episodes:
                break
            due = self.growth.next_growth - self.counts.n_episodes
            blocks.append(self._play_block(min(left, max(1, due))))
            self._update(self.growth)
        return joined_blocks(first, blocks)

    def _play_block(self, episodes: int) -> Block:
        if self.compiled is not None and self.compiled.poll_compiler():
            return self.compiled.play(episodes)
        return self._play_readably(episodes)

    def _update(self, growth: Growth) -> None:
        if growth.update(self.game, self.game.allowed) and self.compiled is not None:
            self.compiled.bind()

    def _play_readably(self, episodes: int) -> Block:
        """The same episodes as compiled code plays, fewer if they take long."""
        game, first = self.game, self.counts.n_episodes
        played: list[Episode] = []
        until = time.monotonic() + SECONDS_PER_POLL
        while not game.covered and len(played) < episodes and time.monotonic() < until:
            episode = self.source.play(game.ask(), game.counts.n_episodes, game.revise)
            played.append(game.tell(episode).episode)
        return as_block(first, played)


class CompiledSimulation(CompiledGame):
    """Whole blocks of episodes of a known model in compiled code."""

    def __init__(
        self,
        game: Game,
        source: SimulatedSource,
        most: int,
        *,
        record: bool,
        incremental: bool = True,
        waits: bool | None = None,
    ) -> None:
        self.source, self.is_recording = source, record
        self.record = layout.new_record(most, most * game.target.shape.horizon if record else 0)
        self.world = world_arrays(source.model)
        super().__init__(game, incremental=incremental, waits=waits)

    def _calls(self) -> list[tuple[Any, Sequence[Any]]]:
        return [
            (self.tables_kernel.refresh, [self.learnt]),
            (self.kernel.play_block, self._to_play(0)),
        ]

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target or memory has to grow."""
        counts, cache = self.game.counts, self.plan_cache
        if cache is None or cache.tally[layout.EPISODE] != counts.n_episodes:
            self.tables_kernel.refresh(self.learnt)  # episodes were counted elsewhere
            self.start_plan()
        play_block: Any = self.kernel.play_block
        why, played, steps = play_block(*self._to_play(episodes))
        self.put_back()
        first = counts.n_episodes
        counts.n_episodes += played
        if why == layout.POOL_FULL:
            self.make_room()
        return recorded_block(self.record, first, played, steps if self.is_recording else 0)

    def _to_play(self, episodes: int) -> Sequence[Any]:
        return (
            episodes, self.game.counts.n_episodes, self.source.seed, STREAM,
            self.world, self.learnt, self.wanted, self.weighing, self.workspace, self.plan_cache,
            self.optimism, self.paper, self.majority, self.missing_only,
            self.game.learns_within, self.record, self.is_recording,
        )  # fmt: skip


class SimulatedPolicyEngine(Engine):
    """Plays one policy on a known model in compiled code: the episodes of ``SimulatedSource``."""

    def __init__(
        self, policy: Policy, counts: Counts, source: SimulatedSource, *, most: int, record: bool
    ) -> None:
        self.counts, self.source = counts, source
        self.most, self.returns_steps = most, record
        self.is_recording = record or counts.payments is not None
        steps = most * counts.shape.horizon if self.is_recording else 0
        self.record = layout.new_record(most, steps)
        self.world = world_arrays(source.model)
        self.workspace = layout.new_workspace(counts)
        self.curious: Any = None  # what compiled code plans anew before every episode
        self.mixed: Any = None  # policies of which it draws one before every episode
        self.goals: Any = None  # or where it wants to go
        self.change(policy)
        self._bind()

    def change(self, policy: Policy) -> None:
        """Play another policy from now on."""
        self.chances: FloatHSA | None = None
        self.curious = self.mixed = None
        if policy.is_stochastic:
            self.chances = np.ascontiguousarray(policy.table, dtype=np.float64)
        else:
            self.workspace.chosen[:] = policy.table

    def _bind(self) -> None:
        from covgame.kernels.tables import refresh

        self.learnt = layout.count_arrays(self.counts)
        refresh(self.learnt)

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if memory has to grow."""
        from covgame.kernels import policies as kernel

        first = self.counts.n_episodes
        play_policy: Any = kernel.play_policy
        why, played, steps = play_policy(
            min(episodes, self.most), first, self.source.seed, STREAM, self.chances, self.curious,
            self.mixed, self.goals, self.world, self.learnt, self.workspace, self.record,
            self.is_recording,
        )  # fmt: skip
        tables = (self.counts.table, self.counts.pool)
        for table, used in zip(tables, (self.learnt.used, self.learnt.pool_used), strict=True):
            if table is not None:
                table.used = int(used[0])
                if why == layout.POOL_FULL:
                    table.make_room(len(table.entries) + 1)
        self.counts.n_episodes += played
        if why == layout.POOL_FULL:
            self._bind()
        if self.counts.payments is not None:
            self.counts.pay(recorded_block(self.record, first, played, steps))
        return recorded_block(self.record, first, played, steps if self.returns_steps else 0)


def recorded_block(record: layout.Record, first: int, played: int, steps: int) -> Block:
    """What compiled code has written on a record."""
    lengths, state, action, reward, next_state = record
    return Block(
        first,
        lengths[:played].copy(),
        state[:steps].copy(),
        action[:steps].copy(),
        reward[:steps].copy(),
        next_state[:steps].copy(),
    )


def world_arrays(model: TabularMDP) -> layout.World:
    """A model as compiled code takes it."""
    return layout.World(
        initial=model.initial,
        start=model.transitions.start,
        next_state=model.transitions.next_state,
        probability=model.transitions.probability,
        rewards=model.stage_rewards,
        stationary=model.transitions.stationary,
    )


# ---------------------------------------------------------------------------------- by counts


class CountsEngine(Engine):
    """Plays a game on a known model in rounds that grow with the run, by their visits alone.

    A round holds several policies, each planned with the visits that the earlier ones expect, and
    takes the share ``growth`` of the episodes played so far.
    """

    def __init__(self, game: Game, model: TabularMDP, seed: int, growth: float = GROWTH) -> None:
        successors = SortedSuccessors(model)
        start, next_state, probability = successors.rows
        for table in filter(None, (game.counts.table, game.counts.pool)):
            # A row that moves to twice the room as it grows takes up to four times its size.
            stages = model.shape.horizon if model.transitions.stationary else 1
            table.make_room(4 * stages * len(next_state) + 2 * len(table))
        self.game, self.counts, self.seed, self.growth = game, game.counts, seed, growth
        self.compiled = CompiledGame(game, incremental=False, waits=True)
        first_state, first_probability = successors.first
        self.world = layout.SortedSuccessors(
            first_state=first_state,
            first_probability=first_probability,
            start=start,
            next_state=next_state,
            probability=probability,
            rewards=model.stage_rewards,
            stationary=model.transitions.stationary,
        )
        states, rows = model.shape.states, len(game.target)
        self.batch = layout.Batch(
            policies=np.zeros((POLICIES, *model.shape.hs), dtype=np.int64),
            present=np.zeros(states, dtype=np.int64),
            arriving=np.zeros(states, dtype=np.int64),
            mass=np.zeros(states),
            arriving_mass=np.zeros(states),
            gains=np.zeros(rows),
            anticipated=np.zeros(rows),
            weights=np.zeros(rows),
            memory=np.zeros(5),
        )

    def play(self, episodes: int) -> Block:
        """Some rounds, of at most so many episodes in all; their steps do not exist."""
        from covgame.kernels import by_counts as kernel

        counts, mine = self.counts, self.compiled
        first = counts.n_episodes
        rng = np.random.default_rng([self.seed, COUNTED_STREAM, first])
        play_counted: Any = kernel.play_counted
        why, played = play_counted(
            ROUNDS, episodes, MOST_EPISODES, self.growth, first, rng,
            self.world, mine.learnt, mine.wanted, mine.weighing, mine.workspace, self.batch,
            mine.optimism, mine.paper, mine.majority, mine.missing_only,
        )  # fmt: skip
        mine.put_back()
        counts.n_episodes += played
        if why == layout.TOO_MANY:
            raise TooLarge("this takes more than 2^62 episodes, more than 64-bit counts can hold")
        return as_block(first, [])


class CountsPolicyEngine(Engine):
    """Draws the visits of all episodes of one policy at once."""

    def __init__(self, policy: Policy, counts: Counts, model: TabularMDP, seed: int) -> None:
        self.policy, self.counts, self.seed = policy, counts, seed
        self.successors = SortedSuccessors(model)

    def play(self, episodes: int) -> Block:
        """So many episodes; their steps do not exist."""
        first = self.counts.n_episodes
        rng = np.random.default_rng([self.seed, COUNTED_STREAM, first])
        paid = self.counts.payments is not None
        self.counts.add_visits(draw_visits(self.successors, self.policy, episodes, rng, paid=paid))
        return as_block(first, [])
