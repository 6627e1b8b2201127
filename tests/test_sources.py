"""What every source promises, and what an observer of its episodes is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.episodes import Episode
from covgame.errors import EpisodeFailed, StorageFailed
from covgame.failures import Failure
from covgame.sources.source import EpisodeObserver, Source
from covgame.sources.stepped import FailurePolicy
from covgame.types import Policy


class Walk:
    """Five states in a row, numbered as they appear; the last one breaks."""

    actions, horizon = 2, 6

    def reset(self) -> str:
        self.at = 0
        return "0"

    def step(self, action: int) -> tuple[str, float, bool]:
        self.at = max(0, self.at + (1 if action else -1))
        if self.at == 4:
            raise ValueError("the ice broke")
        return str(self.at), 1.0, False


class Told(EpisodeObserver):
    """Keeps what it is told; episodes of the run begin at 100."""

    def __init__(self, *, disk_is_full: bool = False) -> None:
        self.episodes: list[tuple[int, Episode]] = []
        self.failures: list[Failure] = []
        self.disk_is_full = disk_is_full

    def number_of(self, episode: int) -> int:
        return 100 + episode

    def on_episode(self, number: int, episode: Episode) -> None:
        self.episodes.append((number, episode))

    def on_failure(self, failure: Failure) -> None:
        if self.disk_is_full:
            raise StorageFailed("the disk is full")
        self.failures.append(failure)


def opened(kind: str, **how: Any) -> Source:
    if kind == "simulated":
        return cg.make("chain:states=4,horizon=6").open(3)
    policy = FailurePolicy(isolate=kind == "in a worker process", **how)
    return cg.make(Walk).open(3, failure_policy=policy)


def always(source: Source, action: int) -> Policy:
    """One action everywhere."""
    return Policy.deterministic(np.full(source.shape.hs, action), 2)


KINDS = ["simulated", "stepped", "in a worker process"]


@pytest.mark.parametrize("kind", KINDS)
def test_observers_are_told_of_every_episode_under_its_number_in_the_run(kind: str) -> None:
    source, told = opened(kind), Told()
    played = [source.play(always(source, 0), number, observer=told) for number in range(3)]
    source.close()
    assert told.episodes == list(enumerate(played, 100))
    assert not told.failures
    assert not len(source.failures)


@pytest.mark.parametrize("kind", KINDS)
def test_capabilities_agree_with_each_other(kind: str) -> None:
    source = opened(kind)
    source.play(always(source, 0), 0)
    source.close()
    assert source.is_replayable == (source.model is not None) == (kind == "simulated")
    assert source.discovers_states == (source.state_keys is not None) == (kind != "simulated")
    assert not source.is_driven
    assert source.open_team() is None
    assert source.shape.states >= source.states.size
    assert source.shape.actions == len(source.actions)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_failures_are_told_before_they_are_remembered(kind: str) -> None:
    """What could not be written down did not happen."""
    source = opened(kind)
    with pytest.raises(StorageFailed):
        source.play(always(source, 1), 0, observer=Told(disk_is_full=True))
    assert not len(source.failures)
    told = Told()
    with pytest.raises(EpisodeFailed, match=r"episode 100, at .*the ice broke"):
        source.play(always(source, 1), 0, observer=told)
    source.close()
    assert [(one.episode, one.then) for one in told.failures] == [(100, "set aside")]
    assert list(source.failures) == told.failures
    assert not told.episodes


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_failure_that_counts_is_told_as_a_failure_and_an_episode(kind: str) -> None:
    source, told = opened(kind, on_failure="record"), Told()
    played = source.play(always(source, 1), 0, observer=told)
    source.close()
    assert told.episodes == [(100, played)]
    assert [one.then for one in told.failures] == ["recorded"]
    assert (played.terminated, played.next_state[-1], len(played)) == (True, -1, 4)


def test_an_episode_that_was_cut_short_is_over_for_learners_only() -> None:
    steps = [(0, 1, 0.0, 1), (1, 1, 0.0, 2)]
    ends = [Episode.of_steps(steps), Episode.of_steps(steps, terminated=True)]
    ends.append(Episode.of_steps(steps, cut_short=True))
    ends.append(Episode.of_steps([*steps[:1], (1, 1, 0.0, -2)]))
    ends.append(Episode.of_steps([*steps[:1], (1, 1, 0.0, -1)]))
    assert [one.next_state[-1] for one in ends] == [2, 2, 2, -2, -1]
    assert [one.successors[-1] for one in ends] == [2, -1, -1, -2, -1]
    assert [one.terminated for one in ends] == [False, True, False, False, True]
    assert all(one.truncated != one.terminated for one in ends)
