"""What must be true of a run's folder, read with nothing of covgame's own code.

Everything here goes by the contract: Parquet by pyarrow, counts by NumPy, the rest as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

VOLATILE = {"run", "given"}
"""What may differ between the answers of two equal runs: where they are."""


def torn_files(folder: Path) -> list[str]:
    """Files that are there and cannot be read; only drafts and the journal may end anywhere."""
    found = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith(".") or path.name == "journal":
            continue
        try:
            _read(path)
        except Exception as error:
            found.append(f"{path.relative_to(folder)} is torn: {error!r:.120}")
    return found


def _read(path: Path) -> None:
    if path.suffix == ".json":
        json.loads(path.read_text())
    elif path.suffix == ".parquet":
        pq.read_table(path)
    elif path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            dict(arrays)


def problems(folder: Path) -> list[str]:
    """All that is wrong with a run that has come to an end, or was stopped in good order."""
    return [*torn_files(folder), *_disagreements(folder)]


def steps_of(folder: Path) -> pa.Table | None:
    """The rows of all shards in order, None where a run has none."""
    shards = sorted(folder.glob("part-*.parquet"))
    if not shards:
        return None
    return pa.concat_tables([pq.read_table(path) for path in shards], promote_options="default")


def episodes_in(run: Path) -> int:
    """How many episodes the shards of a run hold."""
    table = steps_of(run / "episodes")
    return 0 if table is None or not len(table) else int(table["episode"][-1].as_py()) + 1


def _disagreements(run: Path) -> Iterator[str]:
    journal = run / "journal"
    if journal.exists():
        yield f"a journal of {journal.stat().st_size} bytes was left behind"
    if not (run / "result.json").exists() or not (run / "counts.npz").exists():
        yield "there is no result.json or no counts.npz"
        return
    manifest = json.loads((run / "run.json").read_text())
    played = json.loads((run / "result.json").read_text())["episodes"]
    with np.load(run / "counts.npz", allow_pickle=False) as saved:
        arrays = dict(saved)
    # The counts of reward-free exploration as published are those of its last phase.
    forgets = manifest["command"] == "explore" and manifest["preset"] == "paper"
    counted = int(arrays["episodes"]) + int(arrays.get("part_episodes", 0))
    given = sum(one["episodes"] for one in manifest["given"])
    if counted != played + given and not forgets:
        yield f"counts.npz is of {counted} episodes, result.json of {played} beside {given} given"
    table = steps_of(run / "episodes")
    if table is not None:
        yield from _bad_rows(table, int(manifest["horizon"]))
        yield from _unknown_states(run, table)
        yield from [] if forgets else _uncounted(run, table, arrays)
    if (run / "episodes").is_dir() and episodes_in(run) != played:
        yield f"the shards hold {episodes_in(run)} episodes, result.json says {played}"


def _unknown_states(run: Path, table: pa.Table) -> Iterator[str]:
    if (run / "states.json").exists():
        states = len(json.loads((run / "states.json").read_text())["states"])
        most = max(int(table[name].to_numpy().max()) for name in ("state", "next_state"))
        if most >= states:
            yield f"a shard speaks of state {most}, and states.json lists {states}"


def _bad_rows(table: pa.Table, horizon: int) -> Iterator[str]:
    episode, stage = table["episode"].to_numpy(), table["stage"].to_numpy()
    terminated, truncated = (table[name].to_numpy() for name in ("terminated", "truncated"))
    last = np.append(np.diff(episode) != 0, True)
    if not np.array_equal(np.unique(episode), np.arange(last.sum())) or np.any(
        np.diff(episode) < 0
    ):
        yield "the numbers of episodes are not 0, 1, 2, ..."
    first = np.append(0, np.flatnonzero(last)[:-1] + 1)
    if not np.array_equal(
        stage, np.arange(len(stage)) - np.repeat(first, np.diff(np.append(first, len(stage))))
    ):
        yield "stages do not count up from 0 in every episode"
    if stage.max() >= horizon:
        yield f"there is a stage {stage.max()}, and the horizon is {horizon}"
    if np.any(terminated & truncated) or not np.array_equal(terminated | truncated, last):
        yield "not exactly the last step of every episode is either terminated or truncated"


def _uncounted(run: Path, table: pa.Table, arrays: Mapping[str, npt.NDArray[Any]]) -> Iterator[str]:
    """Visits are those of the rows, and of the data that the run has started from."""
    visits = arrays["visits"] + arrays.get("part_visits", 0)
    counted = np.zeros_like(visits)
    given = [steps_of(place) for place in sorted((run / "given").glob("[0-9]*"))]
    for steps in (table, *given):
        if steps is not None:
            where = tuple(steps[name].to_numpy() for name in ("stage", "state", "action"))
            np.add.at(counted, where, 1)
    wrong = int(np.abs(counted - visits).sum())
    if wrong:
        yield f"{wrong} visits in counts.npz are not those of the rows"


def differences(run: Path, whole: Path, *, exact: bool = True) -> list[str]:
    """Where a run that was broken off and resumed is not the unbroken one."""
    found = [*problems(run)]
    answers = [json.loads((path / "result.json").read_text()) for path in (run, whole)]
    if not exact:
        same = ("covered", "stopped")
        return found + [
            f"result.json: {name} is {answers[0].get(name)!r}, not {answers[1].get(name)!r}"
            for name in same
            if answers[0].get(name) != answers[1].get(name)
        ]
    found += [
        f"result.json: {name} is {_short(answers[0].get(name))}, not {_short(answers[1].get(name))}"
        for name in sorted(set(answers[0]) | set(answers[1]))
        if name not in VOLATILE and answers[0].get(name) != answers[1].get(name)
    ]
    rows = [steps_of(path / "episodes") for path in (run, whole)]
    if (rows[0] is None) != (rows[1] is None) or (
        rows[0] is not None and not rows[0].equals(rows[1])
    ):
        found.append("the rows are others than those of the unbroken run")
    if _bytes(run / "states.json") != _bytes(whole / "states.json"):
        found.append("states.json differs")
    with np.load(run / "counts.npz") as mine, np.load(whole / "counts.npz") as theirs:
        names = set(mine.files) ^ set(theirs.files)
        names |= {
            one for one in set(mine.files) & set(theirs.files) if not _equal(mine[one], theirs[one])
        }
        found += [f"counts.npz: {name} differs" for name in sorted(names)]
    return found


def _equal(one: npt.NDArray[Any], other: npt.NDArray[Any]) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def _bytes(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _short(value: Any) -> str:
    return f"{value!r:.60}"
