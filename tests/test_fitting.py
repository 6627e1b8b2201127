"""Data that cannot be from the world they are taken for are refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.errors import BadInput

LAKE = "gym:FrozenLake-v1"
LARGE = "gym:FrozenLake-v1?map_name=8x8"


@pytest.fixture
def walks(tmp_path: Path) -> Path:
    cg.cover(LAKE, "uniform:5/pair", horizon=9, out=tmp_path / "walks")
    return tmp_path / "walks"


def steps(folder: Path, **columns: list[object]) -> Path:
    path = folder / "steps.parquet"
    pq.write_table(pa.table({"episode": [0] * len(columns["state"]), **columns}), path)
    return path


def test_another_environment_is_noticed(walks: Path) -> None:
    """On the larger lake the square below the first has the number 8, not 4."""
    assert cg.audit(walks, "uniform:1/pair", env=LAKE).covered
    with pytest.raises(BadInput, match="rules out; is it another environment"):
        cg.audit(walks, "uniform:1/pair", env=LARGE)
    with pytest.raises(BadInput, match=r"row 0, column \d / \w+ -> .* rules out"):
        cg.cover(LARGE, "uniform:1/pair", horizon=9, start_from=walks)


def test_episodes_begin_where_the_environment_begins_them(tmp_path: Path) -> None:
    path = steps(tmp_path, state=[4], action=[0], next_state=[4], truncated=[True])
    with pytest.raises(BadInput, match="begins an episode in row 1, column 0"):
        cg.audit(path, "uniform:1/pair", env=LAKE)


def test_time_that_is_up_is_not_an_end(tmp_path: Path) -> None:
    path = steps(tmp_path, state=[0], action=[0], next_state=[0], terminated=[True])
    with pytest.raises(BadInput, match="truncated, not terminated"):
        cg.audit(path, "uniform:1/pair", env=LAKE)


def test_who_does_not_say_what_ended_an_episode_is_believed(tmp_path: Path) -> None:
    """The last step falls into a hole, and only the end of the file says that it was over."""
    path = steps(tmp_path, state=[0, 1], action=[2, 1], next_state=[1, 5])
    assert cg.audit(path, "uniform:1/pair", env=LAKE).episodes == 1


def test_worlds_whose_stages_differ(tmp_path: Path) -> None:
    """What can happen at one stage may be impossible at another; the last one shows nothing."""
    world = "garnet:states=5,actions=2,horizon=4,branching=1"
    cg.cover(world, "uniform:2", min_reach=0.01, out=tmp_path / "run")
    assert cg.audit(tmp_path / "run", "uniform:1", env=world).episodes > 0
    other = "garnet:states=5,actions=2,horizon=4,branching=1,seed=1"
    with pytest.raises(BadInput, match=r"rules out|never does"):
        cg.audit(tmp_path / "run", "uniform:1", env=other)
