"""First contact: what covgame says when nothing was asked, and what a shell completes."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from covgame.cli.completion import GYM, WholeWords, complete_whole_words
from covgame.cli.main import COMPLETION, WELCOME, main
from covgame.mdp.families import FAMILIES


def test_covgame_alone_welcomes() -> None:
    done = CliRunner().invoke(main, [])
    assert done.exit_code == 0
    assert done.output == WELCOME + "\n"
    assert len(WELCOME.splitlines()) <= 12
    assert all(len(line) <= 100 for line in WELCOME.splitlines())
    assert "Usage" in CliRunner().invoke(main, ["--help"]).output


COMMANDS = [line.strip() for line in WELCOME.splitlines() if line.startswith("  covgame ")]


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_run_as_written(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(COMMANDS) == 3
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line, comments=True)
    done = CliRunner().invoke(main, words[1:])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("environment ")


# ----------------------------------------------------------------------------- completion


def completed(*words: str) -> list[str]:
    """What a shell is offered for the last word."""
    complete = ShellComplete(main, {}, "covgame", COMPLETION)
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "worlds").mkdir()
    (tmp_path / "model.json").write_text("{}")
    (tmp_path / ".hidden.json").write_text("{}")
    (tmp_path / "worlds" / "large.json").write_text("{}")
    (tmp_path / "mine.py").write_text("def machine(): ...\nclass World: ...\ndef _not(): ...\n")
    (tmp_path / "broken.py").write_text("def (")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["plan", "cover", "explore", "identify", "envs"])
def test_env_is_completed(command: str) -> None:
    assert {*FAMILIES, "gym:", "gw:", "py:", "model.json"} == set(completed(command, ""))
    assert completed(command, "river") == ["riverswim"]
    assert completed(command, "gym:Froz") == ["gym:FrozenLake-v1", "gym:FrozenLake8x8-v1"]
    assert completed(command, "gy") == [f"gym:{name}" for name in GYM]
    assert completed(command, "riverswim:") == ["riverswim:states=", "riverswim:horizon="]
    assert completed(command, "riverswim:states=4,h") == ["riverswim:states=4,horizon="]
    assert completed(command, "py:") == ["py:broken:", "py:mine:"]
    assert completed(command, "py:mine:") == ["py:mine:machine", "py:mine:World"]
    assert completed(command, "py:broken:") == completed(command, "py:nowhere:") == []
    assert completed(command, "wor") == ["worlds/"]
    assert completed(command, "worlds/") == ["worlds/large.json"]
    assert completed(command, "gw:mo") == ["gw:model.json"]
    assert completed(command, "./mo") == ["./model.json"]
    assert completed(command, ".hid") == [".hidden.json"]
    assert completed(command, "nowhere/") == []


@pytest.mark.usefixtures("folder")
def test_target_is_completed() -> None:
    cover = ("cover", "grid", "--target")
    kinds = ["uniform:50", "uniform:50/pair", "uniform:50/state", "proportional:500"]
    assert completed(*cover, "") == [*kinds, "model.json"]
    assert completed(*cover, "uniform:7") == ["uniform:7", "uniform:7/pair", "uniform:7/state"]
    assert completed(*cover, "uniform:7/p") == ["uniform:7/pair"]
    assert completed(*cover, "prop") == ["proportional:500"]
    assert completed("plan", "grid", "--target=unif") == kinds[:3]
    assert completed(*cover, "mo") == ["model.json"]


def test_gymnasiums_names_are_true() -> None:
    import gymnasium

    assert set(GYM) <= set(gymnasium.registry)


def offered(line: str, monkeypatch: pytest.MonkeyPatch, breaks: str = " \"'><=;|&(:") -> list[str]:
    """What bash puts in the place of the last of its words."""
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))
    monkeypatch.setenv("COMP_BREAKS", breaks)
    said = WholeWords(main, {}, "covgame", COMPLETION).complete()
    return [entry.partition(",")[2] for entry in said.splitlines()]


@pytest.mark.usefixtures("folder")
def test_bash_gets_what_follows_its_last_break(monkeypatch: pytest.MonkeyPatch) -> None:
    assert offered("covgame plan river", monkeypatch) == ["riverswim"]
    assert offered("covgame plan gym:Tax", monkeypatch) == ["Taxi-v4"]
    assert offered("covgame plan gym:Tax", monkeypatch, " =") == ["gym:Taxi-v4"]
    assert offered("covgame plan riverswim:states=4,h", monkeypatch) == ["4,horizon="]
    assert offered("covgame plan grid --target=uniform:7/p", monkeypatch) == ["7/pair"]
    assert offered("covgame plan grid --target=prop", monkeypatch) == ["proportional:500"]
    assert offered("covgame pl", monkeypatch) == ["plan"]
    assert "gym:" in offered("covgame plan ", monkeypatch)


def test_the_script_for_bash_hands_over_the_line() -> None:
    complete_whole_words()
    from click.shell_completion import get_completion_class

    assert get_completion_class("bash") is WholeWords
    source = WholeWords(main, {}, "covgame", COMPLETION).source()
    assert 'COMP_LINE="$COMP_LINE"' in source
    assert "complete -o nosort -F _covgame_completion covgame" in source


BASH = shutil.which("bash")
ASKING = """
COMP_WORDBREAKS=$' "\\'><=;|&(:'
compopt() { :; }
eval "$(_COVGAME_COMPLETE=bash_source covgame)"
COMP_LINE='covgame plan gym:Froz' COMP_POINT=21
_covgame_completion covgame
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_completes_through_it(tmp_path: Path) -> None:
    """The whole way: the script is printed, run by bash, and asks covgame."""
    command = tmp_path / "covgame"
    command.write_text(f"#!{sys.executable}\nfrom covgame.cli.main import run\nrun()\n")
    command.chmod(0o755)
    done = subprocess.run(
        [BASH or "bash", "--norc", "-c", ASKING],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        cwd=tmp_path,
    )
    assert done.stdout.split() == ["FrozenLake-v1", "FrozenLake8x8-v1"], done.stderr
