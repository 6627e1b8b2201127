"""Damaged folders of runs: refused with a sentence or mended, never believed."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from torture.cases import Attack, Case, Verdict
from torture.forking import run
from torture.fuzz import complaint, spoil_bytes
from torture.grammar import spoilt_json
from torture.invariants import episodes_in, steps_of
from torture.kills import SHORT
from torture.scenarios import RESUME, RUN, SCENARIOS, Scenario, Workshop

DAMAGED = ("family-hurried", "counts", "lazy", "min-reach", "target-file", "from-data",
           "model-file", "identify",
           "identify-paper", "explore-paper", "lake-hurried", "own-hurried", "own-kept",
           "own-from", "own-counted",
           "bins-hurried", "own-explore", "own-identify")  # fmt: skip
LIMIT = 40.0


def chosen(workshop: Workshop) -> list[Scenario]:
    return [SCENARIOS[name] for name in (SHORT if workshop.short else DAMAGED)]


def prepare(workshop: Workshop) -> None:
    for one in chosen(workshop):
        workshop.play_whole(one)


def one(case: Case) -> Verdict:
    """Damage a run in some way, and ask every command about it."""
    every, rng = chosen(case.workshop), case.rng
    scenario = every[case.number % len(every)]
    folder = case.folder / RUN
    shutil.copytree(case.workshop.reference(scenario), folder)
    what = [rng.choice(WAYS)(rng, folder, case.workshop) for _ in range(rng.choice((1, 1, 2)))]
    where = f"{scenario.name}, {' and '.join(what)}"
    outcomes = []
    before = _rows(case.workshop.reference(scenario))
    for words in _questions(rng):
        ending = run(words, case.folder, prepare=scenario.prepare, limit=LIMIT)
        problem = complaint([*words, "--quiet", "--json"], ending)
        if problem is not None:
            return Verdict("other exit", f"{where}, {words[0]}: {problem}")
        outcomes.append(f"{words[0]} {ending.code}")
        if words[0] == "resume" and ending.code == scenario.code and scenario.external:
            changed = _silently_changed(folder, before)
            if changed:
                return Verdict("believed", f"{where}: resumed, and {changed}")
    return Verdict(", ".join(sorted(outcomes)[-1:]))


def _questions(rng: random.Random) -> list[list[str]]:
    reading = [
        ["certify", RUN, "--json", "--quiet"],
        ["audit", RUN, "--target", "uniform:1/pair", "--json", "--quiet"],
        ["policy", RUN, "--json", "--quiet"],
        ["export", RUN, "--to", "csv", "--out", "steps.csv", "--json", "--quiet"],
    ]
    return [rng.choice(reading), RESUME]


def _rows(folder: Path) -> object:
    table = steps_of(folder / "episodes")
    return None if table is None else table.to_pydict()


def _silently_changed(folder: Path, before: object) -> str | None:
    """External episodes are all there is of them: what is accepted has to be what was written."""
    try:
        after = _rows(folder)
    except Exception as error:
        return f"its shards cannot be read: {error!r:.100}"
    if not isinstance(before, dict) or not isinstance(after, dict):
        return None if before == after else f"there are {episodes_in(folder)} episodes"
    length = len(before["episode"])
    same = all(
        repr(after.get(name, [])[:length]) == repr(column) for name, column in before.items()
    )
    return None if same else "its rows are others than before"


# ------------------------------------------------------------------------ ways to damage


def _any_file(rng: random.Random, folder: Path) -> Path:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return rng.choice(files) if files else folder / "run.json"


def _called(way: str, path: Path, folder: Path) -> str:
    return f"{path.relative_to(folder)} {way}"


def _bytes(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = _any_file(rng, folder)
    spoil_bytes(rng, path)
    return _called("flipped or cut", path, folder)


def _empty(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = _any_file(rng, folder)
    path.write_bytes(b"")
    return _called("emptied", path, folder)


def _garbage(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = _any_file(rng, folder)
    path.write_bytes(rng.randbytes(rng.choice((1, 100, 10_000))))
    return _called("filled with garbage", path, folder)


def _gone(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = _any_file(rng, folder)
    path.unlink(missing_ok=True)
    return _called("removed", path, folder)


def _folder_for_file(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = _any_file(rng, folder)
    path.unlink(missing_ok=True)
    path.mkdir()
    return _called("a folder", path, folder)


def _file_for_folder(_: random.Random, folder: Path, __: Workshop) -> str:
    shutil.rmtree(folder / "episodes", ignore_errors=True)
    if not (folder / "episodes").exists():
        (folder / "episodes").write_bytes(b"nothing")
    return "episodes a file"


def _swapped(rng: random.Random, folder: Path, workshop: Workshop) -> str:
    """A file of another run in the place of one's own."""
    path = _any_file(rng, folder)
    other = rng.choice(chosen(workshop))
    theirs = workshop.reference(other) / path.relative_to(folder)
    if theirs.is_file():
        shutil.copy(theirs, path)
    return _called(f"that of {other.name}", path, folder)


def _linked(rng: random.Random, folder: Path, workshop: Workshop) -> str:
    path = _any_file(rng, folder)
    target = rng.choice(("/etc/hostname", "/dev/zero", "nowhere", str(path)))
    if rng.random() < 0.3:
        other = folder.parent / "elsewhere"  # a copy: whatever follows may write through the link
        if not other.exists():
            shutil.copytree(workshop.reference(rng.choice(chosen(workshop))), other)
        target = str(other / path.relative_to(folder))
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    return _called(f"a link to {Path(target).name}", path, folder)


def _pipe(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = _any_file(rng, folder)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return _called("a pipe", path, folder)


def _odd_json(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = rng.choice(sorted(folder.glob("*.json")) or [folder / "run.json"])
    if not path.is_file():
        return "nothing"
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError):
        return "nothing"
    path.write_text(spoilt_json(rng, content), errors="surrogatepass")
    return _called("with odd values", path, folder)


def _odd_counts(rng: random.Random, folder: Path, _: Workshop) -> str:
    """An archive that can be read, with something else in it."""
    path = folder / "counts.npz"
    try:
        with np.load(path) as saved:
            arrays = dict(saved)
    except (OSError, ValueError, BadZipFile):  # it was damaged before
        return "nothing"
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    how = rng.randrange(5)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays[name] = array.astype("float64") * np.nan if array.dtype.kind in "if" else array
    elif how == 2:
        arrays[name] = array.reshape(-1)[: array.size // 2]
    elif how == 3:
        arrays[name] = np.zeros((0,) * max(1, array.ndim))
    elif array.dtype.kind in "if":
        arrays[name] = array + rng.choice((1, -1, 2**40))
    np.savez(path, allow_pickle=False, **arrays)
    return f"counts.npz with odd {name} ({how})"


def _journal(rng: random.Random, folder: Path, _: Workshop) -> str:
    head = rng.choice((b"", b"covgame-journal/1\n", b"covgame-journal/9\n"))
    (folder / "journal").write_bytes(head + rng.randbytes(rng.choice((0, 3, 500))))
    return "a garbage journal"


def _other_format(rng: random.Random, folder: Path, _: Workshop) -> str:
    path = folder / "run.json"
    if not path.is_file():
        return "nothing"
    try:
        content = json.loads(path.read_text())
    except (ValueError, RecursionError):
        return "nothing"
    if not isinstance(content, dict):
        return "nothing"
    content["format"] = rng.choice(
        ("covgame-run/0", "covgame-run/1", "covgame-run/99", "x", 3, None)
    )
    path.write_text(json.dumps(content))
    return f"run.json of format {content['format']}"


def _rows_changed(rng: random.Random, folder: Path, _: Workshop) -> str:
    """A shard that can be read and says something else."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shards = sorted((folder / "episodes").glob("*.parquet"))
    if not shards or not shards[0].is_file():
        return "nothing"
    path = rng.choice(shards)
    try:
        table = pq.read_table(path)
    except (OSError, pa.ArrowException):
        return "nothing"
    name = rng.choice(
        ("episode", "stage", "state", "action", "reward", "next_state", "terminated", "truncated")
    )
    column = table[name].to_numpy().copy()
    place = rng.randrange(len(column))
    column[place] = (
        not column[place] if column.dtype.kind == "b" else column[place] + rng.choice((1, -1, 7))
    )
    where = table.column_names.index(name)
    pq.write_table(
        table.set_column(where, table.field(name), pa.array(column, table.field(name).type)), path
    )
    return _called(f"with another {name}", path, folder)


Way = Callable[[random.Random, Path, Workshop], str]
WAYS: tuple[Way, ...] = (
    _bytes, _bytes, _bytes, _empty, _garbage, _gone, _gone, _folder_for_file, _file_for_folder,
    _swapped, _swapped,
    _linked, _linked, _pipe, _odd_json, _odd_json, _odd_json, _odd_counts, _odd_counts, _journal,
    _other_format,
    _rows_changed, _rows_changed, _rows_changed,
)  # fmt: skip

DAMAGE = Attack(
    "damage",
    "files of run folders flipped, cut, removed, swapped, replaced by folders, links and pipes, "
    "filled with odd values; then read and resumed",
    one,
    lambda workshop: 10 if workshop.short else 3000,
    prepare,
)
