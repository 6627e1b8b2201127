"""Runs that were stored by an earlier commit: they open, continue, and give the same answers."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from covgame.storage.folder import FORMAT
from tests.golden.__main__ import RUNS, STOPPED
from tests.rooms import whatever_is_said
from tests.rundb import config_of, query, set_config

ARCHIVES = sorted((Path(__file__).parent / "golden").glob("run-*.zip"))
RECORDED = [name for name in RUNS if name != "counted"]


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.stem)
def golden(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def said(golden: Path, name: str) -> dict[str, Any]:
    expected: dict[str, Any] = json.loads((golden / "expected.json").read_text())[name]
    return expected


def test_there_is_one_of_every_format() -> None:
    assert [path.stem for path in ARCHIVES] == [f"run-{FORMAT.rpartition('/')[2]}"]
    assert sum(path.stat().st_size for path in ARCHIVES) < 100_000


@pytest.mark.parametrize("name", RUNS)
def test_a_golden_run_opens_with_the_values_it_had(name: str, golden: Path) -> None:
    run, expected = cg.load(golden / name, trust=True), said(golden, name)
    assert run.notice is None
    assert run.n_episodes == expected["episodes"]
    answer = json.loads(json.dumps(run.to_dict()))
    for key in {"covered", "uncovered", "unreachable", "policy", "seed"} & expected.keys():
        assert answer[key] == expected[key], key
    for key in ("min_episodes", "certified_error", "certified_gap"):
        if expected.get(key) is not None:
            assert answer[key] == pytest.approx(expected[key], rel=1e-6), key


@pytest.mark.parametrize("name", RUNS)
def test_a_golden_run_holds_what_it_claims(name: str, golden: Path) -> None:
    assert cg.certify(golden / name).episodes == said(golden, name)["episodes"]


@pytest.mark.parametrize("name", STOPPED)
def test_a_golden_run_goes_on(name: str, golden: Path) -> None:
    path, expected = golden / f"{name}-stopped", said(golden, name)
    assert cg.load(path, trust=True).n_episodes == int(STOPPED[name])
    with whatever_is_said():
        run = cg.resume(path, max_episodes=10**6, trust=True)
    assert run.covered
    assert cg.certify(path).claim == "coverage"
    assert run.n_episodes == expected["episodes"]


@pytest.mark.parametrize("name", RECORDED)
def test_a_golden_run_can_be_audited_and_exported(name: str, golden: Path) -> None:
    found = cg.audit(golden / name, "uniform:1/pair")
    assert found.episodes == said(golden, name)["episodes"]
    written = cg.export(golden / name, to="csv", out=golden / f"{name}.csv")
    assert written.episodes == found.episodes
    assert cg.learnt_model(golden / name).visits.sum() == found.steps


@pytest.mark.parametrize("number", [4, 99, 123456])
def test_a_run_of_a_newer_format_says_what_helps(number: int, golden: Path) -> None:
    query(golden / "cover", f"PRAGMA user_version={number}")
    with pytest.raises(cg.BadInput, match=r"newer covgame.*pip install --upgrade covgame"):
        cg.load(golden / "cover")


@pytest.mark.parametrize("number", [0, 2, -1])
def test_another_format_is_not_called_newer(number: int, golden: Path) -> None:
    query(golden / "cover", f"PRAGMA user_version={number}")
    with pytest.raises(cg.BadInput, match="is no database of a covgame run"):
        cg.load(golden / "cover")


@pytest.mark.parametrize("version", ["99.1", "99.1.0rc1"])
def test_a_run_of_a_newer_covgame_is_opened_with_a_notice(version: str, golden: Path) -> None:
    path = golden / "cover"
    set_config(path, versions={**config_of(path)["versions"], "covgame": version})
    assert "was made by covgame 99.1" in str(cg.load(path).notice)
    set_config(path, versions="none")
    assert cg.load(path).notice is None
