"""Runs that start from data already collected: only what is missing is played."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.errors import BadInput
from covgame.flow.min_flow import min_flow
from covgame.game.counts import Counts
from covgame.runs.prior_data import load_prior_data
from covgame.storage.reading import RecordedEpisodes
from tests.doors import Door
from tests.rooms import assert_same
from tests.rundb import drop_arrays
from tests.test_cli import covgame

GRID = "grid:rows=3,columns=3,horizon=6"
GARNET = "garnet:states=6,actions=3,horizon=5"
TOY = "garnet:states=3,actions=2,horizon=3"
WORLDS: dict[str, dict[str, Any]] = {
    GRID: {},
    GARNET: {},  # its stages differ: it borrows
    "gym:FrozenLake-v1": {"horizon": 8},
}


def coverage(path: Path) -> cg.Coverage:
    run = cg.load(path)
    assert isinstance(run, cg.Coverage)
    return run


@pytest.mark.parametrize("name", WORLDS)
def test_only_what_is_missing_is_played(name: str, tmp_path: Path) -> None:
    asked = WORLDS[name]
    first = cg.cover(name, "uniform:4/state", seed=1, out=tmp_path / "first", **asked)
    run = cg.cover(name, "uniform:6/state", start_from=tmp_path / "first", seed=2, **asked)
    assert run.covered
    assert run.n_given == first.n_episodes
    assert (run.given[0].visits == first.counts.visits).all()
    assert (run.counts.visits >= first.counts.visits).all()
    from_scratch = cg.cover(name, "uniform:6/state", seed=2, **asked)
    assert run.n_episodes < from_scratch.n_episodes
    assert run.to_dict()["given"] == [
        {
            "data": str(tmp_path / "first"),
            "episodes": first.n_episodes,
            "steps": int(first.counts.visits.sum()),
        }
    ]


def test_the_bound_is_that_of_the_remainder(tmp_path: Path) -> None:
    first = cg.cover(GRID, "uniform:2", seed=1, out=tmp_path / "first")
    run = cg.cover(GRID, "uniform:5", start_from=tmp_path / "first", seed=2)
    model = cg.make(GRID).require_model("a test")
    missing = np.maximum(run.target.counts - run.target.collected(first.counts.visits), 0.0)
    assert (missing > 0).any()
    left = cg.cells(
        [
            (*row, n)
            for row, n in zip(run.target.as_rows(range(len(missing))), missing, strict=True)
            if n > 0
        ]
    )
    exact = min_flow(model.transitions, left.on(model.shape)).min_episodes
    assert run.min_episodes == pytest.approx(exact)
    whole = cg.plan(GRID, "uniform:5").min_episodes
    assert run.min_episodes is not None
    assert run.min_episodes < whole


def test_nothing_is_played_where_nothing_is_missing(tmp_path: Path) -> None:
    cg.cover(GRID, "uniform:5/pair", out=tmp_path / "first")
    run = cg.cover(GRID, "uniform:5/pair", start_from=tmp_path / "first", out=tmp_path / "second")
    assert run.covered
    assert run.n_episodes == 0
    assert run.stopped == "covered"
    assert cg.certify(tmp_path / "second").claim == "coverage"


def test_several_add_up(tmp_path: Path) -> None:
    parts = []
    for seed in range(3):
        out = tmp_path / str(seed)
        cg.cover(GRID, "uniform:2", seed=seed, max_episodes=10 + seed, out=out)
        parts.append(out)
    run = cg.cover(GRID, "uniform:3", start_from=parts, seed=9, out=tmp_path / "all")
    assert run.covered
    assert [one.episodes for one in run.given] == [10, 11, 12]
    together = sum(coverage(out).counts.visits for out in parts)
    assert (run.given_visits == together).all()
    played = RecordedEpisodes(tmp_path / "all" / "episodes", run.target.shape)
    assert len(played) == run.n_episodes
    mine = played.counts(pooled=True).visits
    assert (mine + together == run.counts.visits).all()
    assert [one.number for one in run.episodes()] == list(range(run.n_episodes))
    with pytest.raises(BadInput, match="twice"):
        cg.cover(GRID, "uniform:3", start_from=[parts[0], parts[0]])
    same = f"{tmp_path}/./{parts[0].name}/"  # by another path
    with pytest.raises(BadInput, match="twice"):
        cg.cover(GRID, "uniform:3", start_from=[parts[0], same])
    with pytest.raises(BadInput, match="twice"):
        cg.audit([parts[0], same], "uniform:3")


@pytest.mark.parametrize("name", WORLDS)
def test_stopped_and_resumed_it_is_the_same(name: str, tmp_path: Path) -> None:
    asked = WORLDS[name]
    cg.cover(name, "uniform:2/state", seed=1, out=tmp_path / "first", **asked)
    told = {"start_from": tmp_path / "first", "seed": 3, **asked}
    cg.cover(name, "uniform:8/state", out=tmp_path / "whole", **told)
    cg.cover(name, "uniform:8/state", out=tmp_path / "parts", max_episodes=5, **told)
    shutil.rmtree(tmp_path / "first")  # the run has what it needs of it
    cg.resume(tmp_path / "parts", max_episodes=10**6)
    assert_same(tmp_path / "parts", tmp_path / "whole")
    assert cg.certify(tmp_path / "parts").episodes == cg.certify(tmp_path / "whole").episodes


def test_a_run_that_was_killed_at_once_has_its_data(tmp_path: Path) -> None:
    """Before the first checkpoint there is no saved state."""
    cg.cover(Door, "uniform:5/pair", seed=1, out=tmp_path / "first")
    whole = cg.cover(Door, "uniform:9/pair", start_from=tmp_path / "first", out=tmp_path / "run")
    drop_arrays(tmp_path / "run")
    again = cg.resume(tmp_path / "run", env=Door)
    assert again.n_episodes == whole.n_episodes
    assert again.growth.second_look == whole.growth.second_look
    assert (again.counts.visits == whole.counts.visits).all()


def test_discovered_states_are_recognised(tmp_path: Path) -> None:
    """They get their numbers in another order than in the data."""
    first = cg.cover(Door, "uniform:30/pair", seed=1, out=tmp_path / "first")
    run = cg.cover(Door, "uniform:30/pair", start_from=tmp_path / "first", seed=5)
    assert run.names.states == first.names.states
    assert run.covered
    chance = run.growth.second_look
    assert chance is not None
    assert run.n_episodes == chance.episodes  # nothing but a look whether there is more


def test_what_the_data_lack_is_still_looked_for(tmp_path: Path) -> None:
    cg.cover(Door, "uniform:1/state", seed=1, max_episodes=1, out=tmp_path / "first")
    run = cg.cover(Door, "uniform:10/pair", start_from=tmp_path / "first")
    assert run.covered
    assert set(run.names.states or []) == {"CLOSED", "OPEN", "LOCKED", "BROKEN"}


def test_given_data_and_their_run_are_audited_together(tmp_path: Path) -> None:
    """The copies hold the run's numbers of states, which mean something with the run alone."""
    cg.cover(Door, "uniform:2/pair", seed=1, out=tmp_path / "first")
    run = cg.cover(Door, "uniform:9/pair", start_from=tmp_path / "first", out=tmp_path / "run")
    copy = tmp_path / "run" / "given" / "00"
    both = cg.audit([tmp_path / "run", copy], "uniform:9/pair")
    assert both.covered
    assert set(both.names.states or ()) == set(run.names.states or ())
    assert both.shape.horizon == run.counts.shape.horizon
    assert set(cg.audit(copy, "uniform:1/pair").names.states or ()) <= set(run.names.states or ())
    again = cg.cover(Door, "uniform:9/pair", start_from=[tmp_path / "run", copy])
    assert again.n_given == run.n_given + run.n_episodes
    assert len(again.names.states or ()) == len(run.names.states or ())


def test_stages_of_given_data_are_those_of_their_run(tmp_path: Path) -> None:
    lake = "gym:FrozenLake-v1"
    cg.cover(lake, "uniform:1/pair", horizon=8, out=tmp_path / "a")
    cg.cover(
        lake, "uniform:2/pair", horizon=8, start_from=tmp_path / "a", seed=3, out=tmp_path / "b"
    )
    found = cg.audit([tmp_path / "b", tmp_path / "b" / "given" / "00"], "uniform:2/pair", env=lake)
    assert found.covered
    assert found.shape.horizon == 8


def test_damaged_data_are_noticed(tmp_path: Path) -> None:
    cg.cover(GRID, "uniform:2", out=tmp_path / "first")
    cg.cover(GRID, "uniform:3", start_from=tmp_path / "first", out=tmp_path / "run")
    shard = tmp_path / "run" / "given" / "00" / "part-000000.parquet"
    table = pq.read_table(shard)
    pq.write_table(table.slice(0, 6 * (table.num_rows // 12)), shard)
    with pytest.raises(BadInput, match=r"from a copy|do not make up"):
        cg.certify(tmp_path / "run")
    with pytest.raises(BadInput, match=r"from a copy|do not make up"):
        cg.load(tmp_path / "run")


def test_who_broke_an_episode_off_has_still_seen_where_it_led(tmp_path: Path) -> None:
    """A truncated step of somebody else's counts as a transition, not as an end."""
    table = {
        "episode": np.array([0, 0, 1]),
        "state": np.array([0, 1, 0]),
        "action": np.array([1, 0, 0]),
        "reward": np.zeros(3),
        "next_state": np.array([1, 2, 3]),
        "terminated": np.array([False, False, False]),
        "truncated": np.array([False, True, True]),
    }

    pq.write_table(pa.table(table), tmp_path / "some.parquet")
    run = cg.cover(GRID, "uniform:1/pair", start_from=tmp_path / "some.parquet", out=tmp_path / "r")
    (given,) = load_prior_data(run.folder, run.counts.shape)  # type: ignore[arg-type]
    for counts in (given.counts, run.given[0].counts):
        row, successor, times = counts.table.listed(0, len(counts.table))
        assert set(zip(row.tolist(), successor.tolist(), times.tolist(), strict=True)) == {
            (1, 1, 1),
            (run.counts.shape.pairs + 4, 2, 1),
            (0, 3, 1),
        }


def test_agreement_of_stages_is_what_steps_in_looks_order_would_show() -> None:
    """Averaged over many orders, one by one comes to what all at once says."""
    rng, shape = np.random.default_rng(0), cg.Shape(3, 3, 1)
    cells, successors = rng.integers(0, shape.cells - 3, 300), rng.integers(0, 3, 300)
    once = Counts(shape, pooled=False, borrowing=True)
    apart = Counts(shape, pooled=False)
    for cell, successor in zip(cells.tolist(), successors.tolist(), strict=True):
        apart.table.add(cell, successor)
    before = once.agreement.copy()
    once.include(apart)
    shown = []
    for _ in range(60):
        order, one = rng.permutation(300), Counts(shape, pooled=False, borrowing=True)
        for place in order.tolist():
            one.learn(int(cells[place]), int(successors[place]))
        shown.append(one.agreement - before)
    mean, spread = np.mean(shown, axis=0), np.std(shown, axis=0) / np.sqrt(60)
    # the first steps of a pair have no others to compare with, which random orders miss
    assert (np.abs(once.agreement - before - mean) <= 5 * spread + 0.03 * mean).all()
    assert once.state_agreement.sum(axis=0) == pytest.approx(once.agreement - before)
    assert (once.pool.total == np.bincount(cells % 3, minlength=3)).all()  # type: ignore[union-attr]


def test_columns_of_a_table_may_have_other_names(tmp_path: Path) -> None:
    cg.cover(GRID, "uniform:2", out=tmp_path / "first")
    table = pq.read_table(tmp_path / "first" / "episodes").rename_columns(
        ["trip", "h", "s", "a", "paid", "then", "terminated", "truncated"]
    )
    pq.write_table(table, tmp_path / "theirs.parquet")
    asked = {"episode": "trip", "state": "s", "action": "a", "reward": "paid", "next_state": "then"}
    path = str(tmp_path / "theirs.parquet")
    named = cg.cover(GRID, "uniform:3", start_from=path, columns=asked, seed=4)
    ours = cg.cover(GRID, "uniform:3", start_from=tmp_path / "first", seed=4)
    assert (named.given_visits == ours.given_visits).all()
    assert named.n_episodes == ours.n_episodes
    said = ",".join(f"{mine}={theirs}" for mine, theirs in asked.items())
    done = covgame(
        *("cover", GRID, "--target", "uniform:3", "--from", path, "--columns", said, "--json"),
        *("--out", str(tmp_path / "run"), "--seed", "4"),
    )
    assert json.loads(done.stdout)["episodes"] == ours.n_episodes
    for command, more in (("cover", []), ("explore", ["--epsilon", "1"])):
        refused = covgame(command, GRID, *more, "--columns", "state=s")
        assert refused.returncode == 2
        assert "there are none" in refused.stderr


# ----------------------------------------------------------------------- explore and identify


@pytest.mark.parametrize("command", ["explore", "identify"])
def test_certificates_rest_on_given_data_too(command: str, tmp_path: Path) -> None:
    learn: Any = cg.explore if command == "explore" else cg.identify
    cg.cover(TOY, "uniform:200", seed=1, out=tmp_path / "first")
    alone = learn(TOY, epsilon=0.8, seed=2, out=tmp_path / "alone")
    told = {"epsilon": 0.8, "seed": 2, "start_from": tmp_path / "first"}
    run = learn(TOY, out=tmp_path / "whole", **told)
    assert run.done
    assert 0 <= run.n_episodes < alone.n_episodes
    assert run.counts.n_episodes == run.n_episodes + run.n_given
    checked = cg.certify(tmp_path / "whole")
    assert checked.episodes == run.counts.n_episodes
    assert "no episode was left out because of its outcome" in checked.assumptions[-1]
    assert checked.assumptions == run.assumptions
    assert checked.assumptions[-1] in run.to_text()
    if run.n_episodes > 1:
        learn(TOY, out=tmp_path / "parts", max_episodes=run.n_episodes // 2, **told)
        again = cg.resume(tmp_path / "parts", max_episodes=10**9)
        assert again.n_episodes == run.n_episodes
        assert (again.counts.visits == run.counts.visits).all()
    shutil.rmtree(tmp_path / "whole" / "given")
    with pytest.raises(BadInput):
        cg.certify(tmp_path / "whole")


def test_data_may_be_enough_for_a_certificate(tmp_path: Path) -> None:
    cg.explore(TOY, epsilon=0.9, seed=1, out=tmp_path / "first")
    run = cg.explore(TOY, epsilon=0.9, seed=2, start_from=tmp_path / "first", out=tmp_path / "run")
    assert run.done
    assert run.n_episodes == 0
    assert cg.certify(tmp_path / "run").claim == "reward-free"


def test_validation_replays_from_given_data(tmp_path: Path) -> None:
    """The policy of a certificate may be validated by episodes after the given ones."""
    cg.cover("gym:FrozenLake-v1", "uniform:30/pair", horizon=6, seed=1, out=tmp_path / "first")
    run = cg.identify(
        "gym:FrozenLake-v1",
        horizon=6,
        epsilon=0.25,
        return_range=(0, 1),
        start_from=tmp_path / "first",
        out=tmp_path / "run",
    )
    assert run.n_given > 0
    assert cg.certify(tmp_path / "run").claim == "best-policy"


def test_what_cannot_be_started_from_is_refused(tmp_path: Path) -> None:
    cg.cover(TOY, "uniform:2", out=tmp_path / "first")
    first = tmp_path / "first"
    with pytest.raises(BadInput, match='preset="certified"'):
        cg.explore(TOY, epsilon=1.5, preset="paper", start_from=first)
    for learn in (cg.explore, cg.identify):
        with pytest.raises(BadInput, match='play="exact"'):
            learn(TOY, epsilon=1.5, play="counts", start_from=first)
    with pytest.raises(BadInput, match='play="exact"'):
        cg.cover(TOY, "uniform:2", play="counts", start_from=first)
    with pytest.raises(BadInput, match="5"):
        cg.cover("chain:states=2,horizon=3", "uniform:2", start_from=tmp_path / "nowhere5")


def test_rewards_outside_the_range_are_refused(tmp_path: Path) -> None:
    cg.cover("gym:FrozenLake-v1", "uniform:9/pair", horizon=8, out=tmp_path / "first")
    for asked in ({"reward_range": (0.0, 0.5)}, {"return_range": (0.0, 0.5)}):
        shown: Any = {"horizon": 8, "epsilon": 0.5, "max_episodes": 5, **asked}
        with pytest.raises((BadInput, cg.EnvironmentFailed), match=r"outside|more than"):
            cg.identify("gym:FrozenLake-v1", start_from=tmp_path / "first", **shown)


def test_on_the_command_line(tmp_path: Path) -> None:
    first, out = tmp_path / "first", tmp_path / "second"
    assert covgame("cover", GRID, "--target", "uniform:2", "--out", str(first)).returncode == 0
    done = covgame(
        "cover", GRID, "--target", "uniform:4", "--from", str(first), "--out", str(out), "--json"
    )
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["covered"]
    assert answer["given"][0]["data"] == str(first)
    shown = covgame("resume", str(out))
    assert f" from {first} (" in shown.stdout
    missing = covgame("cover", GRID, "--target", "uniform:4", "--from", str(tmp_path / "none"))
    assert missing.returncode == 2
    assert missing.stdout == ""
    learnt = covgame(
        "explore", TOY, "--epsilon", "2", "--from", str(first), "--out", str(tmp_path / "e")
    )
    assert learnt.returncode == 2  # another world's states
