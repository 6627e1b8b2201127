"""Forged runs: headers that claim too much, and targets that ask for too little."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.storage.folder import RunFolder
from tests.rundb import arrays_of, query, set_arrays, set_config
from tests.runs import Corner
from tests.test_cli import covgame

WORLD = "chain:states=3,horizon=4"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    cg.cover(WORLD, "uniform:2/pair", out=tmp_path / "run")
    return tmp_path / "run"


# ------------------------------------------------------------------------- absurd headers


ABSURD: dict[str, tuple[str, str, bytes]] = {
    "claims": ("<i8", "[1000000, 1000000, 1000000]", b""),
    "negative": ("<i8", "[-4, -3, 2]", bytes(192)),
    "empty": ("<i8", "[4, 1000000000, 0]", b""),
    "objects": ("|O", "[1]", bytes(8)),
    "no shape": ("<i8", "nothing", b""),
    "no type": ("nothing", "[4, 3, 2]", bytes(192)),
}


@pytest.mark.parametrize("how", ABSURD)
def test_an_absurd_state_is_refused_before_it_is_allocated(how: str, run: Path) -> None:
    dtype, shape, data = ABSURD[how]
    statement = "UPDATE arrays SET dtype=?, shape=?, data=?, checksum=? WHERE name='visits'"
    query(run, statement, dtype, shape, data, zlib.crc32(data))
    for read in (cg.certify, cg.learnt_model):
        with pytest.raises(cg.BadInput, match="the saved state is damaged"):
            read(run)


def test_counts_of_another_horizon_are_refused(run: Path) -> None:
    set_config(run, horizon=10**18)
    with pytest.raises(cg.BadInput, match="it has 4 stages"):
        cg.certify(run)
    for command in ("resume", "certify", "policy", "audit"):
        done = covgame(
            command, str(run), *(["--target", "uniform:1"] if command == "audit" else [])
        )
        assert done.returncode == 2, (command, done.stderr)


def test_a_shard_of_a_few_bytes_does_not_fill_the_memory(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covgame.memory.physical_memory", lambda: 10**6)
    shard = run / "episodes" / "part-000000.parquet"
    table = pq.read_table(shard)
    pq.write_table(pa.concat_tables([table] * 2000).combine_chunks(), shard, compression="zstd")
    with pytest.raises(cg.TooLarge, match="says to hold"):
        cg.certify(run)


@pytest.mark.parametrize("table", ["config", "documents", "result"])
def test_json_that_is_nested_without_end(table: str, run: Path) -> None:
    query(run, f"UPDATE {table} SET json=?", "[" * 100_000)  # noqa: S608
    for command in ("certify", "resume"):
        done = covgame(command, str(run))
        assert done.returncode in (0, 2), done.stderr
        assert "internal" not in done.stderr


def test_a_model_file_of_any_size_is_refused(tmp_path: Path) -> None:
    model = {
        "format": "covgame-mdp/1", "horizon": 3, "states": 10**12, "actions": 1, "initial": 0,
        "transitions": [[None, 0, 0, 0, 1.0]],
    }  # fmt: skip
    (tmp_path / "model.json").write_text(json.dumps(model))
    done = covgame("plan", str(tmp_path / "model.json"), "--target", "uniform:1")
    assert (done.returncode, done.stdout) == (2, "")


# -------------------------------------------------------------------- claims about a target


def changed(run: Path, **arrays: Any) -> None:
    content = arrays_of(run) | arrays
    set_arrays(run, {key: one for key, one in content.items() if one is not None})


NO_TARGET = {
    "target_rows": np.zeros((0, 3), dtype=np.int64),
    "target_counts": np.zeros(0),
    "weights": np.zeros(0),
    "base": np.zeros(0),
}


WANTED: dict[str, tuple[Any, Any]] = {
    "cells": (WORLD, "uniform:9"),
    "pairs": (Corner, "uniform:9/pair"),
    "states": (Corner, "uniform:30/state"),
    "transitions": (Corner, "uniform:9/transition"),
    "transitions of a model": (WORLD, "uniform:9/transition"),
    "labels": (Corner, cg.cells([(None, "there", "left", 20)])),
}


@pytest.mark.parametrize("what", WANTED)
def test_a_target_that_was_emptied_is_not_believed(what: str, tmp_path: Path) -> None:
    env, target = WANTED[what]
    whole = cg.cover(env, target, out=tmp_path / "whole")
    assert cg.certify(tmp_path / "whole").numbers["rows"] == len(whole.target) > 0
    cg.cover(env, target, max_episodes=2, out=tmp_path / "run")
    changed(tmp_path / "run", **NO_TARGET)
    with pytest.raises(cg.BadInput, match="does not cover its target"):
        cg.certify(tmp_path / "run")


def test_rows_are_left_out_only_where_that_was_asked(tmp_path: Path) -> None:
    cg.cover(WORLD, "uniform:9", max_episodes=2, out=tmp_path / "run")
    rows = RunFolder.open(tmp_path / "run").load_arrays()
    assert rows is not None
    changed(tmp_path / "run", left_out_rows=rows["target_rows"])
    with pytest.raises(cg.BadInput, match="leaves out rows without min_reach"):
        cg.certify(tmp_path / "run")


def test_actions_that_were_taken_are_not_forbidden(tmp_path: Path) -> None:
    cg.cover(Corner, "uniform:9/pair", max_episodes=3, out=tmp_path / "run")
    states = RunFolder.open(tmp_path / "run").load_arrays()
    assert states is not None
    changed(tmp_path / "run", allowed=np.zeros(states["visits"].shape[1:], dtype=np.bool_))
    with pytest.raises(cg.BadInput, match="forbids actions that the data show"):
        cg.certify(tmp_path / "run")
