"""One configuration: options, keyword arguments, the stored configuration and the command agree."""

from __future__ import annotations

import json
import shlex
import sqlite3
from pathlib import Path

import click
import pytest

import covgame as cg
from covgame.cli.main import main
from covgame.config import RunConfig, option_name, options_of
from covgame.errors import as_arguments
from tests.test_cli import covgame

CHAIN = "chain:states=4,horizon=6"
MODELS: list[tuple[str, type[RunConfig]]] = [
    ("cover", cg.CoverConfig),
    ("explore", cg.LearnConfig),
    ("identify", cg.LearnConfig),
]


@pytest.mark.parametrize(("command", "model"), MODELS)
def test_every_option_is_on_the_command_line_with_its_help(
    command: str, model: type[RunConfig]
) -> None:
    shown = {name: one for one in main.commands[command].params for name in one.opts}
    for name, field in options_of(model, command=command).items():
        option = shown[option_name(name)]
        assert isinstance(option, click.Option)
        assert option.help == field.description
        assert f"    {name}: {field.description}" in str(model.__doc__)


def test_the_stored_configuration_has_every_option(tmp_path: Path) -> None:
    cg.cover(CHAIN, "uniform:1/pair", seed=3, step_timeout=2.5, out=tmp_path / "run")
    with sqlite3.connect(tmp_path / "run" / "run.db") as database:
        stored = json.loads(database.execute("SELECT json FROM config").fetchone()[0])
    assert options_of(cg.CoverConfig).keys() <= stored.keys()
    assert (stored["seed"], stored["step_timeout"], stored["workers"]) == (3, 2.5, 1)


def test_the_command_on_the_page_repeats_every_option(tmp_path: Path) -> None:
    options = ["--exact-bound", "--on-failure", "record", "--isolate", "--max-episodes", "9"]
    covgame("cover", CHAIN, "--target", "uniform:2/pair", *options, "--out", str(tmp_path / "run"))
    page = cg.load(tmp_path / "run").report(tmp_path / "page.html").read_text()
    for words in (["--exact-bound"], ["--on-failure", "record"], ["--max-episodes", "9"]):
        assert shlex.join(words) in page


def test_options_from_a_file_and_from_a_run(tmp_path: Path) -> None:
    file, folder = tmp_path / "options.toml", str(tmp_path / "run")
    file.write_text(f'env = "{CHAIN}"\ntarget = "uniform:2/pair"\nseed = 5\nmax-episodes = 50\n')
    answer = json.loads(covgame("cover", "--config", str(file), "--json", "--out", folder).stdout)
    assert (answer["seed"], answer["environment"]) == (5, CHAIN)
    again = covgame("cover", "--config", folder, "--json", "--out", str(tmp_path / "again"))
    assert json.loads(again.stdout)["episodes"] == answer["episodes"]
    other = covgame("cover", "--config", folder, "--seed", "6", "--json", "--out", f"{folder}-6")
    assert json.loads(other.stdout)["seed"] == 6, "the command line wins"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("sead = 1", "no option 'sead'"),
        ("seed = [1", "cannot be read as TOML"),
        ('seed = "x"', "is not a valid integer"),
        ("data = 1", "no option 'data'"),
    ],
)
def test_a_wrong_file_is_refused(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "options.toml"
    file.write_text(content)
    done = covgame("cover", CHAIN, "--config", str(file))
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_run_of_another_command_is_no_configuration(tmp_path: Path) -> None:
    cg.cover(CHAIN, "uniform:1/pair", out=tmp_path / "run")
    done = covgame("explore", "--config", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "is a run of covgame cover, not of explore" in done.stderr


def test_errors_name_arguments_in_python_and_options_on_the_command_line() -> None:
    with pytest.raises(cg.BadInput, match=r"^step_timeout should be"):
        cg.cover(CHAIN, "uniform:1/pair", step_timeout=-1)
    done = covgame("cover", CHAIN, "--target", "uniform:1/pair", "--step-timeout", "-1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--step-timeout should be" in done.stderr


def test_commands_in_messages_stay_as_they_are() -> None:
    text = "use --play exact, or --horizon 3; see covgame envs NAME --save FILE, or --from"
    expected = 'use play="exact", or horizon=3; see covgame envs NAME --save FILE, or start_from'
    assert as_arguments(text) == expected


def test_unknown_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'sead'"):
        cg.cover(CHAIN, "uniform:1/pair", sead=1)
    with pytest.raises(cg.BadInput, match="prune is for identify"):
        cg.explore(CHAIN, epsilon=1.0, prune=True)


def test_resuming_takes_what_may_change(tmp_path: Path) -> None:
    cg.cover(CHAIN, "uniform:5/pair", max_episodes=2, out=tmp_path / "run")
    run = cg.resume(tmp_path / "run", max_episodes=500, on_failure="record", engine="local")
    assert run.covered
    assert run.settings.on_failure == "record"
    with pytest.raises(cg.BadInput, match="seed cannot be changed"):
        cg.resume(tmp_path / "run", seed=2)
