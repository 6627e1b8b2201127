"""Datasets: every reader gives the same steps, and bad data are named by file, row and column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame.data import steps as steps_module
from covgame.data.dataset import Dataset, Numbering, open_all, open_data
from covgame.data.numbering import number_of_key
from covgame.data.steps import Steps
from covgame.errors import BadInput
from covgame.sources.states import DiscoveredStates
from covgame.sources.stepped import SteppedSource
from covgame.types import END, Shape
from tests.steps import (
    SMALL,
    Columns,
    changed,
    episodes_of,
    together,
    without,
    write,
)

# ------------------------------------------------------------------------------ reading


def test_parquet_in_our_columns_comes_back_as_it_was(tmp_path: Path) -> None:
    data = open_data(write(tmp_path / "steps.parquet", SMALL))
    assert together(data) == SMALL
    assert (data.n_episodes, data.n_steps, data.horizon, data.left_out) == (4, 13, 4, 0)
    assert (data.n_states, data.n_actions) == (5, 3)
    assert not data.is_cut_before(data.horizon)  # the two that were truncated lasted to the horizon
    assert data.reward_range == (min(SMALL["reward"]), max(SMALL["reward"]))


@pytest.mark.parametrize("missing", ["stage", "episode", "truncated", "next_state"])
def test_what_can_be_told_from_the_rest_may_be_missing(tmp_path: Path, missing: str) -> None:
    data = open_data(write(tmp_path / "steps.parquet", without(SMALL, missing)))
    found = together(data)
    if missing == "next_state":
        last = np.array(SMALL["terminated"]) | np.array(SMALL["truncated"])
        expected = np.where(last, END, SMALL["next_state"]).tolist()
        assert found.pop("next_state") == expected
    if missing == "truncated":
        assert not any(found.pop("truncated"))
        assert not data.has_ends(data.horizon + 1)
    assert found == {name: SMALL[name] for name in found}


def test_ends_alone_say_where_episodes_end(tmp_path: Path) -> None:
    columns = without(SMALL, "stage", "episode", "terminated", "truncated")
    columns["done"] = (np.array(SMALL["terminated"]) | np.array(SMALL["truncated"])).tolist()
    found = together(open_data(write(tmp_path / "steps.parquet", columns)))
    assert found["episode"] == SMALL["episode"]
    assert found["terminated"] == columns["done"]


@pytest.mark.parametrize("suffix", ["csv", "feather", "parquet", "tsv"])
def test_tables_with_other_names(tmp_path: Path, suffix: str) -> None:
    renamed = {"s": "state", "a": "action", "r": "reward", "trial": "episode", "s2": "next_state"}
    table = pa.table({theirs: SMALL[ours] for theirs, ours in renamed.items()})
    path = tmp_path / f"steps.{suffix}"
    if suffix == "feather":
        pa.feather.write_feather(table, path)
    elif suffix == "parquet":
        pq.write_table(table, path)
    else:
        delimiter = "\t" if suffix == "tsv" else ","
        pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter=delimiter))
    columns = {ours: theirs for theirs, ours in renamed.items()}
    found = together(open_data(path, columns=columns))
    for name in renamed.values():
        assert found[name] == SMALL[name]
    assert not any(found["terminated"] + found["truncated"])


def test_a_state_of_several_columns(tmp_path: Path) -> None:
    columns = without(SMALL, "state", "next_state")
    columns["x"] = [s // 2 for s in SMALL["state"]]
    columns["y"] = ["left" if s % 2 else "right" for s in SMALL["state"]]
    data = open_data(write(tmp_path / "s.parquet", columns), columns={"state": "x+y"})
    names = data.names.states
    assert names is not None
    shown = [names[state] for state in together(data)["state"]]
    assert shown == [f"({x}, {y})" for x, y in zip(columns["x"], columns["y"], strict=True)]


def test_actions_by_label(tmp_path: Path) -> None:
    words = ["push", "coin", "wait"]
    columns = SMALL | {"action": [words[a] for a in SMALL["action"]]}
    data = open_data(write(tmp_path / "s.parquet", columns))
    assert data.names.actions is not None
    shown = [data.names.action(a) for a in together(data)["action"]]
    assert shown == columns["action"]


def test_real_numbers_by_a_map(tmp_path: Path) -> None:
    columns = SMALL | {"state": [s / 5 + 0.01 for s in SMALL["state"]]}
    columns["next_state"] = [s / 5 + 0.01 for s in SMALL["next_state"]]
    path = write(tmp_path / "s.parquet", columns)
    data = open_data(path, states="bins:5[0,1]", columns={"next_state": "next_state"})
    names = data.names.states
    assert names is not None
    shown = [names[state] for state in together(data)["state"]]
    assert shown == [f"({s},)" for s in SMALL["state"]]
    with pytest.raises(BadInput, match=r"real numbers.*states=.bins"):
        open_data(path)


# ------------------------------------------------------------------------------- batches


def whole(data: Dataset) -> tuple[list[Any], ...]:
    shape = data.shape
    counts = data.counts(shape, pooled=False)
    listed = counts.table.listed(0, len(counts.table))
    rows = sorted(zip(*(part.tolist() for part in listed), strict=True))
    return counts.visits.tolist(), counts.starts.tolist(), rows, together(data)["state"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_the_size_of_batches_makes_no_difference(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "steps.parquet", episodes_of([1, 5, 9, 2, 2, 7, 1], seed=4))
    expected = whole(open_data(path))
    monkeypatch.setattr(steps_module, "BATCH", size)
    assert whole(open_data(path)) == expected
    assert max(map(len, open_data(path).batches())) <= max(size, 9) + 9
    by_label = pq.read_table(path).to_pydict()
    by_label["state"] = [f"s{s}" for s in by_label["state"]]
    by_label["next_state"] = [f"s{s}" for s in by_label["next_state"]]
    named = write(tmp_path / "named.parquet", by_label)
    found = open_data(named)
    monkeypatch.setattr(steps_module, "BATCH", 1000)
    assert found.names.states == open_data(named).names.states


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    seed=st.integers(0, 1000),
    horizon=st.integers(1, 7),
    pooled=st.booleans(),
    size=st.integers(1, 9),
)
def test_counts_are_those_of_the_steps_one_by_one(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    seed: int,
    horizon: int,
    pooled: bool,
    size: int,
) -> None:
    columns = episodes_of(lengths, seed)
    path = write(tmp_path_factory.mktemp("d") / "s.parquet", columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps_module, "BATCH", size)
        data = open_data(path, horizon=horizon)
        counts = data.counts(Shape(horizon, 5, 3), pooled=pooled)
    visits, moves = np.zeros((horizon, 5, 3)), dict[tuple[int, int], int]()
    for row in range(len(columns["stage"])):
        h, s, a, s2 = (columns[n][row] for n in ("stage", "state", "action", "next_state"))
        if h < horizon:
            visits[h, s, a] += 1
            cell = s * 3 + a if pooled else (h * 5 + s) * 3 + a
            over = columns["terminated"][row] or (columns["truncated"][row] and h + 1 < horizon)
            move = (cell, END if over else s2)
            moves[move] = moves.get(move, 0) + 1
    assert (counts.visits == visits).all()
    listed = counts.table.listed(0, len(counts.table))
    rows, successors, times = (part.tolist() for part in listed)
    assert dict(zip(zip(rows, successors, strict=True), times, strict=True)) == moves
    assert counts.n_episodes == len(lengths) == data.n_episodes
    assert data.left_out == sum(max(0, length - horizon) for length in lengths)
    assert data.n_steps == sum(min(length, horizon) for length in lengths)
    for batch in data.batches():
        assert_is_whole(batch, horizon)


def assert_is_whole(batch: Steps, horizon: int) -> None:
    last = np.append(batch.stage[1:] == 0, True)
    assert batch.stage[0] == 0
    assert (batch.terminated ^ batch.truncated)[last & (batch.stage + 1 < horizon)].all()
    assert not (batch.terminated | batch.truncated)[~last].any()


def test_where_nobody_saw_the_next_state_no_transition_is_counted(tmp_path: Path) -> None:
    columns = without(SMALL, "next_state")
    data = open_data(write(tmp_path / "s.parquet", columns))
    counts = data.counts(data.shape, pooled=True)
    truncated = sum(SMALL["truncated"])  # after the last stage
    assert counts.table.total.sum() == len(SMALL["stage"]) - truncated
    assert counts.visits.sum() == len(SMALL["stage"])


def test_the_first_step_that_is_left_out_says_where_the_last_one_led(tmp_path: Path) -> None:
    path = write(tmp_path / "s.parquet", without(SMALL, "next_state"))
    found = together(open_data(path, horizon=2))
    inside = np.array(SMALL["stage"]) < 2
    went_on = np.append(np.array(SMALL["stage"][1:]) > 0, False)
    expected = np.where(went_on, SMALL["next_state"], END)[inside]
    assert found["next_state"] == expected.tolist()


# ---------------------------------------------------------------------------------- runs


def test_a_run_counts_as_it_did_itself(tmp_path: Path) -> None:
    run = cg.cover("chain:states=4,horizon=6", "uniform:3", out=tmp_path / "run")
    data = open_data(tmp_path / "run")
    assert data.horizon == 6
    assert data.n_episodes == run.n_episodes
    counts = data.counts(Shape(6, 4, 2), pooled=True)
    assert (counts.visits == run.counts.visits).all()


class Corridor:
    """Says where it is in words."""

    actions = ("left", "right")

    def __init__(self, mirrored: bool = False) -> None:
        self.mirrored = mirrored

    def reset(self) -> str:
        self.place = 0
        return self.shown()

    def step(self, action: str) -> tuple[str, float, bool]:
        self.place += 1 if (action == "right") != self.mirrored else -1
        self.place = max(-2, min(3, self.place))
        return self.shown(), 0.0, self.place == 3

    def shown(self) -> str:
        return f"room {self.place}"


def test_states_of_runs_are_recognised_by_what_they_show(tmp_path: Path) -> None:
    one = cg.cover(cg.make(Corridor, 5), "uniform:2/pair", out=tmp_path / "one")
    other = cg.cover(
        cg.make(lambda: Corridor(mirrored=True), 5), "uniform:2/pair", out=tmp_path / "other"
    )
    first, second = open_all([tmp_path / "one", tmp_path / "other"])
    assert first.names.states == second.names.states
    assert first.names.states is not None
    assert len(set(first.names.states)) == first.n_states == second.n_states
    for data, run in ((first, one), (second, other)):
        counts = data.counts(Shape(5, data.n_states, 2), pooled=True)
        for state, label in enumerate(data.names.states or ()):
            seen = list(run.names.states or ())
            if label in seen:
                assert (counts.visits[:, state] == run.counts.visits[:, seen.index(label)]).all()


def test_a_source_that_is_played_keeps_its_numbers(tmp_path: Path) -> None:
    cg.cover(cg.make(Corridor, 5), "uniform:2/pair", out=tmp_path / "one")
    environment = cg.make(Corridor, 5)
    source = environment.open(0, known=(['"room 2"', '"room 9"'], None))
    assert isinstance(source, SteppedSource)
    data = open_data(tmp_path / "one", numbering=Numbering.of_source(source, environment))
    assert source.names.states is not None
    assert list(source.names.states[:2]) == ["room 2", "room 9"]
    assert source.names.states[2] == "room 0"
    assert data.n_states == len(source.names.states)
    assert data.names.actions == ("left", "right")


def test_keys_of_files_and_observations_are_the_same_states() -> None:
    states = DiscoveredStates()
    assert states.index((1, 2.0)) == 0
    assert number_of_key(states, "[1.0, 2]") == 0
    assert number_of_key(states, '"door"', "the door") == 1
    assert states.index("door") == 1
    assert states.labels[1] == "the door"


def test_numbers_of_an_environment_that_counts_its_states(tmp_path: Path) -> None:
    environment = cg.make("gym:FrozenLake-v1", 4)
    path = write(tmp_path / "s.parquet", SMALL)
    data = open_data(path, environment=environment)
    assert data.shape == Shape(4, 16, 4)
    assert data.names.actions == ("left", "down", "right", "up")
    bad = write(tmp_path / "bad.parquet", changed("state", 3, 16))
    with pytest.raises(
        BadInput, match=r"bad.parquet, row 3, column state: state 16 does not exist"
    ):
        open_data(bad, environment=environment)


# ------------------------------------------------------------------------------ bad data

BAD: list[tuple[str, Columns, str]] = [
    (
        "no action",
        without(SMALL, "action"),
        r"s.parquet has no column action; say columns action=NAME",
    ),
    ("no state", without(SMALL, "state"), r"s.parquet has no column state"),
    (
        "no ends",
        without(SMALL, "episode", "stage", "terminated", "truncated"),
        r"nothing says where an episode is over",
    ),
    ("NaN", changed("reward", 5, float("nan")), r"row 5, column reward: nan is no finite number"),
    ("infinite", changed("reward", 2, float("inf")), r"row 2, column reward: inf is no finite"),
    ("text", SMALL | {"reward": ["a"] * 13}, r"row 0, column reward: 'a' is no number"),
    ("negative", changed("action", 4, -1), r"row 4, column action: action -1 does not exist"),
    ("negative state", changed("state", 7, -2), r"row 7, column state: state -2 does not exist"),
    ("empty", changed("state", 6, None), r"row 6, column state: it is empty or not a number"),
    ("real", SMALL | {"action": [0.5] * 13}, r"row 0, column action: actions are real numbers"),
    (
        "broken chain",
        changed("next_state", 4, 77),
        r"row 5, column state: it is not the next_state",
    ),
    (
        "another state",
        changed("next_state", 0, (SMALL["next_state"][0] + 1) % 5),
        r"row 1, column state: it is not the next_state of the row before",
    ),
    ("stages", changed("stage", 5, 3), r"row 5, column stage: stage 3 stands where 2 should"),
    (
        "comes back",
        changed("episode", 12, 1),
        r"row 12, column episode: episode 1 comes after a later one; sort",
    ),
    (
        "goes on",
        changed("terminated", 4, True),
        r"row 5, column episode: the episode goes on, and the row before has ended it",
    ),
    ("not a truth", SMALL | {"terminated": [2] * 13}, r"row 0, column terminated: 2 is neither"),
    ("nothing", {name: column[:0] for name, column in SMALL.items()}, r"holds no steps"),
]


@pytest.mark.parametrize(("columns", "said"), [one[1:] for one in BAD], ids=[b[0] for b in BAD])
@pytest.mark.parametrize("size", [2, 1000])
def test_bad_data_are_named_by_file_row_and_column(
    tmp_path: Path, columns: Columns, said: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps_module, "BATCH", size)
    with pytest.raises(BadInput, match=said) as error:
        open_data(write(tmp_path / "s.parquet", columns))
    assert "s.parquet" in str(error.value)


def test_shards_come_in_the_order_of_their_names(tmp_path: Path) -> None:
    table = pa.table(SMALL)
    pq.write_table(table.slice(0, 5), tmp_path / "part-000000.parquet")
    pq.write_table(table.slice(5), tmp_path / "part-000001.parquet")
    assert together(open_data(tmp_path)) == SMALL
    (tmp_path / "part-000000.parquet").rename(tmp_path / "part-000002.parquet")
    with pytest.raises(BadInput, match=r"part-000001.parquet, row 0, column stage: stage 2 stands"):
        open_data(tmp_path)


def test_other_complaints(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no nowhere; DATA is a run of covgame"):
        open_data("nowhere")
    (tmp_path / "s.parquet").write_bytes(b"no parquet at all")
    with pytest.raises(BadInput, match=r"s.parquet cannot be read"):
        open_data(tmp_path / "s.parquet")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match=r"holds no data"):
        open_data(tmp_path / "empty")
    path = write(tmp_path / "t.parquet", SMALL)
    with pytest.raises(BadInput, match=r"no column 'sate', which columns names for state; did"):
        open_data(path, columns={"state": "sate"})
    with pytest.raises(BadInput, match="horizon must be at least 1"):
        open_data(path, horizon=0)
