"""Covering from start to end: what a run promises, in memory and on disk."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.config import CoverConfig
from covgame.errors import BadInput, UnreachableTarget
from covgame.game.progress import progress_of
from covgame.mdp.files import save_model
from covgame.runs.cover import start
from covgame.runs.loop import play
from covgame.runs.resume import load, resume
from covgame.runs.run import create_folder
from covgame.storage import episodes as shard_files
from covgame.storage.episodes import shards
from covgame.storage.folder import RunFolder
from covgame.storage.reading import RecordedEpisodes
from tests.doors import Door
from tests.rundb import arrays_of, config_of, content_of, drop_arrays, query, set_config
from tests.runs import coverage_at
from tests.test_cli import covgame, interrupted
from tests.test_model_files import CONTRACT

WORLDS: dict[str, dict[str, Any]] = {
    "riverswim:states=5,horizon=8": {},
    "grid:rows=3,columns=3,horizon=6,ends=true": {},
    "garnet:states=6,actions=3,horizon=5": {},
    "riverswim:states=6,horizon=9": {"stage_dependent": True},
    "chain:states=5,horizon=7": {"preset": "paper"},
}
REACH = 0.02


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of a few dozen episodes, so that a short run has many."""
    monkeypatch.setattr(shard_files, "STEPS_PER_SHARD", 300)


# ---------------------------------------------------------------------------- in memory


def test_the_contracts_example() -> None:
    env = cg.make("riverswim:states=5", horizon=8)
    run = cg.cover(env, cg.uniform(5), seed=0, min_reach=REACH)
    assert run.covered
    assert run.uncovered == []
    assert run.n_episodes == run.counts.visits[0].sum()
    assert run.counts.visits.shape == (8, 5, 2)
    assert run.min_episodes == cg.plan(env, cg.uniform(5), min_reach=REACH).min_episodes
    assert run.ratio == run.n_episodes / run.min_episodes
    assert run.path is None
    assert "covered" in repr(run)


@pytest.mark.parametrize("name", WORLDS)
def test_what_was_asked_is_there(name: str) -> None:
    run = cg.cover(name, "uniform:3", min_reach=REACH, **WORLDS[name])
    assert run.covered
    assert (run.target.collected(run.counts.visits) >= run.target.counts).all()


def test_a_seed_decides_the_run() -> None:
    one, same, other = (
        cg.cover("grid", "uniform:2/pair", seed=seed).counts.visits for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_a_budget_stops_the_run() -> None:
    run = cg.cover("grid", "uniform:50/pair", max_episodes=7)
    assert (run.n_episodes, run.covered, run.stopped) == (7, False, "budget")
    assert len(run.uncovered) > 0
    assert "Still missing" in run.to_text()
    assert cg.cover("grid", "uniform:50/pair", max_episodes=0).n_episodes == 0


def test_progress_is_told_after_every_block() -> None:
    seen: list[int] = []
    run = cg.cover("grid", "uniform:20/pair", progress=lambda r: seen.append(r.n_episodes))
    assert seen[-1] == run.n_episodes
    assert seen == sorted(seen)


@pytest.mark.parametrize(
    "wrong",
    [
        {"seed": -1},
        {"seed": 1.5},
        {"seed": True},
        {"preset": "certified"},
        {"delta": 0},
        {"delta": float("nan")},
        {"max_episodes": -1},
        {"max_episodes": 2.5},
        {"min_reach": 2},
    ],
)
def test_settings_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        cg.cover("grid", "uniform:1", **wrong)


def test_a_cell_out_of_reach_is_named_before_any_episode() -> None:
    with pytest.raises(UnreachableTarget, match="stage 0, state 3"):
        cg.cover("riverswim:states=5", cg.cells([(0, 3, 0, 1)]))


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_nothing_to_cover_takes_no_episode(preset: Any) -> None:
    run = cg.cover("grid", cg.cells([]), preset=preset)
    assert (run.n_episodes, run.covered, run.min_episodes, run.ratio) == (0, True, 0.0, None)


def test_what_is_left_is_the_lp_of_the_remainder() -> None:
    run = start("riverswim:states=5,horizon=8", "uniform:20", CoverConfig(min_reach=REACH))
    before = progress_of(run.game)
    assert before.episodes_left is None
    assert before.rows_unvisited == before.rows_open == before.rows
    views = [progress_of(run.game) for _ in play(run)]
    assert run.min_episodes is not None
    late = [view for view in views if view.n_episodes > run.n_episodes / 2 and view.rows_open]
    assert late
    for view in late:
        assert view.rows_unvisited == 0
        assert view.episodes_left is not None
        total = view.n_episodes + view.episodes_left
        assert 0.5 * run.n_episodes < total < 1.5 * run.n_episodes
        assert view.hardest
    assert views[-1].share_covered == 1.0
    assert views[-1].episodes_left == 0.0


def test_what_is_left_of_a_large_world_is_bounded() -> None:
    run = start(
        "garnet:states=40,actions=4,horizon=25,stationary=true",
        "uniform:3",
        CoverConfig(max_episodes=400),
    )
    for _ in play(run):
        pass
    view = progress_of(run.game)
    assert view.episodes_left is not None
    assert view.episodes_left > 0


# ------------------------------------------------------------------------------ on disk


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("name", WORLDS)
def test_the_files_alone_show_the_coverage(name: str, tmp_path: Path) -> None:
    run = cg.cover(name, "uniform:3", min_reach=REACH, out=tmp_path, **WORLDS[name])
    assert len(shards(tmp_path / "episodes")) > 1
    recorded = RecordedEpisodes(tmp_path / "episodes", run.target.shape)
    visits = recorded.counts(pooled=run.counts.pooled).visits
    np.testing.assert_array_equal(visits, run.counts.visits)
    assert (run.target.collected(visits) >= run.target.counts).all()
    np.testing.assert_array_equal(arrays_of(tmp_path)["visits"], visits)


def test_steps_are_written_as_the_contract_says(tmp_path: Path) -> None:
    """Types, stages from 0, -1 where there is no next state, and who terminated."""
    world = cg.make("grid:rows=3,columns=3,horizon=6,ends=true").require_model("a test")
    cg.cover(world, "uniform:3", min_reach=REACH, out=tmp_path)
    table = pq.read_table(tmp_path / "episodes")
    assert {field.name: str(field.type) for field in table.schema} == {
        "episode": "int64",
        "stage": "int32",
        "state": "int64",
        "action": "int32",
        "reward": "double",
        "next_state": "int64",
        "terminated": "bool",
        "truncated": "bool",
    }
    columns = {name: table[name].to_numpy() for name in table.column_names}
    starts = columns["stage"] == 0
    assert (columns["episode"][starts] == np.arange(starts.sum())).all()
    last = np.append(starts[1:], True)
    assert (columns["next_state"][last] == -1).all()
    assert (columns["next_state"][~last] == columns["state"][1:][~last[:-1]]).all()
    assert (columns["terminated"] <= last).all()
    assert columns["terminated"].any()
    assert (columns["truncated"] == (last & ~columns["terminated"])).all()
    assert (columns["stage"][columns["truncated"]] == 5).all()


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("name", WORLDS)
def test_same_seed_same_bytes(name: str, tmp_path: Path) -> None:
    for folder in ("one", "other"):
        cg.cover(name, "uniform:3", min_reach=REACH, out=tmp_path / folder, **WORLDS[name])
    assert content_of(tmp_path / "one") == content_of(tmp_path / "other")


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("stops", [[1], [37, 38, 60], [75], [150]])
def test_stopped_and_resumed_is_unbroken(name: str, stops: list[int], tmp_path: Path) -> None:
    asked: dict[str, Any] = {"min_reach": REACH, **WORLDS[name]}
    whole = cg.cover(name, "uniform:3", out=tmp_path / "whole", **asked)
    assert whole.n_episodes > 60
    parts = tmp_path / "parts"
    run = cg.cover(name, "uniform:3", out=parts, max_episodes=stops[0], **asked)
    for stop in stops[1:]:
        run = resume(parts, max_episodes=stop)
        assert run.n_episodes == min(stop, whole.n_episodes)
    run = resume(parts, max_episodes=10**9)
    assert run.covered
    assert run.n_episodes == whole.n_episodes
    np.testing.assert_array_equal(run.game.state.weights, whole.game.state.weights)
    assert content_of(tmp_path / "whole") == content_of(parts)


@pytest.mark.usefixtures("small_shards")
def test_killed_at_any_point_is_resumed(tmp_path: Path) -> None:
    """Whatever of a run had reached the disk, the end is the same."""
    name = "riverswim:states=5,horizon=8"
    asked: dict[str, Any] = {"min_reach": REACH}
    cg.cover(name, "uniform:3", out=tmp_path / "whole", **asked)
    expected = content_of(tmp_path / "whole")

    def begin(folder: Path) -> None:
        run = start(name, "uniform:3", CoverConfig(**asked))
        create_folder(run, folder)

    begin(tmp_path / "only the database")
    begin(tmp_path / "shards but no counts")
    for path in shards(tmp_path / "whole" / "episodes")[:2]:
        target = tmp_path / "shards but no counts" / "episodes" / path.name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    old = tmp_path / "state older than shards"
    cg.cover(name, "uniform:3", out=old, max_episodes=50, **asked)
    for path in shards(tmp_path / "whole" / "episodes"):
        (old / "episodes" / path.name).write_bytes(path.read_bytes())
    (old / ".report.html.draft").write_bytes(b"torn")
    for folder in ("only the database", "shards but no counts", "state older than shards"):
        assert resume(tmp_path / folder, max_episodes=10**9).covered
        assert content_of(tmp_path / folder) == expected


def test_a_model_of_ones_own_is_kept_with_the_run(tmp_path: Path) -> None:
    world = cg.make("garnet:states=5,actions=2,horizon=4,seed=3").require_model("a test")
    save_model(world, tmp_path / "model.json")
    whole = cg.cover(tmp_path / "model.json", "uniform:4", out=tmp_path / "a", min_reach=REACH)
    cg.cover(world, "uniform:4", out=tmp_path / "b", max_episodes=5, min_reach=REACH)
    (tmp_path / "model.json").unlink()
    run = resume(tmp_path / "b", max_episodes=10**6)
    np.testing.assert_array_equal(run.counts.visits, whole.counts.visits)
    again = coverage_at(tmp_path / "a")
    assert again.covered
    assert again.stopped == "covered"


def test_a_folder_is_never_mixed_up(tmp_path: Path) -> None:
    cg.cover("grid", "uniform:1/state", out=tmp_path / "run")
    with pytest.raises(BadInput, match="covgame resume"):
        cg.cover("grid", "uniform:1/state", out=tmp_path / "run")
    (tmp_path / "run" / "run.db").unlink()
    with pytest.raises(BadInput, match="another run"):
        cg.cover("grid", "uniform:1/state", out=tmp_path / "run")
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="is a file"):
        cg.cover("grid", "uniform:1/state", out=tmp_path / "file")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "readme.txt").touch()
    assert cg.cover("grid", "uniform:1/state", out=tmp_path / "notes").covered


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE config SET json='{'", "not valid JSON"),
        ("UPDATE config SET json='{}'", "has no configuration"),
        ("DELETE FROM config", "config has 0 rows"),
        ("UPDATE config SET json=json_remove(json, '$.seed')", "is missing"),
        ("UPDATE config SET json=json_set(json, '$.command', 'dance')", "should be 'cover'"),
        ("UPDATE documents SET json='[]'", "JSON object"),
        ("DELETE FROM documents", "JSON object"),
        ("DELETE FROM sealed", "sealed has 0 rows"),
        ("CREATE VIEW more AS SELECT * FROM config", "no database of a covgame run"),
        ("CREATE TRIGGER more DELETE ON arrays BEGIN DELETE FROM states; END", "no database"),
        ("DROP TABLE states", "no database"),
        ("PRAGMA application_id=1", "no database"),
    ],
)
def test_a_damaged_run_is_refused(damage: str, words: str, tmp_path: Path) -> None:
    cg.cover(Door, "uniform:9/state", out=tmp_path, max_episodes=3)
    query(tmp_path, damage)
    with pytest.raises(BadInput, match=words):
        resume(tmp_path, max_episodes=4, env=Door)


def test_a_damaged_configuration_is_refused_field_by_field(tmp_path: Path) -> None:
    cg.cover("grid", "uniform:9/state", out=tmp_path, max_episodes=3)
    whole = config_of(tmp_path)
    for key, wrong in [
        ("min_reach", "abc"),
        ("min_reach", -1),
        ("preset", "best"),
        ("stage_dependent", "false"),
        ("environment", 5),
        ("unreachable", ["abcd"]),
        ("seed", -1),
    ]:
        set_config(tmp_path, **whole | {key: wrong})
        with pytest.raises(BadInput):
            resume(tmp_path)


@pytest.mark.usefixtures("small_shards")
def test_missing_episodes_are_noticed(tmp_path: Path) -> None:
    cg.cover("grid", "uniform:90/state", out=tmp_path, max_episodes=80)
    first, *_, last = shards(tmp_path / "episodes")
    for path in (first, last):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(BadInput, match="restore it from a copy, or play the run again"):
            resume(tmp_path, max_episodes=10**6)
        path.write_bytes(content)
    drop_arrays(tmp_path)
    first.unlink()
    (tmp_path / "episodes" / "part-of-something.parquet").touch()
    assert resume(tmp_path, max_episodes=90).n_episodes == 90


def test_finished_is_checked_not_believed(tmp_path: Path) -> None:
    whole = cg.cover("grid", "uniform:2/state", out=tmp_path)
    drop_arrays(tmp_path)
    assert load(tmp_path).stopped is None
    assert resume(tmp_path).n_episodes == whole.n_episodes


def test_small_traps(tmp_path: Path) -> None:
    cg.cover("riverswim:states=4,horizon=+6", "uniform:1/pair", out=tmp_path / "plus")
    assert coverage_at(tmp_path / "plus").covered
    assert cg.cover("grid", "uniform:1/pair", seed=np.int64(3)).settings.seed == 3  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="already"):
        cg.cover(cg.make("grid"), "uniform:1", horizon=3)
    tiny = cg.cover("grid", "uniform:1e-320/pair")
    assert tiny.covered
    assert tiny.to_dict()["ratio"] is None
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="can be written"):
        cg.cover("grid", "uniform:1/pair", out=tmp_path / "file" / "x")
    with pytest.raises(BadInput, match="another map"):
        cg.make("gym:FrozenLake-v1?map_name=null")


def test_no_run_at_all(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is not a covgame run"):
        RunFolder.open(tmp_path)


# -------------------------------------------------------------------- the command line


def test_cover_from_the_command_line(tmp_path: Path) -> None:
    done = covgame("cover", "grid", "--target", "uniform:2/pair", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "this run took" in done.stdout
    assert (tmp_path / "runs" / "grid-1" / "run.db").is_file()
    again = covgame("cover", "grid", "--target", "uniform:2/pair", "--json", cwd=tmp_path)
    answer = json.loads(again.stdout)
    assert answer["run"] == "runs/grid-2"
    assert answer["covered"] is True
    assert answer["ratio"] == pytest.approx(answer["episodes"] / answer["min_episodes"])
    assert {"uncovered", "unreachable", "seed", "preset"} <= set(answer)
    at_once = covgame("resume", "runs/grid-2", "--json", cwd=tmp_path)
    assert at_once.returncode == 0
    assert json.loads(at_once.stdout) == answer


def test_a_spent_budget_exits_with_3_and_can_be_raised(tmp_path: Path) -> None:
    out = str(tmp_path / "run")
    target = tmp_path / "target.json"
    target.write_text('{"format": "covgame-target/1", "cells": [[1, 1, 0, 40]]}')
    model = tmp_path / "model.json"
    model.write_text(json.dumps(CONTRACT))
    asked = ["cover", str(model), "--target", str(target), "--out", out, "--json"]
    done = covgame(*asked, "--max-episodes", "10")
    assert done.returncode == 3
    assert f"covgame resume {out}" in done.stderr
    answer = json.loads(done.stdout)
    assert (answer["episodes"], answer["covered"]) == (10, False)
    assert answer["uncovered"][0][:3] == [1, 1, 0]
    assert covgame(*asked).returncode == 2
    still = covgame("resume", out, "--json")
    assert still.returncode == 3
    more = covgame("resume", out, "--json", "--max-episodes", "100000", "--quiet")
    assert more.returncode == 0
    assert more.stderr == ""
    assert json.loads(more.stdout)["covered"] is True


def test_min_reach_lists_what_it_leaves_out(tmp_path: Path) -> None:
    done = covgame(
        *("cover", "riverswim:states=6,horizon=8", "--target", "uniform:1", "--json"),
        *("--min-reach", "0.05", "--out", str(tmp_path / "run")),
    )
    answer = json.loads(done.stdout)
    assert answer["covered"] is True
    assert answer["unreachable"]
    assert all(0 < bound < 0.05 for *_, bound in answer["unreachable"])


@pytest.mark.parametrize(
    "wrong",
    [
        ["nowhere", "--target", "uniform:1"],
        ["grid", "--target", "unifrom:1"],
        ["grid", "--target", "uniform:x"],
        ["grid", "--target", "uniform:1", "--seed", "-4"],
        ["grid", "--target", "uniform:1", "--preset", "best"],
        ["grid", "--target", "uniform:1", "--max-episodes", "-1"],
        ["grid", "--target", "uniform:1", "--delta", "7"],
        ["grid", "--target", "uniform:1", "--min-reach", "7"],
    ],
)
def test_bad_input_exits_with_2_and_leaves_nothing(wrong: list[str], tmp_path: Path) -> None:
    done = covgame("cover", *wrong, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("covgame: ")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "kind", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_ctrl_c_saves_and_the_rest_is_unbroken(kind: signal.Signals, tmp_path: Path) -> None:
    asked = ["riverswim:states=8", "--target", "uniform:40", "--min-reach", "0.0005", "--json"]
    done = interrupted(kind, 1000, "cover", *asked, "--out", "broken", cwd=tmp_path)
    assert done.returncode == 130, done.stderr
    assert "covgame resume broken" in done.stderr
    stopped = json.loads(done.stdout)
    assert stopped["stopped"] == "interrupted"
    resumed = covgame("resume", "broken", "--json", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    whole = covgame("cover", *asked, "--out", "whole", cwd=tmp_path)
    assert json.loads(resumed.stdout)["episodes"] == json.loads(whole.stdout)["episodes"]
    assert stopped["episodes"] < json.loads(whole.stdout)["episodes"]
    one, other = content_of(tmp_path / "broken"), content_of(tmp_path / "whole")
    for content in (one, other):
        content.pop("result")
    assert one == other
