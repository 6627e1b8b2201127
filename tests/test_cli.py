"""The command line as people and scripts use it: in a process of its own."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from covgame.cli.main import main
from tests.test_architecture import HEAVY
from tests.test_model_files import CONTRACT

FOREVER = 3600
"""Seconds after which a command hangs, and is not just on a busy machine."""


def covgame(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "covgame", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=FOREVER,
    )


INTERRUPTING = """
import signal, sys
from covgame.cli.main import run
from covgame.storage.recorder import EpisodeRecorder, SimulatedRecorder

kind, episodes = (int(sys.argv.pop(1)) for _ in range(2))

def interrupt_in(recorder):
    add = recorder.add

    def add_and_interrupt(self, block):
        add(self, block)
        if block.first_episode + len(block) >= episodes:
            signal.raise_signal(kind)

    recorder.add = add_and_interrupt

interrupt_in(EpisodeRecorder)
interrupt_in(SimulatedRecorder)
run()
"""


def interrupted(
    kind: signal.Signals, episodes: int, *arguments: str, cwd: Path
) -> subprocess.CompletedProcess[str]:
    """The command, which gets a signal after so many episodes, however fast they are played."""
    return subprocess.run(
        [sys.executable, "-c", INTERRUPTING, str(int(kind)), str(episodes), *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
        timeout=FOREVER,
    )


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(CONTRACT))
    return path


def test_plan_prints_a_page() -> None:
    done = covgame("plan", "riverswim:states=8", "--target", "uniform:50", "--top", "2")
    assert done.returncode == 0, done.stderr
    assert "at least 115,080 on average" in done.stdout
    assert done.stdout.count("stage 7: state 7 / ") == 2
    assert done.stderr == ""


def test_plan_json_is_one_object_and_nothing_else(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text(
        '{"format": "covgame-target/1", "cells": [[1, 1, 0, 10], [null, 0, null, 3]]}'
    )
    done = covgame("plan", str(model), "--target", str(target), "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["min_episodes"] == pytest.approx(40)
    assert answer["bounds"] is None
    assert answer["dearest"][0] == [1, 1, 0, pytest.approx(4)]
    assert answer["cells"] == 4
    assert done.stdout.count("\n") == 1


def test_plan_on_gymnasium() -> None:
    done = covgame(
        "plan", "gym:FrozenLake-v1", "--horizon", "12", "--target", "uniform:1", "--json"
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["min_episodes"] == pytest.approx(418, rel=1e-6)
    assert done.stderr == ""


def test_min_reach_lists_what_it_drops() -> None:
    arguments = ("plan", "riverswim", "--target", "uniform:1", "--min-reach", "0.1", "--json")
    answer = json.loads(covgame(*arguments).stdout)
    assert answer["unreachable"]
    assert all(len(row) == 4 and row[3] < 0.1 for row in answer["unreachable"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "riverswim"], "--target"),
        (["plan", "nowhere", "--target", "uniform:5"], "nowhere"),
        (["plan", "missing.json", "--target", "uniform:5"], "missing.json"),
        (["plan", "riverswim", "--target", "uniform:x"], "uniform:x"),
        (["plan", "riverswim", "--target", "missing.json"], "missing.json"),
        (["plan", "riverswim", "--target", "uniform:5", "--horizon", "0"], "horizon"),
        (["plan", "riverswim", "--target", "uniform:5", "--min-reach", "2"], "min-reach"),
        (["plan", "gym:Blackjack-v1", "--horizon", "9", "--target", "uniform:5"], "table"),
        (["plan", "riverswim", "--target", "uniform:5", "--plot", "x.doc"], ".svg"),
        (["plan", "riverswim", "--target", "uniform:5", "--plot", "no/folder/x.svg"], "folder"),
        (["plan", "garnet:states=1000000000", "--target", "uniform:5"], "GiB"),
        (["envs", "nowhere"], "nowhere"),
        (["envs", "--save", "x.json"], "NAME"),
        (["plan"], "ENV"),
        (["plan", "x" * 300, "--target", "uniform:5"], "names no family"),
        (["plan", "garnet:seed=-1", "--target", "uniform:5"], "seed"),
        (["plan", "riverswim", "--target", "uniform:5", "--horizon", "9" * 30], "GiB"),
        (["plan", "tree:horizon=60,actions=" + "9" * 100, "--target", "uniform:5"], "GiB"),
        (["fly"], "fly"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    for extra in ([], ["--json"] if arguments[0] != "fly" else []):
        done = covgame(*arguments, *extra, cwd=tmp_path)
        assert done.returncode == 2
        assert done.stdout == ""
        assert words in done.stderr
        assert done.stderr.startswith("covgame: ")
        assert done.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []


def test_an_impossible_target_names_its_cells(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.json"
    target.write_text('{"format": "covgame-target/1", "cells": [[0, 1, 0, 1]]}')
    done = covgame("plan", str(model), "--target", str(target), "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "(stage 0, state 1, action 0)" in done.stderr


def test_debug_shows_the_traceback() -> None:
    done = covgame("plan", "nowhere", "--target", "uniform:5", "--debug")
    assert done.returncode != 0
    assert "Traceback" in done.stderr


def test_a_picture_is_drawn_the_same_each_time(tmp_path: Path) -> None:
    pictures = [tmp_path / "one.svg", tmp_path / "two.svg"]
    for picture in pictures:
        done = covgame("plan", "grid", "--target", "uniform:5", "--plot", str(picture))
        assert done.returncode == 0, done.stderr
        assert str(picture) in done.stderr
    assert pictures[0].read_bytes() == pictures[1].read_bytes()
    assert b"<svg" in pictures[0].read_bytes()


def test_strange_names_and_values_can_be_drawn(tmp_path: Path) -> None:
    strange = tmp_path / "$x_{$ 日本.json"
    strange.write_text(json.dumps(CONTRACT))
    for target in ("uniform:1e-300", "uniform:0", "uniform:5"):
        picture = tmp_path / "visits.png"
        done = covgame("plan", str(strange), "--target", target, "--plot", str(picture), "--quiet")
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("ending", ["png", "pdf"])
def test_other_formats(tmp_path: Path, ending: str) -> None:
    picture = tmp_path / f"visits.{ending}"
    arguments = ("plan", "riverswim", "--target", "uniform:5/pair", "--quiet")
    done = covgame(*arguments, "--plot", str(picture))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert picture.stat().st_size > 1000


def test_a_missing_extra_says_how_to_install_it(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['matplotlib'] = None; import importlib.util as u;"
        "find = u.find_spec;"
        "u.find_spec = lambda name, *a: None if name == 'matplotlib' else find(name, *a);"
        "sys.argv = ['covgame', 'plan', 'riverswim', '--target', 'uniform:5', '--plot', 'x.svg'];"
        "from covgame.cli.main import run; run()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 2
    assert 'pip install "covgame[plot]"' in done.stderr


def test_envs_lists_families_with_examples_that_work() -> None:
    text = covgame("envs").stdout
    answer = json.loads(covgame("envs", "--json").stdout)
    assert len(answer["families"]) >= 9
    for family in answer["families"]:
        assert family["name"] in text
        assert family["example"].startswith(family["name"])


def test_envs_describes_one() -> None:
    assert "against the current" in covgame("envs", "riverswim").stdout
    answer = json.loads(covgame("envs", "grid:rows=3,columns=3", "--json").stdout)
    assert (answer["states"], answer["actions"], answer["known"]) == (9, 4, True)


def test_a_family_saved_as_a_file_costs_the_same(tmp_path: Path) -> None:
    path = tmp_path / "grid.json"
    assert covgame("envs", "grid:rows=3,columns=3", "--save", str(path)).returncode == 0
    answers = [
        json.loads(covgame("plan", env, "--target", "uniform:5", "--json").stdout)
        for env in ("grid:rows=3,columns=3", str(path))
    ]
    assert answers[0]["min_episodes"] == pytest.approx(answers[1]["min_episodes"])


LISTING_IMPORTS = """
import atexit, sys
from covgame.cli.main import run
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
run()
"""


@pytest.mark.parametrize(
    "command",
    [[], *([name] for name in sorted(main.commands))],
    ids=lambda words: " ".join(words) or "covgame",
)
def test_every_help_shows_an_example_and_loads_little(command: list[str]) -> None:
    """What takes long to import is what would make one wait."""
    done = subprocess.run(
        [sys.executable, "-c", LISTING_IMPORTS, *command, "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Example" in done.stdout
    assert "covgame " in done.stdout.split("Example")[1]
    loaded = set(done.stderr.split())
    assert "covgame.cli.main" in loaded
    assert loaded & {*HEAVY, "scipy"} == {"click", "pydantic"}
    commands = {name for name in main.commands if f"covgame.cli.{name}" in loaded}
    assert commands == set(command[:1] or main.commands), "a command imports only itself"


def test_the_version_is_the_packages() -> None:
    import covgame as package

    assert package.__version__ in covgame("--version").stdout
