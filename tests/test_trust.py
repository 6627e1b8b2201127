"""A run folder is data: what it names is not imported, and what it holds does not surprise."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from covgame.storage import trust
from tests.rundb import set_config
from tests.runs import Corner
from tests.test_cli import covgame

WORLD = "chain:states=3,horizon=4"

MINE = """
import pathlib
pathlib.Path("imported").touch()

class World:
    actions, horizon = 2, 3

    def reset(self):
        self.at = 0
        return "start"

    def step(self, action):
        self.at += 1
        return f"place {self.at}{action}", 1.0, False

def half(observation):
    return observation[:4]

class Left:
    def plan(self, counts, reward):
        import covgame, numpy
        return covgame.Policy(numpy.zeros(counts.shape.hs, dtype=numpy.int64), 2)
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A folder with a module of its own, which leaves a trace when it is imported."""
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


def stopped(folder: Path, *options: str, name: str = "py:mine:World") -> None:
    asked = ["cover", name, "--target", "uniform:9/pair", "--max-episodes", "4", "--out", "run"]
    done = covgame(*asked, *options, cwd=folder)
    assert done.returncode == 3, done.stderr
    (folder / "imported").unlink()


# ------------------------------------------------------------------ code that a folder names


def test_resume_asks_before_it_imports(mine: Path) -> None:
    stopped(mine)
    refused = covgame("resume", "run", cwd=mine)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "would import py:mine:World" in refused.stderr
    assert "covgame resume run --trust, or name it again: --env py:mine:World" in refused.stderr
    assert not (mine / "imported").exists()
    taken = covgame("cover", "py:mine:World", "--out", "run", cwd=mine)
    assert "covgame resume run --trust, or choose another --out" in taken.stderr


@pytest.mark.parametrize("agreed", [["--trust"], ["--env", "py:mine:World"]])
def test_resume_goes_on_for_who_agrees(agreed: list[str], mine: Path) -> None:
    stopped(mine)
    done = covgame("resume", "run", "--max-episodes", "6", "--json", *agreed, cwd=mine)
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout)["episodes"] == 6
    assert "go on with: covgame resume run --trust --max-episodes N" in done.stderr


@pytest.mark.parametrize(
    "reading",
    [
        ["certify"],
        ["policy"],
        ["audit", "--target", "uniform:1/pair"],
        ["export", "--to", "csv", "--out", "steps.csv"],
    ],
    ids=lambda asked: asked[0],
)
def test_whatever_only_reads_imports_nothing(reading: list[str], mine: Path) -> None:
    stopped(mine)
    command, *options = reading
    done = covgame(command, "run", *options, cwd=mine)
    expected = 2 if command == "certify" else 0
    assert done.returncode == expected, done.stderr
    assert not (mine / "imported").exists()
    if command == "certify":
        assert "does not cover its target" in done.stderr


def test_rewards_by_label_are_found_without_the_environment(mine: Path) -> None:
    stopped(mine)
    reward = {"format": "covgame-reward/1", "rewards": [[None, "start", 1, 0.5]]}
    (mine / "reward.json").write_text(json.dumps(reward))
    done = covgame("policy", "run", "--reward", "reward.json", "--json", cwd=mine)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["value"] == pytest.approx(0.5)
    assert not (mine / "imported").exists()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"states": "py:mine:half"},
        {"planner": "py:mine:Left"},
    ],
)
def test_a_run_is_read_without_its_code(
    options: dict[str, str], mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(mine, *(word for key, name in options.items() for word in (f"--{key}", name)))
    monkeypatch.chdir(mine)
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # another test may have had one
    run = cg.load("run")
    assert run.n_episodes == 4
    assert len(list(run.episodes())) == 4
    for name in ("py:mine:World", *options.values()):
        assert name in str(run.environment.absent)
    assert "mine" not in sys.modules
    with pytest.raises(cg.BadInput, match="would import py:mine:World"):
        cg.resume("run")
    assert "mine" not in sys.modules


def test_what_is_handed_over_is_trusted_and_nothing_else(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped(mine, "--states", "py:mine:half")
    monkeypatch.chdir(mine)
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # another test may have had one

    class World:
        actions, horizon = 2, 3

        def reset(self) -> str:
            return "start"

        def step(self, action: int) -> Any:
            return f"place {action}", 1.0, False

    with pytest.raises(cg.BadInput, match="would import py:mine:half"):
        cg.resume("run", env=World)
    whole = cg.make(World, 3, states=lambda shown: shown[:4])
    assert cg.resume("run", env=whole, max_episodes=6).n_episodes == 6
    assert "mine" not in sys.modules


@pytest.mark.parametrize("name", ["gym:evil_module:World-v0", "gym:evil_module:World-v0?n=1:2"])
def test_gymnasium_imports_no_module_of_a_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cg.cover("gym:FrozenLake-v1", "uniform:1/pair", horizon=8, max_episodes=9, out=tmp_path / "run")
    (tmp_path / "evil_module.py").write_text("raise SystemExit(77)")
    monkeypatch.syspath_prepend(str(tmp_path))
    set_config(tmp_path / "run", environment=name)
    assert cg.load(tmp_path / "run").n_episodes == 9
    with pytest.raises(cg.BadInput, match="would import gym:evil_module:World-v0"):
        cg.resume(tmp_path / "run")
    cg.export(tmp_path / "run", to="minari", out=tmp_path / "frozen-v0")


def test_names_of_gymnasium_and_families_need_no_trust() -> None:
    for name in ("gym:FrozenLake-v1?map_name=8x8", "gym:Taxi-v3?a=b:c", WORLD):
        assert not trust.code_named({"environment": name, "model": None})
    assert not trust.code_named({"environment": "py:a:b", "model": None, "by_name": False})
    assert trust.code_named({"environment": WORLD, "adversary": "py:a:b"}) == {
        "adversary": "py:a:b"
    }


def test_a_folder_names_no_model_elsewhere(tmp_path: Path) -> None:
    cg.cover(WORLD, "uniform:1/pair", max_episodes=1, out=tmp_path / "run")
    (tmp_path / "model.json").write_text("{}")
    set_config(tmp_path / "run", environment=str(tmp_path / "model.json"))
    with pytest.raises(cg.BadInput, match="names an environment that does not exist"):
        cg.load(tmp_path / "run")


def test_the_command_to_resume_can_be_pasted(tmp_path: Path) -> None:
    run = cg.cover(WORLD, "uniform:1/pair", max_episodes=1, out=tmp_path / "my run; ls")
    assert run.resume_command == f"covgame resume '{tmp_path / 'my run; ls'}'"


@pytest.mark.parametrize("library", ["numpy", "click", "pyarrow", "json", "gymnasium"])
def test_libraries_are_not_taken_from_the_current_folder(library: str, tmp_path: Path) -> None:
    (tmp_path / f"{library}.py").write_text("raise SystemExit(77)")
    (tmp_path / "mine.py").write_text(MINE)
    asked = ["cover", "py:mine:World", "--target", "uniform:1/pair", "--out", "run"]
    assert covgame(*asked, cwd=tmp_path).returncode == 0


def test_the_current_folder_is_searched_last_and_for_who_asks(
    mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [one for one in sys.path if one not in ("", str(mine))])
    monkeypatch.chdir(mine)
    cg.make(WORLD)
    assert str(mine) not in sys.path
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    cg.make("py:mine:World")
    monkeypatch.delitem(sys.modules, "mine")
    assert sys.path[-1] == str(mine)


# --------------------------------------------------------------------------- links and places


@pytest.fixture
def run(tmp_path: Path) -> Path:
    cg.cover(WORLD, "uniform:2/pair", out=tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", ["run.db", "run.db-wal", "run.db-journal", "episodes"])
def test_links_are_not_followed(name: str, run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    if (run / name).exists():
        (run / name).rename(elsewhere)
    else:
        elsewhere.write_bytes(b"mine")
    (run / name).symlink_to(elsewhere)
    before = elsewhere.read_bytes() if elsewhere.is_file() else b""
    with pytest.raises(cg.BadInput, match=r"is no ordinary file|is a symbolic link"):
        cg.certify(run)
    for reading in (["audit", str(run), "--target", "uniform:1"], ["certify", str(run)]):
        done = covgame(*reading)
        assert (done.returncode, done.stdout) == (2, "")
    assert not elsewhere.is_file() or elsewhere.read_bytes() == before


def test_links_in_folders_of_a_run_are_not_followed_either(run: Path, tmp_path: Path) -> None:
    shard = run / "episodes" / "part-000000.parquet"
    shard.rename(tmp_path / "shard")
    shard.symlink_to("../../shard")
    with pytest.raises(cg.BadInput, match="is a symbolic link"):
        cg.certify(run)


def test_a_link_to_a_run_is_fine(run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run)
    assert cg.certify(tmp_path / "link").claim == "coverage"


def test_no_run_begins_behind_a_link(run: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "episodes").symlink_to(run / "episodes")
    with pytest.raises(cg.BadInput, match="is a link"):
        cg.cover(WORLD, "uniform:2/pair", out=tmp_path / "new")


def test_a_file_in_the_place_of_a_folder(run: Path) -> None:
    (run / "episodes").rename(run / "moved")
    (run / "episodes").write_text("")
    with pytest.raises(cg.BadInput, match="has lost its episodes"):
        cg.certify(run)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
@pytest.mark.parametrize("name", ["run.db-wal", "episodes/part-000001.parquet"])
def test_reading_does_not_wait_for_a_pipe(name: str, run: Path) -> None:
    os.mkfifo(run / name)
    with pytest.raises(cg.BadInput, match="is no ordinary file"):
        cg.certify(run)


# ---------------------------------------------------------------------------- refused, answered


@pytest.mark.parametrize("preset", ["certified", "paper"])
def test_a_reward_range_that_does_not_hold_is_refused(preset: str, tmp_path: Path) -> None:
    asked = ["identify", WORLD, "--epsilon", "1", "--preset", preset, "--out", str(tmp_path / "r")]
    done = covgame(*asked, "--reward-range", "0,0.001")
    assert (done.returncode, done.stdout) == (2, "")
    assert "simulated rewards are 0 or 1" in done.stderr


def test_a_wider_reward_range_is_kept_to(tmp_path: Path) -> None:
    run = cg.identify(WORLD, epsilon=3, reward_range=(0.0, 2.0), out=tmp_path, max_episodes=4000)
    assert run.certified_gap is not None
    assert "every step pays between 0 and 2" in cg.certify(tmp_path).assumptions


RAISING = """
class World:
    actions, horizon = 2, 3
    def reset(self):
        raise RuntimeError("no licence")
    def step(self, action):
        return 0, 0.0, False
"""


@pytest.mark.parametrize("command", ["cover", "explore", "identify"])
def test_an_environment_that_never_begins_is_answered(command: str, tmp_path: Path) -> None:
    (tmp_path / "raising.py").write_text(RAISING)
    options = [] if command == "cover" else ["--epsilon", "1", "--most-states", "3"]
    done = covgame(command, "py:raising:World", *options, "--out", "run", "--json", cwd=tmp_path)
    assert done.returncode == 4, done.stderr
    answer = json.loads(done.stdout)
    assert answer["episodes"] == 0
    assert "no licence" in done.stderr
    assert (tmp_path / "run" / "run.db").is_file()


def test_data_of_another_environment_are_bad_input(tmp_path: Path) -> None:
    cg.cover(Corner, "uniform:2/pair", out=tmp_path / "run")
    lake: Any = {"env": "gym:FrozenLake-v1", "horizon": 8}
    with pytest.raises(cg.BadInput, match="from another environment"):
        cg.cover(target="uniform:2/pair", start_from=tmp_path / "run", **lake)
    with pytest.raises(cg.BadInput, match="from another environment"):
        cg.audit(tmp_path / "run", "uniform:2/pair", **lake)
