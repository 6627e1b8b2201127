"""d3rlpy reads an export by the recipe of docs/export.md: ``python3 dev.py test-d3rlpy``."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from tests.exported import ending_run, episodes_of, lake_run
from tests.test_docs import blocks

PYTHON = os.environ.get("COVGAME_D3RLPY")
CHILD = Path(__file__).with_name("d3rlpy_child.py")
(RECIPE,) = blocks(Path(__file__).parent.parent / "docs" / "export.md", "py")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PYTHON is None, reason="python3 dev.py test-d3rlpy sets d3rlpy up"),
]


@pytest.mark.parametrize("world", [ending_run, lake_run])
def test_d3rlpy_reads_and_learns_from_an_export(tmp_path: Path, world: Any) -> None:
    run = world(tmp_path)
    done = cg.export(run, to="minari", out=tmp_path / "lake-v0")
    space = json.loads((tmp_path / "lake-v0" / "data" / "metadata.json").read_text())
    states = json.loads(space["observation_space"])["n"]
    actions = run.counts.shape.actions
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run(
        [str(PYTHON), str(CHILD), RECIPE, str(states)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=bare,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout.splitlines()[-1])
    assert (found["action_size"], found["discrete"]) == (actions, True)
    assert found["batch"] == [16, states]
    expected = [
        {
            "states": [step["state"] for step in episode],
            "actions": [step["action"] for step in episode],
            "rewards": [step["reward"] for step in episode],
            "terminated": episode[-1]["terminated"],
        }
        for episode in episodes_of(run)
    ]
    assert found["episodes"] == expected
    cut = sum(not one["terminated"] for one in expected)
    assert found["transitions"] == done.steps - cut
    assert len(found["learnt"]) == states
    assert set(found["learnt"]) <= set(range(actions))
