"""What a run leaves, read again: episodes one by one, steps as a table, older formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.episodes import Block
from covgame.errors import BadInput
from covgame.storage import episodes as shard_files
from covgame.storage import reading
from covgame.storage.reading import RecordedEpisodes
from tests.doors import Door

LAKE = "gym:FrozenLake-v1"


# ------------------------------------------------------------------------------- the record


def test_episodes_say_where_they_ended_and_with_which_seed(tmp_path: Path) -> None:
    """Played again with its seed and its actions, an episode is the same."""
    run = cg.cover(LAKE, "uniform:3/pair", horizon=9, out=tmp_path)
    env = gymnasium.make("FrozenLake-v1")
    ends = set()
    for episode in cg.load(tmp_path).episodes():
        observation, _ = env.reset(seed=episode.seed)
        for h, action in enumerate(episode.action.tolist()):
            assert observation == episode.state[h]
            observation, reward, terminated, _, _ = env.step(action)
            assert observation == episode.next_state[h]
            assert reward == episode.reward[h]
        assert terminated == episode.terminated != episode.truncated
        if terminated:
            ends.add(int(observation))
    assert ends >= {5, 7, 11, 12}
    assert 15 in ends  # the goal is not one of the holes any more
    assert len(list(run.episodes())) == run.n_episodes


class Clock:
    """Time runs out before the last stage, in a state that goes on."""

    actions, horizon = ("wait", "go"), 6

    def reset(self, seed: int) -> str:
        self.time = 0
        return "at 0"

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return f"at {self.time}", 0.5, action == "go" and self.time > 2, self.time == 4, {}


def test_truncated_and_terminated(tmp_path: Path) -> None:
    run = cg.cover(Clock, "uniform:3/pair", out=tmp_path)
    kinds = set()
    for episode in run.episodes():
        kinds.add((len(episode), episode.terminated, episode.truncated))
        assert episode.names.state(int(episode.next_state[-1])) == f"at {len(episode)}"
        assert episode.total_reward == pytest.approx(0.5 * len(episode))
    assert (4, False, True) in kinds
    assert {terminated for _, terminated, _ in kinds} == {True, False}
    assert all(terminated != truncated for _, terminated, truncated in kinds)
    table = run.steps()
    last = np.append(np.diff(table["episode"].to_numpy()) != 0, True)
    over = table["terminated"].to_numpy() | table["truncated"].to_numpy()
    assert (over == last).all()


class Vanishes:
    """Shows nothing where it ends."""

    actions, horizon = 2, 3

    def reset(self, seed: int) -> str:
        return "here"

    def step(self, action: int) -> tuple[str | None, float, bool]:
        return (None, 1.0, True) if action else ("here", 0.0, False)


def test_where_nothing_is_shown_there_is_no_state(tmp_path: Path) -> None:
    run = cg.cover(Vanishes, "uniform:2/pair", out=tmp_path)
    assert run.n_states == 1
    table = run.steps()
    assert (table["next_state"].to_numpy()[table["terminated"].to_numpy()] == -1).all()


# ------------------------------------------------------------------------------- reading it


def test_steps_are_a_table_for_anybody(tmp_path: Path) -> None:
    run = cg.cover(LAKE, "uniform:2/pair", horizon=6, out=tmp_path)
    table = cg.load(tmp_path).steps()
    names = "episode stage state action reward next_state terminated truncated seed"
    assert table.column_names == names.split()
    assert table.num_rows == run.counts.visits.sum()
    assert cg.load(tmp_path).steps(["seed", "state"]).column_names == ["seed", "state"]
    with pytest.raises(BadInput, match="no column 'colour'; there are: episode"):
        run.steps(["colour"])


def test_words_are_the_environments(tmp_path: Path) -> None:
    run = cg.cover(Door, "uniform:5/pair", out=tmp_path)
    first = next(run.episodes())
    assert first.states[0] == "CLOSED"
    assert set(first.actions) <= {"push", "lock", "wait"}


def test_runs_without_episodes_say_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="say out="):
        next(cg.cover(LAKE, "uniform:1/state", horizon=5).episodes())
    cg.cover("grid", "uniform:1/state", play="counts", out=tmp_path)
    with pytest.raises(BadInput, match='play="counts"'):
        cg.load(tmp_path).steps()


def test_one_shard_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever reads everything reads every shard once, one after the other."""
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 60)
    run = cg.cover("grid:rows=3,columns=3,horizon=6", "uniform:5", out=tmp_path)
    read: list[str] = []
    real = shard_files.read_shard

    def noting(path: Path, **asked: Any) -> pa.Table:
        read.append(path.name)
        return real(path, **asked)

    monkeypatch.setattr(reading, "read_shard", noting)
    files = sorted(path.name for path in (tmp_path / "episodes").iterdir())
    recorded = RecordedEpisodes(tmp_path / "episodes", run.target.shape)
    assert len(files) > 5
    counts = recorded.counts(pooled=True)
    assert (counts.visits == run.counts.visits).all()
    assert read == files
    windows = [
        recorded.counts(pooled=True, first=i, last=i + 7) for i in range(0, len(recorded), 7)
    ]
    assert (np.sum([one.visits for one in windows], axis=0) == counts.visits).all()
    assert sum(one.n_episodes for one in windows) == len(recorded)


class Pool:
    """In the place of Arrow's: notes how much is in use whenever it is to give back the rest."""

    def __init__(self) -> None:
        self.in_use: list[int] = []

    def release_unused(self) -> None:
        self.in_use.append(pa.total_allocated_bytes())


def test_nothing_is_kept_of_what_writing_took(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow gives its memory back after every writing, when no copy of the shard is left."""
    episodes, steps = 5_000, 4
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 2 * episodes * steps)
    before, pool = pa.total_allocated_bytes(), Pool()
    monkeypatch.setattr(pa, "default_memory_pool", lambda: pool)
    writer = shard_files.ShardWriter(tmp_path / "episodes", steps)
    ones = np.ones(episodes * steps, dtype=np.int64)
    for number in range(6):
        lengths = np.full(episodes, steps)
        writer.add(Block(number * episodes, lengths, ones, ones, np.zeros(len(ones)), ones))
        writer.flush()
    writer.close()
    assert len(shard_files.shards(tmp_path / "episodes")) == 3
    assert len(pool.in_use) >= 6
    a_copy = episodes * steps * 48
    assert max(pool.in_use) - before < a_copy / 10


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t.set_column(2, "state", pa.array(np.full(len(t), 99))),
        lambda t: t.set_column(4, "reward", pa.array(np.full(len(t), np.nan))),
        lambda t: t.set_column(7, "truncated", pa.array(np.zeros(len(t), dtype=bool))),
        lambda t: t.set_column(6, "terminated", pa.array(np.ones(len(t), dtype=bool))),
        lambda t: t.set_column(5, "next_state", pa.array(np.full(len(t), -3))),
        lambda t: t.set_column(0, "episode", pa.array(t["episode"].to_numpy() + 1)),
        lambda t: t.slice(1),
        lambda t: t.slice(0, len(t) - 1),
        lambda t: t.drop_columns(["reward"]),
        lambda t: t.append_column("colour", pa.array(np.zeros(len(t)))),
        lambda t: t.set_column(4, "reward", pa.nulls(len(t), pa.float64())),
    ],
    ids=[
        "state", "NaN", "open end", "all over", "no state", "begins with 1", "first step gone",
        "last step gone", "no reward", "one more", "empty places",
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused(
    damage: Callable[[pa.Table], pa.Table], tmp_path: Path
) -> None:
    run = cg.cover("grid:rows=3,columns=3,horizon=6", "uniform:1", out=tmp_path)
    shard = tmp_path / "episodes" / "part-000000.parquet"
    pq.write_table(damage(pq.read_table(shard)), shard)
    with pytest.raises(BadInput, match=r"part-000000\.parquet|lacks episodes from 0"):
        RecordedEpisodes(tmp_path / "episodes", run.target.shape).counts(pooled=True)
