"""Plays the peers on a known model, all by the same compiled episodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from covgame.baselines.curiosity import Curiosity
from covgame.baselines.gosprl import CLOSE, MOST_ROUNDS, NearestGoal
from covgame.baselines.nearest_untried import NearestUntried
from covgame.baselines.peer import Mixture, Peer, Rollout
from covgame.engine.engines import SimulatedEngine, SimulatedPolicyEngine
from covgame.episodes import Block, Episode, as_block
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.kernels import layout
from covgame.sources.simulated import SimulatedSource
from covgame.targets.target import Target
from covgame.types import IntArray, Policy

BLOCK = 512


class Player(Protocol):
    """Whoever collects episodes."""

    counts: Counts

    @property
    def finished(self) -> bool:
        """Whether it has all it was sent for; never, if it was not told."""
        ...

    def play(self, episodes: int) -> Block:
        """At least one episode and at most so many."""
        ...


class PeerPlayer(SimulatedPolicyEngine):
    """Asks a peer and plays what it says; ``tests/reference/peers.py`` has it in plain Python."""

    finished = False

    def __init__(self, peer: Peer, counts: Counts, source: SimulatedSource) -> None:
        super().__init__(Policy.uniform(counts.shape), counts, source, most=BLOCK, record=True)
        self.peer, self.left = peer, 0
        self.rollout = Rollout(Policy.uniform(counts.shape))

    def play(self, episodes: int) -> Block:
        if not self.left:
            self.rollout = self.peer.ask(self.counts)
            self.left = self.rollout.episodes
            if isinstance(self.rollout.plan, Policy):
                self.change(self.rollout.plan)
            elif isinstance(self.rollout.plan, Mixture):
                self._mix(self.rollout.plan)
        most = min(episodes, self.left, self.most)
        if isinstance(self.rollout.plan, Curiosity):
            self._plan_for_bonus(self.rollout.plan, self.counts.n_episodes + most)
        block = super().play(most)
        self.left -= len(block)
        return block if len(block) else self.play(episodes)

    def _mix(self, mixture: Mixture) -> None:
        """Have compiled code draw a policy before every episode."""
        uniform = np.full(self.counts.shape.actions, 1.0 / self.counts.shape.actions)
        self.chances = self.curious = None
        self.mixed = layout.Mixed(
            tables=mixture.tables, uniform=uniform, seed=mixture.seed, stream=mixture.stream
        )

    def _plan_for_bonus(self, curiosity: Curiosity, episodes: int) -> None:
        """Have compiled code plan before every episode, until so many are played in all."""
        shape = self.counts.shape
        most = episodes * (shape.horizon if curiosity.per_pair else 1)
        bonus, width, variance_scale = curiosity.listed(most)
        reward = np.zeros(shape.hsa) if curiosity.reward is None else curiosity.reward
        offset = -1.0 if curiosity.log_offset is None else curiosity.log_offset
        together = np.zeros((shape.states, shape.actions), dtype=np.int64)
        self.chances = self.mixed = None
        self.curious = layout.Curious(
            bonus=bonus,
            width=width,
            variance_scale=variance_scale,
            caps=curiosity.caps,
            reward=reward.reshape(shape.horizon, -1),
            slope=curiosity.slope,
            learns_rewards=curiosity.learns_rewards,
            log_offset=offset,
            per_pair=curiosity.per_pair,
            replans=curiosity.replans,
            clips=curiosity.clips,
            pair_visits=together,
            flat_pair_visits=together.reshape(-1),
            pair_sums=np.zeros(shape.pairs),
        )


class GamesPlayer:
    """Plays games one after the other, each until it is covered, in compiled code."""

    def __init__(self, games: Iterator[Game], source: SimulatedSource) -> None:
        self.games, self.source = games, source
        self.player: SimulatedEngine | None = None
        self._next_game()

    def _next_game(self) -> None:
        for game in self.games:
            self.counts = game.counts
            if not game.covered:
                self.player = SimulatedEngine(
                    game, self.source, most=BLOCK, record=True, waits=True
                )
                return
        self.player = None

    @property
    def finished(self) -> bool:
        return self.player is None

    def play(self, episodes: int) -> Block:
        if self.player is None:
            raise ValueError("all games are covered")
        block = self.player.play(episodes)
        if self.player.game.covered:
            self._next_game()
        return block if len(block) or self.finished else self.play(episodes)


class GoalsPlayer(SimulatedPolicyEngine):
    """Plays GOSPRL's game; ``tests/reference/peers.py`` has it in plain Python."""

    def __init__(
        self, game: Game, planner: NearestGoal, source: SimulatedSource, *, replans: bool
    ) -> None:
        uniform = Policy.uniform(game.target.shape)
        super().__init__(uniform, game.counts, source, most=BLOCK, record=True)
        self.game, target, shape = game, game.target, game.target.shape
        self.chances = None
        goals = target.cell_rewards(game.state.weights).reshape(-1) > 0
        cell_start, cell_row = target.by_cell
        self.goals = layout.Goals(
            counts=target.counts,
            collected=game.collected,
            any_stage=target.any_stage,
            row_start=layout.row_starts(target.members.row, len(target)),
            row_cell=target.members.cell,
            cell_start=cell_start,
            cell_row=cell_row,
            by_stage=goals.reshape(shape.horizon, -1),
            by_cell=goals,
            values=np.zeros((2, 2, shape.states + 1)),
            paths=np.zeros((2, shape.pairs)),
            unions=planner.unions(self.counts),
            b=planner.b,
            most_rounds=MOST_ROUNDS,
            close=CLOSE,
            replans=replans,
        )

    @property
    def finished(self) -> bool:
        return self.game.covered

    def play(self, episodes: int) -> Block:
        block = super().play(episodes)
        return block if len(block) or self.finished else super().play(episodes)


class RoundsPlayer:
    """Plays a game with a planner of its own, asked before every episode."""

    def __init__(self, game: Game, source: SimulatedSource) -> None:
        self.game, self.counts, self.source = game, game.counts, source
        uniform = Policy.uniform(game.target.shape)
        self.compiled = SimulatedPolicyEngine(uniform, game.counts, source, most=1, record=True)

    @property
    def finished(self) -> bool:
        return self.game.covered

    def play(self, episodes: int) -> Block:
        """One episode; step by step where the policy may change on the way."""
        del episodes
        if self.game.target.most_per_episode > 1:
            first = self.counts.n_episodes
            episode = self.source.play(self.game.ask(), first, self.game.revise)
            self.game.tell(episode)
            return as_block(first, [episode])
        self.compiled.change(self.game.ask())
        block = self.compiled.play(1)
        if not len(block):
            block = self.compiled.play(1)  # memory had to grow
        pairs = block.state * self.counts.shape.actions + block.action
        self.game.tell_cells((np.arange(len(pairs)) * self.counts.shape.pairs + pairs).tolist())
        return block


class ExplorerPlayer:
    """Plays an explorer that chooses each action when it is due."""

    def __init__(self, explorer: NearestUntried, source: SimulatedSource) -> None:
        self.explorer, self.counts, self.source = explorer, explorer.counts, source

    @property
    def finished(self) -> bool:
        return self.explorer.requirements.covered

    def play(self, episodes: int) -> Block:
        """At most so many episodes, fewer if that covers the target."""
        first, played = self.counts.n_episodes, list[Episode]()
        while len(played) < min(episodes, BLOCK) and not self.finished:
            played.append(self._play_once())
        return as_block(first, played)

    def _play_once(self) -> Episode:
        """Fill a table of actions as the episode gets there."""
        explorer, (_, S, A) = self.explorer, self.counts.shape.hsa
        table = np.zeros(self.counts.shape.hs, dtype=np.int64)

        def begin(state: int) -> None:
            explorer.begin(state)
            table[0, state] = explorer.choose(0, state)

        def step(cell: int, successor: int) -> None:
            stage, pair = divmod(cell, S * A)
            explorer.observe(stage, *divmod(pair, A), successor)
            table[stage + 1, successor] = explorer.choose(stage + 1, successor)

        episode = self.source.play(Policy(table, A, begin), self.counts.n_episodes, step)
        last = len(episode) - 1  # the source reports no step after which the episode is over
        explorer.observe(
            last, int(episode.state[last]), int(episode.action[last]), int(episode.successors[last])
        )
        self.counts.add(episode, len(episode))
        return episode


def episodes_to_cover(
    player: Player, targets: Sequence[Target], limits: Sequence[int]
) -> list[int | None]:
    """After how many episodes each target was covered; None if not within its limit."""
    watch = Watch(targets, limits)
    while watch.waiting(player.counts.n_episodes) and not player.finished:
        watch.add(player.play(watch.room(player.counts.n_episodes)))
    watch.look()
    return watch.covered_after


class Watch:
    """Notes when targets are covered, from the steps of episodes."""

    def __init__(self, targets: Sequence[Target], limits: Sequence[int]) -> None:
        self.targets, self.limits = list(targets), list(limits)
        self.collected = [np.zeros(len(target)) for target in targets]
        self.covered_after: list[int | None] = [None] * len(self.targets)
        self.blocks: list[Block] = []
        self.kept = self.n_episodes = 0

    def waiting(self, n_episodes: int) -> bool:
        """Whether some target is open that may still be covered in time."""
        return any(
            after is None and n_episodes < limit
            for after, limit in zip(self.covered_after, self.limits, strict=True)
        )

    def room(self, n_episodes: int) -> int:
        """How many episodes until a limit is reached."""
        open_limits = [
            limit - n_episodes
            for after, limit in zip(self.covered_after, self.limits, strict=True)
            if after is None and limit > n_episodes
        ]
        return max(1, min(open_limits))

    def add(self, block: Block) -> None:
        """Keep a block, and look when there are enough of them."""
        self.blocks.append(block)
        self.kept += len(block)
        if self.kept >= BLOCK:
            self.look()

    def look(self) -> None:
        """Find the targets that the episodes since the last look have covered."""
        if not self.blocks:
            return
        lengths = np.concatenate([block.lengths for block in self.blocks])
        state = np.concatenate([block.state for block in self.blocks])
        action = np.concatenate([block.action for block in self.blocks])
        ends = np.cumsum(lengths)
        stage = np.arange(len(state)) - np.repeat(ends - lengths, lengths)
        for number, target in enumerate(self.targets):
            if self.covered_after[number] is not None:
                continue
            _, S, A = target.shape.hsa
            cells = (stage * S + state) * A + action
            after = self._with(number, cells)
            if (after >= target.counts).all():
                self._note(number, cells, ends)
            self.collected[number] = after
        self.n_episodes += len(lengths)
        self.blocks, self.kept = [], 0

    def _with(self, number: int, cells: IntArray) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        target = self.targets[number]
        visits = np.bincount(cells, minlength=target.shape.cells)
        return self.collected[number] + target.collected(visits)

    def _note(self, number: int, cells: IntArray, ends: IntArray) -> None:
        """The first episode after which all is covered, by bisection."""
        first, last = 0, len(ends)  # covered after ``last`` of these episodes, not after ``first``
        counts = self.targets[number].counts
        while last - first > 1:
            middle = (first + last) // 2
            enough = (self._with(number, cells[: ends[middle - 1]]) >= counts).all()
            first, last = (first, middle) if enough else (middle, last)
        after = self.n_episodes + last
        self.covered_after[number] = after if after <= self.limits[number] else None
