"""What is asked for on the command line: by default, with a hint, or misspelt."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import covgame as cg
from covgame.engine.engines import SimulatedEngine
from covgame.game.growth import Growth
from covgame.planning import per_stage_hint
from covgame.targets.discovered import SeenTransitions
from covgame.targets.moves import possible_moves
from covgame.targets.requests import parse_request
from covgame.targets.resolve import DEFAULT_TARGET, NO_TARGET
from tests.rundb import config_of
from tests.test_cli import covgame

LAKE = "gym:FrozenLake-v1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("unifrom:5", r"did you mean uniform:5\?"),
        ("unifrm:5/pair", r"did you mean uniform:5/pair\?"),
        ("proportinal:3", r"did you mean proportional:3\?"),
        ("uniform:5/transitions", r"did you mean 'transition'\?"),
        ("nothing", "write uniform:50"),
    ],
)
def test_what_may_have_been_meant(text: str, words: str) -> None:
    with pytest.raises(cg.BadInput, match=words):
        parse_request(text)


def test_without_a_target_every_pair_is_covered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = cg.cover("chain:states=3,horizon=5")
    assert capsys.readouterr().err == f"covgame: {NO_TARGET}\n"
    assert run.target.counts.tolist() == [10.0] * 6
    done = covgame("cover", "chain:states=3,horizon=5", "--json", "--out", str(tmp_path / "run"))
    assert NO_TARGET in done.stderr
    assert json.loads(done.stdout)["episodes"] == run.n_episodes
    assert config_of(tmp_path / "run")["request"] == DEFAULT_TARGET
    quiet = covgame("cover", "chain:states=3,horizon=5", "--quiet", "--out", str(tmp_path / "two"))
    assert quiet.stderr == ""


def test_per_stage_on_many_stages_gets_a_hint() -> None:
    words = (
        "uniform:5 asks for every action in every state at each of 100 stages; uniform:5/pair "
        "asks for it at any stage, which takes far fewer episodes"
    )
    lake = cg.make(LAKE)
    assert per_stage_hint(lake, "uniform:5") == per_stage_hint(lake, cg.uniform(5)) == words
    for target in ("uniform:5/pair", "uniform:5/transition", "proportional:5"):
        assert per_stage_hint(lake, target) is None
    assert per_stage_hint(cg.make(LAKE, 20), "uniform:5") is None
    by_stage = cg.make("inventory:horizon=30")
    assert by_stage.model is not None
    assert not by_stage.model.transitions.stationary
    assert per_stage_hint(by_stage, "uniform:5") is None
    said = covgame("plan", LAKE, "--horizon", "25", "--target", "uniform:5", "--json")
    assert "at each of 25 stages" in said.stderr
    assert json.loads(said.stdout)["horizon"] == 25
    assert covgame("plan", LAKE, "--horizon", "25", "--target", "uniform:5", "--quiet").stderr == ""


def test_the_command_line_knows_transitions_and_labels(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    world = ("cover", "py:tests.doors:Door")
    done = covgame(*world, "--target", "uniform:5/transition", "--json", "--out", out)
    assert json.loads(done.stdout)["uncovered_transitions"] == []
    target = tmp_path / "target.json"
    rows = [[None, "GONE", None, 1], [None, "OPEN", "push", 2]]
    target.write_text(json.dumps({"format": "covgame-target/1", "cells": rows}))
    lost = covgame(*world, "--target", str(target), "--json", "--out", str(tmp_path / "lost"))
    assert lost.returncode == 3
    assert json.loads(lost.stdout)["uncovered"] == [[None, "GONE", None, 1.0]]
    assert "never appeared" in lost.stderr
    reward = tmp_path / "reward.json"
    rows = [[None, "LOCKED", "wait", 1]]
    reward.write_text(json.dumps({"format": "covgame-reward/1", "rewards": rows}))
    planned = covgame("policy", out, "--reward", str(reward), "--json")
    assert json.loads(planned.stdout)["value"] > 0
    reward.write_text(reward.read_text().replace("LOCKED", "LOKED"))
    refused = covgame("policy", out, "--reward", str(reward))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "did you mean 'LOCKED'?" in refused.stderr


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_compiled_and_readable_games_play_the_same_transitions(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However blocks are cut."""
    model = cg.make("riverswim:states=4,horizon=8").model
    assert model is not None

    def played(compiled: bool, size: int) -> cg.Game:
        wanted = SeenTransitions(6, possible_moves(model.transitions), last_step=False)
        game = cg.default_game(wanted.first(model.shape), pooled=True)
        source = cg.SimulatedSource(model, seed=5)
        monkeypatch.setattr("covgame.engine.engines.is_compiled", lambda _: compiled)
        engine = SimulatedEngine(game, source, Growth(wanted), most=64, record=False)
        assert (engine.compiled is not None) == compiled
        while not game.covered:
            engine.play(size)
        return game

    one, other = played(True, size), played(False, 3)
    assert one.counts.n_episodes == other.counts.n_episodes
    np.testing.assert_array_equal(one.counts.visits, other.counts.visits)
    np.testing.assert_array_equal(one.target.counts, other.target.counts)


def test_own_players_cover_transitions_and_groups() -> None:
    own = "py:examples.own_players:LeastTried"
    for target in ("uniform:3/transition", cg.groups(lambda s, a: (s, a), 3)):
        assert cg.cover("chain:states=4,horizon=6", target, planner=own).covered
