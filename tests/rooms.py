"""Environments in files of their own, and what is compared of two runs on them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from tests.rundb import arrays_of, states_of

ROOMS = """
import os, signal, sys

class Rooms:
    '''Rooms that are found one by one; a trap springs once, in the fourth of them.'''

    actions, horizon = 2, 6

    def reset(self, seed):
        self.at, self.seed, self.steps = 0, seed, 0
        return ("room", 0)

    def step(self, action):
        self.steps += 1
        self.at = max(0, self.at + (1 if action else -1))
        if self.at == 3 and os.path.exists("trap"):
            self.spring(open("trap").read())
        return ("room", self.at), float(self.seed % 7), self.at == 5

    def spring(self, trap):
        os.remove("trap")
        if trap == "exit":
            sys.exit(3)
        if trap == "odd":
            raise BaseException("odd")
        if trap == "Ctrl-C twice":
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        if trap == "told to end twice":
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

class Tired(Rooms):
    '''Plays everything differently in every process: what is lost does not come back.'''

    def step(self, action):
        observation, _, done = super().step(action)
        return observation, float(os.getpid()), done
"""


def assert_same(one: Path, other: Path) -> None:
    """The same states, saved state and sealed episodes."""
    assert states_of(one) == states_of(other)
    mine, its = arrays_of(one), arrays_of(other)
    assert mine.keys() == its.keys()
    for name, array in mine.items():
        np.testing.assert_array_equal(array, its[name], err_msg=name)
    shards = [sorted((run / "episodes").glob("*")) for run in (one, other)]
    assert [path.name for path in shards[0]] == [path.name for path in shards[1]]
    for mine, theirs in zip(*shards, strict=True):
        assert mine.read_bytes() == theirs.read_bytes(), mine.name


def files(run: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file()}


def steps(run: Path) -> dict[str, Any]:
    table = pq.read_table(run / "episodes")
    return {name: table[name].to_numpy() for name in table.column_names}


@contextmanager
def whatever_is_said() -> Iterator[None]:
    """A run that had to be counted again says so; here that is beside the point."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
