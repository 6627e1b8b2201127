"""Compiled code keeps within its arrays, which it does not check by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAYED = """
import itertools
import numpy as np
import covgame as cg
from covgame.engine.compiled import CompiledGame

CompiledGame.waits = True

class Own:
    actions, horizon = 3, 6

    def reset(self, seed=0):
        self.rng, self.state = np.random.default_rng(seed), 0
        return self.state

    def step(self, action):
        self.state = int((self.state * 3 + action + self.rng.integers(2)) % 200)
        return self.state, 0.0, bool(self.rng.random() < 0.05)

targets = ("uniform:1", "uniform:2/pair", "uniform:1/state", "uniform:1/transition")
for target, apart, horizon in itertools.product(targets, (True, False), (1, 2, 6)):
    if horizon == 1 and "transition" in target:
        continue
    how = {"horizon": horizon, "stage_dependent": apart, "max_episodes": 60}
    for env in ("gym:FrozenLake-v1", Own, "riverswim:states=4"):
        cg.cover(env, target, **how)
        cg.cover(env, target, preset="paper", **how)
print("kept within")
"""


@pytest.mark.slow
def test_nothing_is_written_outside_of_an_array(tmp_path: Path) -> None:
    """Environments show the state after the last stage, which once was noted past the end."""
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", PLAYED],
        env=os.environ | checked,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "kept within\n", done.stderr[-2000:]
