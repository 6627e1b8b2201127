"""What a claim rests on: one list of sentences, the same in a run's answer and in ``certify``."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame import BadInput
from covgame.pac.assumptions import KNOWN_STAGES, MARKOV, SUPPOSED_STAGES, assumptions_of_claim
from covgame.pac.error_bounds import Range
from covgame.pac.mixtures import Structure
from covgame.types import Shape
from tests.rundb import document_of, set_document

LAKE = "gym:FrozenLake-v1?is_slippery=false"


def test_everything_that_had_to_be_assumed_is_listed(tmp_path: Path) -> None:
    out = tmp_path / "best"
    run = cg.identify(LAKE, horizon=5, epsilon=0.9, return_range=(0, 1), out=out)
    checked = cg.certify(out)
    assert checked.assumptions == [
        "the number of states is at most 16",
        MARKOV,
        SUPPOSED_STAGES,
        "rewards do not depend on the stage",
        "every step pays between 0 and 1",
        "no episode pays more than 1 in all",
    ]
    assert [words for label, words in checked.facts() if label in ("assumed", "")] == (
        checked.assumptions
    )
    assert ("wrong", "with probability 0.1 at most") in checked.facts()
    assert checked.to_dict()["assumptions"] == run.to_dict()["assumptions"] == run.assumptions
    assert SUPPOSED_STAGES in run.to_text()


@pytest.mark.parametrize("play", ["exact", "counts"])
def test_a_model_knows_its_stages_and_its_start(play: Any, tmp_path: Path) -> None:
    run = cg.explore("chain:states=3,horizon=3", epsilon=1.5, play=play, out=tmp_path)
    checked = cg.certify(tmp_path)
    assert checked.assumptions == run.assumptions
    assert KNOWN_STAGES in run.assumptions
    assert "episodes start as the model says" in run.assumptions
    assert MARKOV not in run.assumptions
    assert any("no episodes were recorded" in one for one in run.assumptions) == (play == "counts")


def test_stages_that_are_kept_apart_are_not_assumed_to_be_alike() -> None:
    shape, nothing = Shape(3, 4, 2), Structure()
    said = assumptions_of_claim(
        shape, nothing, simulated=True, pooled=False, stages="parted", rewards=Range()
    )
    assert said == ["the number of states is at most 4", "every step pays between 0 and 1"]


def test_what_is_taken_as_known_is_listed() -> None:
    allowed = np.array([[True, False], [True, True]])
    known = Structure(False, 3, np.array([1.0, 0.0]), allowed)
    said = assumptions_of_claim(
        Shape(3, 2, 2), known, simulated=True, pooled=False, stages="known", rewards=None
    )
    assert said[1:] == [
        "episodes never end before the last stage",
        "no state and action leads to more than 3 states",
        "episodes start as the model says",
        "1 state-action pair is not allowed, as the model says",
    ]


@pytest.mark.parametrize(
    ("env", "change"),
    [
        ("py:guarded:Coin", {"allowed": [[True, False]]}),
        ("py:guarded:Coin", {"known_start": [1.0]}),
        ("py:guarded:Coin", {"can_end": False}),
        ("chain:states=3,horizon=3", {"allowed": [[True, False]] * 3}),
        ("chain:states=3,horizon=3", {"can_end": False}),
        (LAKE, {"known_start": [1.0] + [0.0] * 15}),
    ],
)
def test_nothing_is_known_that_the_environment_is_not_known_for(
    env: str, change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "guarded.py").write_text(COIN)
    monkeypatch.syspath_prepend(tmp_path)
    options: dict[str, Any] = {"most_states": 1} if env.startswith("py:") else {}
    if env == LAKE:
        options["horizon"] = 3
    cg.identify(env, epsilon=2.0, out=tmp_path / "run", **options)
    shutil.copytree(tmp_path / "run", tmp_path / "forged")
    content = document_of(tmp_path / "forged", "certificate")
    content["structure"] |= change
    content["numbers"] = {"gap": 9, "lower": -9, "upper": 9}
    set_document(tmp_path / "forged", "certificate", content)
    with pytest.raises(BadInput, match=f"takes {next(iter(change))} as known|contradict"):
        cg.certify(tmp_path / "forged")
    cg.certify(tmp_path / "run")


COIN = """
import random

class Coin:
    actions, horizon = ("coin", "sure"), 3
    def reset(self, seed=None):
        self.rng = random.Random(seed)
        return 0
    def step(self, action):
        return 0, float(self.rng.random() < 0.5) if action == "coin" else 0.2, False
"""


@pytest.mark.parametrize(
    ("target", "options"),
    [
        (cg.cells([(1, 0, 0, 2), (2, 3, 0, 2)]), {"min_reach": 0.3}),
        ("uniform:2/transition", {}),
    ],
)
def test_covering_lists_what_it_rests_on(
    target: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    run = cg.cover("riverswim:states=4,horizon=4", target, out=tmp_path, **options)
    assert len(run.assumptions) == 1
    assert cg.certify(tmp_path).assumptions == run.assumptions == run.to_dict()["assumptions"]
