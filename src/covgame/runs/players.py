"""Who plays a task: the one place that looks at the kind of source."""

from __future__ import annotations

from typing import Protocol

from covgame.episodes import Block
from covgame.pac.tasks import CoverTask, PolicyTask, Task
from covgame.players.by_counts import COARSE, GROWTH, CountsPlayer
from covgame.players.compiled import CompiledPlayer, is_compiled
from covgame.players.growing import GrowingPlayer
from covgame.players.lazy import BatchedPlayer
from covgame.players.plain import PlainPlayer
from covgame.players.policies import PolicyByCounts, PolicyCompiled, PolicyStepped
from covgame.players.stepped import SteppedPlayer
from covgame.runs.run import Run
from covgame.sources.simulated import SimulatedSource
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.workers.player import TeamPlayer

STEPS_PER_BLOCK = 200_000


class Player(Protocol):
    """Plays episodes and counts them."""

    def play(self, episodes: int, /) -> Block:
        """At most so many episodes."""
        ...


def player_for(run: Run, task: Task, observer: EpisodeObserver) -> Player:
    """Who plays a task of a run, and how."""
    if isinstance(task, CoverTask) and task.rounds:
        return BatchedPlayer(task.game, run.source, observer=observer)
    if isinstance(task, CoverTask) and (team := run.source.open_team()) is not None:
        return TeamPlayer(
            task.game,
            run.source,
            task.growth,
            team,
            budget=lambda: run.budget_left,
            observer=observer,
        )
    if run.source.model is None:
        return external_player(run, task, run.source, observer)
    if run.by_counts:
        return _counts_player(run, task)
    return _simulated_player(run, task)


def external_player(
    run: Run, task: Task, source: Source, observer: EpisodeObserver = UNOBSERVED
) -> SteppedPlayer | PolicyStepped:
    """Who plays a task step by step, and can be told episodes that were played before."""
    if run.task_seed != source.seed:
        source = source.seeded(run.task_seed)
    if isinstance(task, PolicyTask):
        return PolicyStepped(task.policy, task.counts, source, observer)
    return SteppedPlayer(task.game, source, task.growth, observer=observer)


def _counts_player(run: Run, task: Task) -> Player:
    model, seed = run.environment.require_model("playing by counts"), run.task_seed
    if isinstance(task, PolicyTask):
        return PolicyByCounts(task.policy, task.counts, model, seed)
    growth = GROWTH if task.episodes is None else COARSE
    return CountsPlayer(task.game, model, seed, growth)


def _simulated_player(run: Run, task: Task) -> Player:
    model = run.environment.require_model("simulating")
    source = SimulatedSource(model, run.task_seed)
    most = max(1, STEPS_PER_BLOCK // source.shape.horizon)
    if isinstance(task, PolicyTask):
        most = min(task.left, most)
        return PolicyCompiled(task.policy, task.counts, source, most=most, record=run.records)
    player: PlainPlayer | CompiledPlayer = (
        CompiledPlayer(task.game, source, most=most, record=run.records)
        if is_compiled(task.game)
        else PlainPlayer(task.game, source)
    )
    if task.growth is None or task.growth.request is None:
        return player
    return GrowingPlayer(player, task.growth)
