"""Inputs that are nearly right: every one gets an answer or one sentence, soon."""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from torture.cases import Attack, Case, Verdict
from torture.forking import Ending, Strike, run
from torture.grammar import (
    COLUMNS,
    MAPS,
    NUMBERS,
    TARGETS,
    TEXTS,
    WORLDS,
    command_line,
    spoilt_json,
    spoilt_text,
)
from torture.invariants import steps_of
from torture.scenarios import OWN, PENDULUM, Workshop

CODES = (0, 2, 3, 4, 130)
REFUSED = 2
LONGEST = 700
ASKED_TO_STOP, SECONDS = 4.0, 10.0
"""What would go on is interrupted after so long, and is then over by the second."""

MEMORY = 8 * 2**30
COMMANDS = ("plan", "cover", "cover", "explore", "identify", "policy", "audit", "audit", "certify",
            "resume",
            "export", "envs")  # fmt: skip
SMALL = ("--quiet", "--json", "--max-episodes", "40", "--out", "out")


def one(case: Case) -> Verdict:
    """One input of one kind."""
    rng = case.rng
    words = rng.choice(KINDS)(rng, case.folder, case.workshop)
    words = [word.replace("\0", "") for word in words]
    ending = run(
        words,
        case.folder,
        strikes=[Strike(ASKED_TO_STOP, signal.SIGINT)],
        prepare=_limited,
        limit=SECONDS,
    )
    problem = complaint(words, ending)
    said = None if problem is None else f"{problem}: covgame {_typed(words)}"
    return Verdict("no end" if ending.late else f"exit {ending.code}", said)


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _typed(words: list[str]) -> str:
    return " ".join(
        repr(word)[:80] if not word.isascii() or " " in word or not word else word[:80]
        for word in words
    )


def complaint(words: list[str], ending: Ending) -> str | None:
    """What is wrong with how a command has ended, if anything."""
    words = words[: words.index("--")] if "--" in words else words  # no options after that
    if ending.late:
        return "it did not come back"
    if ending.code not in CODES:
        return str(ending)
    if "Traceback" in ending.err or "Traceback" in ending.out:
        return f"a traceback, {ending}"
    if ending.code == REFUSED:
        return _bad_refusal(words, ending)
    return _bad_json(ending) if _answers_due(words) else None


def _answers_due(words: list[str]) -> bool:
    """Whether a command was asked for JSON; after an option it may be that option's value."""
    if {"--help", "-h"} & set(words):
        return False
    before = [first for first, second in pairwise(words) if second == "--json"]
    return any(not first.startswith("--") or first == "--quiet" for first in before)


def _bad_refusal(words: list[str], ending: Ending) -> str | None:
    """Bad input gets one sentence, and nothing on standard output."""
    lines = ending.err.splitlines()
    if ending.out:
        return f"exit 2 and {len(ending.out)} characters on standard output"
    if not lines or not lines[-1].startswith("covgame: "):
        return f"no sentence, {ending.err[-200:]!r}"
    if len(lines) > 1 and "--quiet" in words:
        return f"{len(lines)} lines on standard error: {ending.err[:300]!r}"
    return f"a sentence of {len(lines[-1])} characters" if len(lines[-1]) > LONGEST else None


def _bad_json(ending: Ending) -> str | None:
    def refuse(name: str) -> Any:
        raise ValueError(name)

    try:
        answer = json.loads(ending.out, parse_constant=refuse)
    except ValueError as error:
        return f"exit {ending.code} and no JSON ({error}): {ending.out[:100]!r} {ending}"
    return None if isinstance(answer, dict) else "JSON, but no object"


# ---------------------------------------------------------------- kinds of input


def _with_files(folder: Path, workshop: Workshop) -> None:
    """What the names of the grammar stand for."""
    files = workshop.folder / "files"
    for name in ("model.json", "target.json", "reward.json"):
        shutil.copy(files / name, folder / name)
    shutil.copytree(files / "given", folder / "run")


def _any_command(rng: random.Random, folder: Path, workshop: Workshop) -> list[str]:
    from covgame.cli.main import main

    _with_files(folder, workshop)
    if rng.random() < 0.2:
        _write_data(rng, folder, workshop, spoil=False)
    name = rng.choice(COMMANDS)
    assert main.commands is not None
    return command_line(rng, name, main.commands[name])


def _environment(rng: random.Random, folder: Path, workshop: Workshop) -> list[str]:
    _with_files(folder, workshop)
    env = spoilt_text(rng, rng.choice(WORLDS))
    if rng.random() < 0.5:
        return ["plan", env, "--target", rng.choice(TARGETS), "--quiet", "--json", "--horizon", "4"]
    return ["cover", env, "--target", "uniform:2/pair", *SMALL]


def _target(rng: random.Random, folder: Path, workshop: Workshop) -> list[str]:
    _with_files(folder, workshop)
    target = spoilt_text(rng, rng.choice(TARGETS))
    verb = rng.choice((["plan", rng.choice(WORLDS[:8])], ["cover", rng.choice(WORLDS), *SMALL[2:]]))
    return [*verb, "--target", target, "--quiet", "--json"]


def _file(kind: str, rng: random.Random, folder: Path, workshop: Workshop) -> list[str]:
    """A model, a target or a reward file."""
    _with_files(folder, workshop)
    path = folder / f"{kind}.json"
    text = spoilt_json(rng, json.loads(path.read_text()))
    content = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.05:
        content = rng.randbytes(200)
    path.write_bytes(content)
    river = "riverswim:states=4,horizon=5"
    words = {
        "model": [["plan", "model.json", "--target", "uniform:3"], ["cover", "model.json",
        "--target", "uniform:2", *SMALL[2:]],
                  ["identify", "model.json", "--epsilon", "1", *SMALL[2:]]],
        "target": [["plan", river, "--target", "target.json"], ["cover", river, "--target",
        "target.json", *SMALL[2:]],
                   ["audit", "run", "--target", "target.json"],
                   ["cover", OWN, "--target", "target.json", *SMALL[2:]]],
        "reward": [["policy", "run", "--reward", "reward.json"]],
    }[kind]  # fmt: skip
    return [*rng.choice(words), "--quiet", "--json"]


def _state_map(rng: random.Random, folder: Path, workshop: Workshop) -> list[str]:
    del folder, workshop
    env = rng.choice((PENDULUM, "gym:MountainCar-v0", "gym:Blackjack-v1", "gym:CartPole-v1"))
    states = spoilt_text(rng, rng.choice(MAPS))
    actions = ["--actions", spoilt_text(rng, "grid:5")] if rng.random() < 0.2 else []
    target = ["--target", "uniform:1/pair", "--horizon", "5"]
    return ["cover", env, "--states", states, *actions, *target, *SMALL]


def _numbers(rng: random.Random, folder: Path, workshop: Workshop) -> list[str]:
    """Parameters of families, and numbers of options."""
    del folder, workshop
    name = rng.choice(
        (
            "riverswim:states=",
            "garnet:states=3,actions=2,horizon=",
            "grid:rows=",
            "deepsea:size=",
            "chain:horizon=",
        )
    )
    option = rng.choice(("--horizon", "--seed", "--min-reach", "--delta", "--max-episodes"))
    env = f"{name}{rng.choice(NUMBERS)}" if rng.random() < 0.5 else "riverswim:states=4,horizon=5"
    return [
        "cover",
        env,
        "--target",
        "uniform:2",
        "--quiet",
        "--json",
        "--out",
        "out",
        option,
        rng.choice(NUMBERS),
    ]


def _dataset(rng: random.Random, folder: Path, workshop: Workshop) -> list[str]:
    _with_files(folder, workshop)
    name = _write_data(rng, folder, workshop, spoil=True)
    columns = ["--columns", spoilt_text(rng, rng.choice(COLUMNS))] if rng.random() < 0.15 else []
    river = "riverswim:states=4,horizon=5"
    words = rng.choice((
        ["audit", name, "--target", "uniform:2/pair"],
        ["audit", name, "--target", "uniform:2", "--env", river],
        ["audit", name, "run", "--target", "uniform:2/pair"],
        ["cover", river, "--target", "uniform:2", "--from", name, *SMALL[2:]],
        ["cover", OWN, "--target", "uniform:1/pair", "--from", name, *SMALL[2:]],
    ))  # fmt: skip
    return [*words, *columns, "--quiet", "--json"]


VALUES: dict[str, tuple[Any, ...]] = {
    "f": (np.nan, np.inf, -np.inf, 1e308, -1.0, 0.5, 2.0**53),
    "i": (-1, 0, 2**31 - 1, -(2**31), 2, 1000),
    "b": (True, False),
}


def _write_data(rng: random.Random, folder: Path, workshop: Workshop, *, spoil: bool) -> str:
    """A table of steps in one of two formats, with a few places changed."""
    table = steps_of(workshop.folder / "files" / "given" / "episodes")
    assert table is not None
    table = table.slice(0, 200)
    columns = {name: table[name].to_numpy().copy() for name in table.column_names}
    for _ in range(rng.choice((1, 1, 2, 5)) if spoil else 0):
        _spoil_column(rng, columns)
    name = rng.choice(("steps.parquet", "steps.csv"))
    _save(folder / name, columns)
    if spoil and rng.random() < 0.1:
        spoil_bytes(rng, folder / name)
    return name


def _spoil_column(rng: random.Random, columns: dict[str, Any]) -> None:
    if not columns:
        return
    name = rng.choice(list(columns))
    column = columns[name]
    how = rng.randrange(8)
    if how == 0:
        del columns[name]
    elif how == 1:
        columns[f"{name}{_encodable(rng.choice(TEXTS))[:20]}"] = columns.pop(name)
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
        columns[name] = np.array([_encodable(rng.choice(TEXTS))[:50] for _ in column])


def _encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _save(path: Path, columns: dict[str, Any]) -> None:
    table = pa.table({name: pa.array(column.tolist()) for name, column in columns.items()})
    if path.suffix == ".csv":
        pacsv.write_csv(table, path)
    else:
        pq.write_table(table, path)


def spoil_bytes(rng: random.Random, path: Path) -> None:
    """Flip, cut or fill."""
    content = bytearray(path.read_bytes())
    if not content:
        return
    how = rng.randrange(3)
    if how == 0:
        del content[rng.randrange(len(content)) :]
    for _ in range(rng.choice((1, 8)) if how else 0):
        content[rng.randrange(max(1, len(content)))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(content))


Kind = Callable[[random.Random, Path, Workshop], list[str]]
KINDS: tuple[Kind, ...] = (
    _any_command, _any_command, _any_command, _environment, _target, partial(_file, "model"),
    partial(_file, "target"), partial(_file, "reward"), _state_map, _numbers, _dataset, _dataset,
)  # fmt: skip

FUZZ = Attack(
    "fuzz",
    "command lines, names, model, target and reward files, maps and datasets, nearly right",
    one,
    lambda workshop: 40 if workshop.short else 12_000,
)
