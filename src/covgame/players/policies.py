"""Many episodes of one policy: compiled, by counts, or step by step. Counted as they are played."""

from __future__ import annotations

from typing import Any

import numpy as np

from covgame.episodes import Block, Episode, Note, as_block
from covgame.errors import EnvironmentFailed, EpisodeFailed, StorageFailed
from covgame.failures import Failure
from covgame.game.counts import Counts
from covgame.kernels import layout
from covgame.mdp.model import TabularMDP
from covgame.players.by_counts import STREAM as COUNTS_STREAM
from covgame.players.by_counts import SortedSuccessors, draw_visits
from covgame.players.compiled import recorded_block, world_arrays
from covgame.sources.external import ExternalSource
from covgame.sources.simulated import STREAM, SimulatedSource
from covgame.types import FloatHSA, Policy


class PolicyByCounts:
    """The visits of all episodes at once."""

    def __init__(self, policy: Policy, counts: Counts, model: TabularMDP, seed: int) -> None:
        self.policy, self.counts, self.successors, self.seed = (
            policy,
            counts,
            SortedSuccessors(model),
            seed,
        )

    def play(self, episodes: int) -> Block:
        """So many episodes, of which nobody sees the steps."""
        first = self.counts.n_episodes
        rng = np.random.default_rng([self.seed, COUNTS_STREAM, first])
        paid = self.counts.payments is not None
        self.counts.add_visits(draw_visits(self.successors, self.policy, episodes, rng, paid=paid))
        return as_block(first, [])


class PolicyStepped:
    """Episode by episode on an environment."""

    def __init__(self, policy: Policy, counts: Counts, source: ExternalSource) -> None:
        self.policy, self.counts, self.source = policy, counts, source
        self.failure: EnvironmentFailed | StorageFailed | KeyboardInterrupt | None = None
        self.note: Note | None = None  # told of every episode as soon as it is over

    def play(self, episodes: int) -> Block:
        """So many episodes; if it fails or is broken off, those before, and the error next time."""
        if self.failure is not None:
            raise self.failure
        first, played = self.counts.n_episodes, list[Episode]()
        while len(played) < episodes:
            number = self.counts.n_episodes
            try:
                episode = self.source.play(self.policy, number)
                if self.note is not None:
                    self.note(number, episode)
            except EpisodeFailed:
                continue
            except (EnvironmentFailed, StorageFailed, KeyboardInterrupt) as error:
                self.failure = error
                break
            self.counts.add(episode)
            played.append(episode)
        return as_block(first, played)

    def replay(self, episode: Episode, *, avoided: Failure | None = None) -> None:
        """Take an episode that was played before as if it were played now."""
        if avoided is not None:
            self.source.avoid(avoided)
        self.counts.add(episode)


class PolicyCompiled:
    """In compiled code, the same episodes as ``SimulatedSource`` plays."""

    def __init__(
        self, policy: Policy, counts: Counts, source: SimulatedSource, *, most: int, record: bool
    ) -> None:
        self.counts, self.source = counts, source
        self.most, self.record_wanted = most, record
        self.recording = record or counts.payments is not None
        H = counts.shape.horizon
        self.record = layout.new_record(most, most * H if self.recording else 0)
        self.world = world_arrays(source.model)
        self.workspace = layout.new_workspace(counts)
        self.curious: Any = None  # what compiled code plans anew before every episode
        self.mixed: Any = None  # policies of which it draws one before every episode
        self.goals: Any = None  # or where it wants to go
        self.change(policy)
        self._bind()

    def change(self, policy: Policy) -> None:
        """Play another one from now on."""
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
            self.recording,
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
        block = recorded_block(self.record, first, played, steps if self.recording else 0)
        if self.counts.payments is not None:
            self.counts.pay(block)
        if self.recording and not self.record_wanted:
            return recorded_block(self.record, first, played, 0)
        return block
