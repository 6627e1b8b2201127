"""Read an interrupted run with every command, before it is resumed.

Each command exits with a code of the contract and without a traceback, sees the episodes that the
judge finds, which are the first ones of the unbroken run, and changes no file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from torture.invariants import (
    COLUMNS,
    DATABASE,
    Stored,
    is_by_counts,
    is_prefix,
    read_run,
    steps_of,
)
from torture.processes import Ending, run
from torture.scenarios import LIMIT, RUN

CODES = (0, 2, 3, 4, 130)
DONE, REFUSED = 0, 2
MAX_SENTENCE = 700
LOADED, EXPORTED = "loaded.parquet", "steps.csv"

READERS: dict[str, list[str]] = {
    "audit": ["audit", RUN, "--target", "uniform:1/pair"],
    "export": ["export", RUN, "--to", "csv", "--out", EXPORTED],
    "certify": ["certify", RUN],
    "report": ["report", RUN, "--out", "page.html"],
    "policy": ["policy", RUN],
}


def load_run() -> int:
    """What a program does that opens a run; it writes the steps to a file."""
    import covgame

    loaded = covgame.load(RUN)
    steps = loaded.steps() if (Path(RUN) / "episodes").is_dir() else pa.table({"episode": []})
    pq.write_table(steps, LOADED)
    return 0


def complaint(words: list[str], ending: Ending) -> str | None:
    """How the end of a command breaks the contract, None if it does not."""
    words = words[: words.index("--")] if "--" in words else words  # no options after that
    if ending.timed_out or ending.code not in CODES:
        return str(ending)
    if "Traceback" in ending.err or "Traceback" in ending.out:
        return f"a traceback, {ending}"
    if ending.code == REFUSED:
        return _bad_refusal(ending, quiet="--quiet" in words)
    before = [first for first, second in pairwise(words) if second == "--json"]
    is_value = all(first.startswith("--") and first != "--quiet" for first in before)
    return None if is_value or {"--help", "-h"} & set(words) else _bad_json(ending)


def _bad_refusal(ending: Ending, *, quiet: bool) -> str | None:
    """Exit code 2 comes with one sentence, and an empty standard output."""
    lines = ending.err.splitlines()
    if ending.out:
        return f"exit 2 and {len(ending.out)} characters on standard output"
    if not lines or not lines[-1].startswith("covgame: "):
        return f"no sentence, {ending.err[-200:]!r}"
    if len(lines) > 1 and quiet:
        return f"{len(lines)} lines on standard error: {ending.err[:300]!r}"
    too_long = len(lines[-1]) > MAX_SENTENCE
    return f"a sentence of {len(lines[-1])} characters" if too_long else None


def _bad_json(ending: Ending) -> str | None:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        answer = json.loads(ending.out, parse_constant=refuse)
    except ValueError as error:
        return f"exit {ending.code} and no JSON ({error}): {ending.out[:100]!r} {ending}"
    return None if isinstance(answer, dict) else "JSON, but no object"


def reading_problem(
    folder: Path, whole: Path | None, prepare: Callable[[], None] | None = None
) -> str | None:
    """Read the run in a folder with every command; what is wrong, None if nothing is.

    Args:
        folder: The folder of the case; the judge has found nothing wrong with its run.
        whole: The unbroken run, if it has the same episodes.
        prepare: Called in the processes that read.
    """
    if not (folder / RUN / DATABASE).exists():
        return None
    stored, before = read_run(folder / RUN), _contents(folder / RUN)
    expected = stored.steps if whole is None else steps_of(whole / "episodes")
    if not is_prefix(stored.steps, expected):
        return "the recorded episodes are not the first ones of the unbroken run"
    for name in (LOADED, EXPORTED):
        (folder / name).unlink(missing_ok=True)
    for name, task in READERS.items():
        words = [*task, "--json", "--quiet"]
        ending = run(words, folder, prepare=prepare, limit=LIMIT)
        problem = complaint(words, ending) or _wrong_answer(name, ending, stored)
        if problem is not None:
            return f"{name}: {problem}"
    loaded = run(load_run, folder, prepare=prepare, limit=LIMIT)
    if loaded.code:
        return f"load: {loaded}"
    after = _contents(folder / RUN)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    if changed:
        return f"reading has changed {sorted(changed)}"
    return None if is_by_counts(stored.config) else _other_episodes(folder, stored, expected)


def _other_episodes(folder: Path, stored: Stored, expected: pa.Table | None) -> str | None:
    """Whether ``load`` and ``export`` see other episodes than the judge."""
    seen = {"load": pq.read_table(folder / LOADED)}
    if (folder / EXPORTED).exists() and stored.steps is not None:
        table = pacsv.read_csv(folder / EXPORTED)
        names = [name for name in COLUMNS if name in table.column_names]
        seen["export"] = table.select(names).cast(stored.steps.select(names).schema)
    for name, steps in seen.items():
        found = len(set(steps["episode"].to_pylist()))
        if found != stored.episodes:
            return f"{name}: {found} episodes instead of {stored.episodes}"
        if not is_prefix(steps, expected):
            return f"{name}: not the recorded episodes"
    return None


def _wrong_answer(name: str, ending: Ending, stored: Stored) -> str | None:
    """Whether a command refuses a run that it can read, or counts other episodes."""
    expected: tuple[int, ...] = (DONE, REFUSED)  # a claim may not hold yet
    if name == "report":
        expected = (DONE,)
    elif name in ("audit", "export"):
        has_episodes = stored.episodes and not is_by_counts(stored.config)
        expected = (DONE,) if has_episodes else (REFUSED,)
    elif name == "policy" and "not a finite number" not in ending.err:
        expected = (DONE,) if stored.arrays or stored.episodes else (REFUSED,)
    if ending.code not in expected:
        return f"{ending}, with {stored.episodes} episodes"
    if name in ("audit", "export") and ending.code == DONE:
        found = json.loads(ending.out)["episodes"]
        if found != stored.episodes:
            return f"{found} episodes instead of {stored.episodes}"
    return None


def _contents(folder: Path) -> dict[str, str]:
    """The files of a run, without the empty log and the index that SQLite makes for readers."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(content).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
        and ((content := path.read_bytes()) or not path.name.endswith("-wal"))
    }  # fmt: skip
