"""With Ray itself, started and stopped here on loopback: ``python3 dev.py test-ray``."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from covgame.sources.messages import Lost
from covgame.sources.ray import RayTeam
from covgame.sources.worker import Recipe
from covgame.workers.player import TeamPlayer
from tests.rooms import whatever_is_said
from tests.rundb import drop_arrays
from tests.teams import SLOW, WORLDS, job_for, reports, seeds_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif("COVGAME_RAY" not in os.environ, reason="run by `dev.py test-ray`"),
]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "team_worlds.py").write_text(WORLDS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return "py:team_worlds"


def test_a_run_on_ray_covers_and_is_recorded(module: str, tmp_path: Path) -> None:
    run = cg.cover(
        f"{module}:Rooms", "uniform:5/pair", workers=2, engine="ray", out=tmp_path / "run"
    )
    assert run.covered
    with whatever_is_said():
        drop_arrays(tmp_path / "run")
        again = cg.load(tmp_path / "run", trust=True)
    assert (again.counts.visits == run.counts.visits).all()


def test_a_worker_that_is_killed_is_replaced_and_the_run_covers(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    struck: list[int] = []

    hand_out = TeamPlayer._hand_out

    def strike_and_hand_out(player: TeamPlayer) -> None:
        team: Any = player.team
        if player.game.counts.n_episodes >= 5 and not struck:
            struck.append(team.pid(0))
            os.kill(struck[0], signal.SIGKILL)
        hand_out(player)

    monkeypatch.setattr(TeamPlayer, "_hand_out", strike_and_hand_out)
    run = cg.cover(
        f"{module}:Slow", "uniform:10/pair", workers=2, engine="ray", out=tmp_path / "run"
    )
    assert struck
    assert run.covered
    assert len(set(seeds_of(tmp_path / "run"))) == run.n_episodes
    assert [one.died for one in run.failures] == [True]


def test_actors_play_jobs_in_order_and_are_replaced(module: str) -> None:
    from covgame.sources.ray import connected

    team = RayTeam(Recipe(6, f"{module}:Slow"), 2, 2, connected(None, 2))
    try:
        for number in range(3):
            team.send(0, job_for(number))
        assert [one.job for one in reports(team, 3)] == [0, 1, 2]
        second = team.pid(1)
        team.send(1, job_for(3, episodes=SLOW))
        os.kill(second, signal.SIGKILL)
        (found,) = reports(team, 1)
        assert isinstance(found, Lost)
        team.send(1, job_for(4))
        assert reports(team, 1)[0].job == 4
    finally:
        team.close()
