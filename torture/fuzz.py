"""Inputs that are nearly valid: every one gets an answer or one sentence, within seconds."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from torture.cases import Attack, Case, Verdict
from torture.grammar import (
    COLUMNS,
    TEXTS,
    changed_bytes,
    changed_json,
    changed_text,
    command_line,
)
from torture.invariants import steps_of
from torture.processes import Strike, run
from torture.reading import complaint
from torture.scenarios import OWN, RIVER, Workspace

SECONDS_TO_INTERRUPT, LIMIT = 4.0, 10.0
MEMORY = 8 * 2**30
COMMANDS = (
    *("plan", "cover", "cover", "explore", "identify", "policy", "audit", "audit", "certify"),
    *("resume", "export", "report", "envs"),
)
JSON = ("--quiet", "--json")
SMALL = (*JSON, "--max-episodes", "40", "--out", "out")


def judge(case: Case) -> Verdict:
    """One input of one kind; a command that would go on is interrupted."""
    rng = case.rng
    words = rng.choice(KINDS)(rng, case.folder, case.workspace)
    words = [word.replace("\0", "") for word in words]
    interrupt = Strike(SECONDS_TO_INTERRUPT, signal.SIGINT)
    ending = run(words, case.folder, strikes=[interrupt], prepare=_limit_memory, limit=LIMIT)
    problem = complaint(words, ending)
    shown = " ".join(word[:80] if word.isascii() and word else repr(word)[:80] for word in words)
    said = None if problem is None else f"{problem}: covgame {shown}"
    return Verdict("no end" if ending.timed_out else f"exit {ending.code}", said)


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# ---------------------------------------------------------------- kinds of input


def _copy_files(folder: Path, workspace: Workspace) -> None:
    """The files that the grammar names."""
    files = workspace.folder / "files"
    for name in ("model.json", "target.json", "reward.json"):
        shutil.copy(files / name, folder / name)
    shutil.copytree(files / "given", folder / "run")


def _any_command(rng: random.Random, folder: Path, workspace: Workspace) -> list[str]:
    from covgame.cli.main import main

    _copy_files(folder, workspace)
    if rng.random() < 0.2:
        _write_data(rng, folder, changes=0)
    name = rng.choice(COMMANDS)
    assert main.commands is not None
    return command_line(rng, name, main.commands[name], rng.choice((0.5, 0.8, 0.95)))


def _file(kind: str, rng: random.Random, folder: Path, workspace: Workspace) -> list[str]:
    """A model, a target or a reward file."""
    _copy_files(folder, workspace)
    path = folder / f"{kind}.json"
    content = changed_json(rng, json.loads(path.read_text())).encode("utf-8", "surrogatepass")
    path.write_bytes(rng.randbytes(200) if rng.random() < 0.05 else content)
    commands = {
        "model": (
            ["plan", "model.json", "--target", "uniform:3", *JSON],
            ["cover", "model.json", "--target", "uniform:2", *SMALL],
            ["identify", "model.json", "--epsilon", "1", *SMALL],
        ),
        "target": (
            ["plan", RIVER, "--target", "target.json", *JSON],
            ["cover", RIVER, "--target", "target.json", *SMALL],
            ["cover", OWN, "--target", "target.json", *SMALL],
            ["audit", "run", "--target", "target.json", *JSON],
        ),
        "reward": (["policy", "run", "--reward", "reward.json", *JSON],),
    }
    return rng.choice(commands[kind])


def _dataset(rng: random.Random, folder: Path, workspace: Workspace) -> list[str]:
    _copy_files(folder, workspace)
    name = _write_data(rng, folder, changes=rng.choice((1, 1, 2, 5)))
    columns = ["--columns", changed_text(rng, rng.choice(COLUMNS))] if rng.random() < 0.15 else []
    words = rng.choice((
        ["audit", name, "--target", "uniform:2/pair", *JSON],
        ["audit", name, "--target", "uniform:2", "--env", RIVER, *JSON],
        ["audit", name, "run", "--target", "uniform:2/pair", *JSON],
        ["cover", RIVER, "--target", "uniform:2", "--from", name, *SMALL],
        ["cover", OWN, "--target", "uniform:1/pair", "--from", name, *SMALL],
    ))  # fmt: skip
    return [*words, *columns]


VALUES: dict[str, tuple[Any, ...]] = {
    "f": (np.nan, np.inf, -np.inf, 1e308, -1.0, 0.5, 2.0**53),
    "i": (-1, 0, 2**31 - 1, -(2**31), 2, 1000),
    "b": (True, False),
}


def _write_data(rng: random.Random, folder: Path, *, changes: int) -> str:
    """A table of steps in one of two formats, with so many changes; its name."""
    table = steps_of(folder / "run" / "episodes")
    assert table is not None
    columns = {name: table[name].to_numpy()[:200].copy() for name in table.column_names}
    for _ in range(changes):
        if columns:
            _change_column(rng, columns)
    name = rng.choice(("steps.parquet", "steps.csv"))
    table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
    (pacsv.write_csv if name == "steps.csv" else pq.write_table)(table, folder / name)
    if changes and rng.random() < 0.1:
        (folder / name).write_bytes(changed_bytes(rng, (folder / name).read_bytes()))
    return name


def _change_column(rng: random.Random, columns: dict[str, Any]) -> None:
    name = rng.choice(list(columns))
    column, how = columns[name], rng.randrange(8)
    text = rng.choice(TEXTS).encode(errors="replace").decode()[:50]
    if how == 0:
        del columns[name]
    elif how == 1:
        columns[f"{name}{text[:20]}"] = columns.pop(name)
    elif how == 2:
        columns[name] = column.astype(rng.choice(("float64", "str", "int8", "float32", "bool")))
    elif how == 3:
        length = rng.randrange(len(column) + 1)
        columns.update({name: column[:length] for name, column in columns.items()})
    elif len(column) and column.dtype.kind in VALUES:
        with np.errstate(over="ignore"):  # what does not fit wraps around, or is infinite
            values = np.array(VALUES[column.dtype.kind]).astype(column.dtype)
        for _ in range(rng.choice((1, 3, len(column)))):
            column[rng.randrange(len(column))] = rng.choice(values)
    elif len(column):
        columns[name] = np.array([text] * len(column))


Kind = Callable[[random.Random, Path, Workspace], list[str]]
KINDS: tuple[Kind, ...] = (
    *(_any_command, _any_command, _any_command, _dataset),
    *(partial(_file, "model"), partial(_file, "target"), partial(_file, "reward")),
)

FUZZ = Attack(
    "fuzz",
    "command lines, names, model, target and reward files, state maps and datasets, nearly valid",
    judge,
    lambda workspace: 40 if workspace.short else 10_000,
)
