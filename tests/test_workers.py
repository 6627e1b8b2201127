"""Teams of workers: what all of them promise, and runs that are played by them."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks import _virtual
from benchmarks.comparison.measures import priced, world

import covgame as cg
from covgame.episodes import Episode
from covgame.errors import BadInput, EnvironmentFailed, MissingExtra
from covgame.failures import Failure
from covgame.runs.coverage import Coverage
from covgame.sources import ray as on_ray
from covgame.sources.environments import make
from covgame.sources.messages import Job, Lost, NewStates, Numbering, Report, Stop
from covgame.sources.process import LocalTeam
from covgame.sources.ray import RayTeam
from covgame.sources.states import DiscoveredStates, label_of_key
from covgame.sources.worker import Recipe, Worker
from covgame.workers.player import MOST_EACH, Pace, PlanningPlayer, TeamPlayer, loss_share
from tests.rooms import whatever_is_said
from tests.rundb import drop_arrays, recorded
from tests.teams import SLOW, WORLDS, LikeRay, job_for, reports, right, seeds_of

KINDS = ["by name", "copied", "like Ray"]


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "team_worlds.py").write_text(WORLDS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("team_worlds", None)


def recipe(world: str, kind: str = "by name", **how: Any) -> Recipe:
    if kind != "copied":
        return Recipe(6, f"py:team_worlds:{world}", **how)
    return Recipe(6, copied=make(f"py:team_worlds:{world}"), **how)


def team_of(kind: str, world: str, size: int = 1, **how: Any) -> Any:
    if kind == "like Ray":
        return RayTeam(recipe(world, **how), size, 2, LikeRay())
    return LocalTeam(recipe(world, kind, **how), size, 2)


@pytest.fixture
def hired() -> Iterator[Callable[..., Any]]:
    """Teams that are sent home in any case."""
    teams = []

    def hire(*args: Any, **how: Any) -> Any:
        teams.append(team_of(*args, **how))
        return teams[-1]

    yield hire
    for team in teams:
        team.close()


def same(one: Episode, other: Episode) -> bool:
    columns = ("state", "action", "reward", "next_state")
    alike = all((getattr(one, name) == getattr(other, name)).all() for name in columns)
    ends = ("terminated", "cut_short", "seed", "observations")
    return alike and all(getattr(one, name) == getattr(other, name) for name in ends)


# ------------------------------------------------------------------ what every team promises


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_plays_what_one_process_would(kind: str, hired: Callable[..., Any]) -> None:
    """States, rewards, seeds, truncation, kept observations, and the numbers of new states."""
    team = hired(kind, "Rooms", keep_observations=True)
    here = recipe("Rooms", keep_observations=True).open()
    here.seed = 3
    job = job_for(0, episodes=30)
    team.send(0, job)
    (report,) = reports(team, 1)
    played = [here.play(right(), ticket) for ticket in job.tickets]
    assert any(one.cut_short for one in played)
    assert any(one.terminated and one.next_state[-1] >= 0 for one in played)
    assert all(same(*pair) for pair in zip(report.outcomes, played, strict=True))
    assert list(report.new_states.keys) == here.state_keys
    assert list(report.new_states.labels) == here.state_labels
    masks = {state: mask.tolist() for state, mask in report.masks}
    assert here.allowed is not None
    assert masks == {state: here.allowed[state].tolist() for state in masks}
    assert masks[0] == [False, True]


@pytest.mark.parametrize("kind", KINDS)
def test_jobs_come_back_in_order_and_states_are_announced_once(
    kind: str, hired: Callable[..., Any]
) -> None:
    team = hired(kind, "Rooms")
    team.send(0, job_for(0, new_states=NewStates(['["room", 2]', '["room", 0]'], ["two", "none"])))
    team.send(0, job_for(1, episodes=30, new_states=NewStates(['["room", 7]'], ["seven"])))
    team.send(0, job_for(2, episodes=30))
    found = reports(team, 3)
    assert [one.job for one in found] == [0, 1, 2]
    announced = [key for one in found for key in one.new_states.keys]
    assert announced[:2] == ['["room", 2]', '["room", 0]']
    assert len(set(announced)) == len(announced) >= 5
    assert all(one.state[0] == 1 for report in found for one in report.outcomes)


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_lost_is_replaced_by_somebody_who_knows_nothing(
    kind: str, hired: Callable[..., Any]
) -> None:
    team = hired(kind, "Slow", size=2)
    if kind == "like Ray":
        team.actors[0].gone = True
        team.send(0, job_for(0))
    else:
        team.send(0, job_for(0, episodes=SLOW))
        team.send(0, job_for(1))
        os.kill(team.pid(0), signal.SIGKILL)
    (lost,) = reports(team, 1)
    assert isinstance(lost, Lost)
    assert lost.words
    team.send(0, job_for(2))
    team.send(1, job_for(3))
    assert sorted(one.job for one in reports(team, 2)) == [2, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_failures_come_back_with_their_way(kind: str, hired: Callable[..., Any]) -> None:
    team = hired(kind, "Broken", on_failure="record")
    team.send(0, job_for(0))
    (report,) = reports(team, 1)
    failure, episode = report.outcomes
    assert isinstance(failure, Failure)
    assert (failure.then, failure.path[-1], "a hole" in failure.error) == ("recorded", (1, 1), True)
    assert len(episode) == len(failure.path)
    stopping = hired(kind, "Broken")
    stopping.send(0, job_for(0))
    (report,) = reports(stopping, 1)
    assert [type(one) for one in report.outcomes] == [Failure] * 3 + [Stop]
    assert len({one.seed for one in report.outcomes[:3]}) == 3


def test_large_jobs_do_not_block_who_sends_them(hired: Callable[..., Any]) -> None:
    """A pipe holds little: three jobs of a megabyte each, and nobody is listening yet."""
    team = hired("copied", "Rooms")
    wide = replace(job_for(0), policy=right(states=1_000_000 // 6))
    for number in range(3):
        team.send(0, replace(wide, number=number))
    assert [one.job for one in reports(team, 3)] == [0, 1, 2]


def test_a_step_that_hangs_is_a_failure_with_its_way(
    tmp_path: Path, hired: Callable[..., Any]
) -> None:
    (tmp_path / "trap").touch()
    team = hired("by name", "Hanging", on_failure="record", step_timeout=1.0)
    team.send(0, job_for(0, episodes=3))
    (report,) = reports(team, 1)
    failure = next(one for one in report.outcomes if isinstance(one, Failure))
    assert failure.died
    assert failure.path
    assert sum(isinstance(one, Episode) for one in report.outcomes) == 3


def test_states_have_the_same_names_on_both_sides() -> None:
    """Two processes number the same rooms in another order."""
    worker, here = Worker(recipe("Rooms").open()), recipe("Rooms").open()
    assert isinstance(here.states, DiscoveredStates)
    here.states.number_of_key('["room", 3]')
    numbering = Numbering(here.states)
    report = worker.play(job_for(0, episodes=30, new_states=numbering.announce()))
    here.states.number_of_key('["room", 9]')  # heard of from another worker
    numbering.take(report.new_states)
    theirs = worker.source.states
    assert isinstance(theirs, DiscoveredStates)
    for before in report.outcomes:
        assert isinstance(before, Episode)
        after = numbering.of_episode(before)
        for mine, other in zip(after.state.tolist(), before.state.tolist(), strict=True):
            assert here.states.keys[mine] == theirs.keys[other]
        assert ((after.next_state < 0) == (before.next_state < 0)).all()
    again = worker.play(job_for(1, new_states=numbering.announce()))
    assert list(again.new_states.keys) == ['["room", 9]']
    assert sorted(theirs.keys) == sorted(here.states.keys)
    assert theirs.keys != here.states.keys


# -------------------------------------------------------------------------- runs with workers


class InOrder:
    """A team of one that plays at once, here: for runs whose order is known."""

    size = 1

    def __init__(self, worker: Worker) -> None:
        self.worker, self.done = worker, list[tuple[int, Report | Lost]]()
        self.jobs: list[Job] = []

    def send(self, worker: int, job: Job) -> None:
        self.jobs.append(job)
        self.done.append((worker, self.worker.play(job)))

    def wait(self, seconds: float) -> list[tuple[int, Report | Lost]]:
        del seconds
        done, self.done = self.done, []
        return done

    def close(self) -> None: ...


def team_run(tmp_path: Path, env: str = "Rooms", **how: Any) -> Coverage:
    """A run of workers that are copies of this process, which begin at once, or made by name."""
    if not env.startswith("py:"):
        env = getattr(importlib.import_module("team_worlds"), env)
    how = {"target": "uniform:4/pair", "workers": 2, "out": tmp_path / "run", **how}
    return cg.cover(env, how.pop("target"), **how)


def test_states_are_numbered_as_they_arrive(tmp_path: Path) -> None:
    run = team_run(tmp_path, workers=1, out=None, max_episodes=0)
    source, team = run.source, InOrder(Worker(recipe("Rooms").open()))
    assert not isinstance(source, cg.SimulatedSource)
    player = TeamPlayer(run.game, source, run.growth, team, each=1, ahead=0)
    block = player.play(50)
    seen: list[int] = []
    for state in block.state.tolist():
        seen += [state] if state not in seen else []
    assert seen == sorted(seen)
    assert source.state_labels is not None
    assert source.state_labels[:2] == ["(room, 0)", "(room, 1)"]


class InTurn:
    """A team that plays here, one job after the other, and notes what was under way."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers, self.size = workers, len(workers)
        self.waiting: list[tuple[int, Job]] = []
        self.jobs: list[tuple[int, Job]] = []

    def send(self, worker: int, job: Job) -> None:
        self.waiting.append((worker, job))
        self.jobs.append((worker, job))

    def wait(self, seconds: float) -> list[tuple[int, Report | Lost]]:
        del seconds
        (worker, job), self.waiting = self.waiting[0], self.waiting[1:]
        return [(worker, self.workers[worker].play(job))]

    def close(self) -> None: ...


def test_workers_plan_on_copies_that_hear_of_all_episodes() -> None:
    run = cg.cover(recipe_class("Rooms"), "uniform:40/pair", max_episodes=0)
    source, team = run.source, InTurn([Worker(recipe("Rooms").open()) for _ in range(3)])
    assert not isinstance(source, cg.SimulatedSource)
    player = TeamPlayer(run.game, source, run.growth, team, each=1)
    most = 0
    while not player.is_over():
        player.play(1)
        may_be_lost = loss_share(3) * run.game.counts.n_episodes - player.lost
        assert len(team.waiting) <= 1 + max(0.0, may_be_lost)
        most = max(most, len(team.waiting))
    assert most == 2  # the third is being played
    assert all(job.policy is None for _, job in team.jobs)
    copies = [worker for worker, job in team.jobs if job.game is not None]
    assert set(copies) == {0, 1, 2}
    assert len(copies) < len(team.jobs) / 4
    assert isinstance(source.states, DiscoveredStates)
    visits = run.game.counts.visits.sum(axis=0)
    for number, worker in enumerate(team.workers):
        copied, states = worker.player, worker.source.states
        assert isinstance(copied, PlanningPlayer)
        assert isinstance(states, DiscoveredStates)
        assert copied.game.preference_seed == (number or None)
        untold = [*player.workers[number].untold]  # and what was sent with a job that waits
        untold += [one for other, job in team.waiting if other == number for one in job.told]
        own = [
            one
            for arrived in [*player.inbox, *player.held]
            if arrived.worker is player.workers[number]
            for one in arrived.outcomes
            if isinstance(one, Episode)
        ]
        n_episodes = run.game.counts.n_episodes + len(own) - len(untold)
        assert copied.game.counts.n_episodes == n_episodes
        counted = copied.game.counts.visits.sum(axis=0)
        for state, key in enumerate(source.states.keys):
            for action in range(2):
                told, known = (
                    sum(int(((e.state == state) & (e.action == action)).sum()) for e in episodes)
                    for episodes in (untold, own)
                )
                theirs = states.keys.index(key)
                assert counted[theirs, action] == visits[state, action] + known - told


def recipe_class(world: str) -> Any:
    return getattr(importlib.import_module("team_worlds"), world)


def test_a_run_with_workers_covers_and_counts_again_to_the_same(tmp_path: Path) -> None:
    run = team_run(tmp_path, keep_observations=True)
    assert run.covered
    assert run.to_dict()["workers"] == 2
    drop_arrays(tmp_path / "run")
    with whatever_is_said():
        again = cg.load(tmp_path / "run", trust=True)
    assert (again.counts.visits == run.counts.visits).all()
    assert again.settings == run.settings
    for episode in run.episodes():
        assert episode.observations is not None
        assert len(episode.observations) == len(episode) + 1
        assert [label_of_key(one) for one in episode.observations[:-1]] == list(episode.states)


def test_no_seed_comes_twice_in_a_run_that_goes_on(tmp_path: Path) -> None:
    team_run(tmp_path, "py:team_worlds:Rooms", target="uniform:50/pair", max_episodes=7)
    with whatever_is_said():
        cg.resume(tmp_path / "run", max_episodes=20, trust=True)
        run = cg.resume(tmp_path / "run", max_episodes=30, workers=1, trust=True)
    seeds = seeds_of(tmp_path / "run")
    assert len(seeds) == run.n_episodes == 30
    assert len(set(seeds)) == 30


def test_budgets_are_kept_to(tmp_path: Path) -> None:
    run = team_run(tmp_path, target="uniform:500/pair", max_episodes=23, workers=3)
    assert (run.n_episodes, run.stopped) == (23, "budget")


def test_a_worker_whose_environment_ends_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "trap").touch()
    run = team_run(tmp_path, "Trapped")
    assert run.covered
    assert [one.died for one in run.failures] == [True]
    assert "exit code 7" in run.failures.last.error
    (shown,) = run.to_dict()["failures"]
    assert (shown["where"], shown["path"]) == ("an unknown step", [])  # the worker took it along
    assert "the way there" not in run.to_text()
    (again,) = cg.load(tmp_path / "run", trust=True).failures
    assert not again.placed


def test_what_fails_is_avoided_and_recorded_under_its_number(tmp_path: Path) -> None:
    run = team_run(tmp_path, "Broken", on_failure="avoid")
    assert any(one.then == "avoided" for one in run.failures)
    episodes = list(run.episodes())
    for failure in run.failures:
        steps = episodes[failure.episode]
        assert list(zip(steps.state, steps.action, strict=True)) == list(failure.path)
    assert run.to_dict()["failures"][0]["state"] == 1


def test_what_fails_again_and_again_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match=r"a hole.*attempt 3 of 3"):
        team_run(tmp_path, "Broken")
    assert len(cg.load(tmp_path / "run", trust=True).failures) >= 3


def test_only_its_own_episodes_are_told_during_a_second_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[bool, bool]] = []
    count = TeamPlayer._count

    def note(self: TeamPlayer, arrived: Any, episode: Episode) -> Episode:
        told.append((self.growth.is_second_look(self.game), arrived.job.second_look))
        return count(self, arrived, episode)

    monkeypatch.setattr(TeamPlayer, "_count", note)
    run = team_run(tmp_path, workers=3)
    assert run.covered
    assert run.growth.second_look is not None
    assert run.growth.second_look.episodes == sum(turn for turn, _ in told) >= 1
    assert all(looks for turn, looks in told if turn)


def test_a_killed_driver_takes_its_workers_along_and_the_run_goes_on(tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = [sys.executable, "-m", "covgame", "cover", "py:team_worlds:Slow"]
    command += ["--target", "uniform:200/pair", "--workers", "2", "--out", str(run), "--quiet"]
    path = os.pathsep.join([str(tmp_path), *sys.path])
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}) as driver:
        for _ in range(3000):
            if (run / "run.db-wal").is_file() and recorded(run) > 20:
                break
            with pytest.raises(subprocess.TimeoutExpired):
                driver.wait(0.01)
        workers = _children_of(driver.pid)
        driver.kill()
    assert len(workers) == 2
    assert all(_gone(pid) for pid in workers)
    with whatever_is_said():
        before = cg.load(run, trust=True)
        assert before.n_episodes > 5
        goal = before.n_episodes + 10
        after = cg.resume(run, max_episodes=goal, trust=True)
    assert after.n_episodes == goal
    assert len(set(seeds_of(run))) == goal


def _children_of(pid: int) -> list[int]:
    stats = [place.read_text() for place in Path("/proc").glob("[0-9]*/stat") if place.exists()]
    return [int(one.split()[0]) for one in stats if int(one.rsplit(")", 1)[1].split()[1]) == pid]


def _gone(pid: int) -> bool:
    for _ in range(500):
        place = Path(f"/proc/{pid}/stat")
        if not place.exists() or place.read_text().rsplit(")", 1)[1].split()[0] == "Z":
            return True
        time.sleep(0.01)
    return False


# ------------------------------------------------------------------------ plans, and refusals


def test_anticipated_plans_beat_naive_ones() -> None:
    env = "doublechain:length=8,horizon=10"
    target, _ = priced(env, "uniform:10")
    needed = {
        how: _virtual.episodes_to_cover(world(env), target, 32, 0, anticipates=how)
        for how in (True, False)
    }
    alone = _virtual.episodes_to_cover(world(env), target, 1, 0)
    assert needed[True] < 1.35 * alone
    assert needed[False] > 1.15 * needed[True]


def test_a_team_of_one_plans_as_the_game_does() -> None:
    """With nobody else under way the plan is the game's own."""
    env = "doublechain:length=4,horizon=5"
    target, _ = priced(env, "uniform:3")
    model = world(env)
    game, mirror = (cg.default_game(target, pooled=True) for _ in range(2))
    team = _virtual.VirtualTeam(model, 1, 0)
    player = TeamPlayer(game, _virtual.absent(model, 0), None, team, each=1, ahead=0)
    source = cg.SimulatedSource(model, 0)
    while not game.covered:
        episode = mirror.tell(source.play(mirror.ask(), mirror.counts.n_episodes)).episode
        block = player.play(1)
        assert block.state.tolist() == episode.state.tolist()
        assert block.action.tolist() == episode.action.tolist()
    assert mirror.covered


def test_messages_carry_more_where_steps_are_cheap() -> None:
    slow = Pace(episode=1.0, planning=1e-3, telling=1e-4)
    assert slow.episodes_each(8, 10_000) == 1
    assert slow.jobs_ahead(1) == 0
    quick = Pace(episode=1e-4, planning=1e-3, telling=1e-5)
    assert quick.episodes_each(8, 10**6) == MOST_EACH
    assert quick.episodes_each(8, 0) == 1
    assert Pace(episode=1e-3, planning=0.0).episodes_each(1, 10**6) == 2
    assert quick.jobs_ahead(1) == 1


@pytest.mark.parametrize(
    ("env", "how", "words"),
    [
        ("chain", {"workers": 2}, "simulated"),
        ("py:team_worlds:Rooms", {"workers": 0}, "workers should be greater than or equal to 1"),
        ("py:team_worlds:Rooms", {"workers": 2, "min_reach": 0.1}, "min_reach"),
        (
            "py:team_worlds:Rooms",
            {"workers": 2, "play": "lazy"},
            'play="lazy" cannot be combined with workers',
        ),
        ("py:team_worlds:Rooms", {"address": "auto"}, 'add engine="ray"'),
    ],
)
def test_what_workers_cannot_do_is_said(env: str, how: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        cg.cover(env, "uniform:1/pair", **how)


def test_ray_needs_names_and_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import team_worlds  # type: ignore[import-not-found]

    with pytest.raises(BadInput, match="by name"):
        cg.cover(team_worlds.Rooms(), "uniform:1/pair", engine="ray")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"covgame\[ray\]"):
        cg.cover("py:team_worlds:Rooms", "uniform:1/pair", engine="ray", out="run")
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("address", "words"), [("127.0.0.1:9", "no Ray cluster listens"), ("nowhere", "auto or HOST")]
)
def test_an_address_where_nobody_listens_is_said(
    address: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", types.ModuleType("ray"))
    with pytest.raises(cg.CovgameError, match=words):
        cg.cover("py:team_worlds:Rooms", "uniform:1/pair", engine="ray", address=address)


def test_ray_is_tried_again_and_not_for_ever() -> None:
    class Moody:
        tries = 0

        def init(self, **_: Any) -> None:
            self.tries += 1
            if self.tries < on_ray.TRIES:
                raise TimeoutError("no port file")

        def shutdown(self) -> None: ...

    class Deaf(Moody):
        def init(self, **_: Any) -> None:
            raise TimeoutError("no port file")

    moody = Moody()
    assert on_ray.begun(moody, {}) is moody
    with pytest.raises(EnvironmentFailed, match=r'no port file.*engine="local"'):
        on_ray.begun(Deaf(), {})


def test_draws_differ_only_where_nobody_was() -> None:
    from covgame.game.in_flight import PoliciesInFlight

    env = "doublechain:length=4,horizon=5"
    target, _ = priced(env, "uniform:3")
    game = cg.default_game(target, pooled=True)
    in_flight = PoliciesInFlight(game)
    tables = [in_flight.plan(ticket, 1).table for ticket in range(3)]
    assert (tables[1] != tables[2]).any()
    source = cg.SimulatedSource(world(env), 0)
    episode = game.tell(source.play(game.ask(), 0)).episode
    again = PoliciesInFlight(game)
    first, second = (again.plan(ticket, 1).table for ticket in (5, 6))
    known = np.unique(episode.state)
    assert (first[:, known] == game.ask().table[:, known]).all()
    assert second.shape == first.shape
