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

from covgame.cli.main import WELCOME, main
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


def completed(*words: str) -> list[tuple[str, str]]:
    """(type, value) of what a shell is offered for the last word."""
    complete = ShellComplete(main, {}, "covgame", "_COVGAME_COMPLETE")
    items = complete.get_completions(list(words[:-1]), words[-1])
    return [(item.type, item.value) for item in items]


@pytest.mark.parametrize(
    "words", [("plan",), ("cover",), ("explore",), ("identify",), ("envs",), ("audit", "--env")]
)
def test_env_is_completed(words: tuple[str, ...]) -> None:
    assert completed(*words, "") == [("plain", name) for name in sorted(FAMILIES)]
    assert completed(*words, "river") == [("plain", "riverswim")]
    assert completed(*words, "models/m") == [("file", "models/m")]


BASH = shutil.which("bash")
ASKING = """
compopt() { :; }
eval "$(_COVGAME_COMPLETE=bash_source covgame)"
COMP_WORDS=(covgame plan river) COMP_CWORD=2
_covgame_completion covgame
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.skipif(BASH is None, reason="needs bash")
def test_bash_completes_as_the_docs_say(tmp_path: Path) -> None:
    """The script is printed, run by bash, and asks covgame."""
    turned_on = ASKING.strip().splitlines()[1]
    assert turned_on in (Path(__file__).parent.parent / "docs" / "usage.md").read_text()
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
    assert done.stdout.split() == ["riverswim"], done.stderr
