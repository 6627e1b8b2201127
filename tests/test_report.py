"""The page of a run: one file, the truth, in the user's words, and nothing in it acts."""

from __future__ import annotations

import base64
import hashlib
import json
import shlex
import sys
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import covgame as cg
from covgame.cli.main import main
from covgame.errors import BadInput, EnvironmentFailed
from covgame.report.charts import POINTS, Trail
from covgame.report.html import page_html
from covgame.report.runs import asked_in_words, page_of
from covgame.report.view import percent
from covgame.runs.coverage import Coverage
from covgame.runs.run import Run
from tests.doors import Door
from tests.pages import Parsed, check_page, data_in, shell
from tests.rundb import drop_result, result_of, set_config, set_result
from tests.runs import Corner, Corridor

EVIL = "</script><script>alert('x')</script><img src=x onerror=alert(1)>"


def called(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


class Breaks:
    """Fails in its third room, with words of its own."""

    actions, horizon = ("on", "back"), 6

    def reset(self) -> str:
        self.room = 0
        return "start"

    def step(self, action: str) -> Any:
        self.room = self.room + 1 if action == "on" else 0
        if self.room == 3:
            raise RuntimeError(f"jammed {EVIL}")
        return f"room {self.room}", 0.0, False


def driven(out: Path) -> Run:
    driver = cg.Driver(actions=["insert coin", "push"], horizon=6, target="uniform:3/pair", out=out)
    with driver:
        while not driver.covered:
            episode, state = driver.ask(), "LOCKED"
            for _ in range(6):
                state = "OPEN" if episode(state) == "insert coin" else "LOCKED"
            episode.end(observation=state)
            driver.tell(episode)
    return driver.run


def failed(out: Path) -> Run:
    with pytest.raises(EnvironmentFailed):
        cg.cover(Breaks, "uniform:5/pair", out=out)
    return cg.load(out)


CHAIN = "chain:states=5,horizon=8"
RUNS: dict[str, Any] = {
    "cells": lambda out: cg.cover("gym:FrozenLake-v1", "uniform:1", horizon=6, out=out),
    "pairs": lambda out: cg.cover(CHAIN, "uniform:3/pair", out=out),
    "states": lambda out: cg.cover(CHAIN, "uniform:3/state", out=out),
    "proportional": lambda out: cg.cover(CHAIN, "proportional:9", out=out),
    "transitions": lambda out: cg.cover(Door, "uniform:2/transition", out=out),
    "groups": lambda out: cg.cover(CHAIN, cg.groups(lambda s, a: f"{s % 2}", 5), out=out),
    "by counts": lambda out: cg.cover(CHAIN, "uniform:50/pair", play="counts", out=out),
    "lazy": lambda out: cg.cover(CHAIN, "uniform:3/pair", play="lazy", out=out),
    "budget": lambda out: cg.cover(CHAIN, "uniform:50/pair", max_episodes=4, out=out),
    "nothing played": lambda out: cg.cover(CHAIN, "uniform:50/pair", max_episodes=0, out=out),
    "discovered": lambda out: cg.cover(Corridor, "uniform:2/pair", out=out),
    "driven": driven,
    "failed": failed,
    "avoided": lambda out: cg.cover(Breaks, "uniform:2/pair", on_failure="avoid", out=out),
    "explore": lambda out: cg.explore(CHAIN, epsilon=4, max_episodes=300, out=out),
    "identify": lambda out: cg.identify(CHAIN, epsilon=4, max_episodes=300, out=out),
    "paper": lambda out: cg.explore(
        "chain:states=2,horizon=2", epsilon=1, preset="paper", scale=1e-4, out=out
    ),
}


@pytest.mark.parametrize("kind", RUNS)
def test_every_kind_of_run_has_a_page(kind: str, tmp_path: Path) -> None:
    run: Run = RUNS[kind](tmp_path / "run")
    fresh = check_page(page_html(page_of(run)))
    loaded = cg.load(tmp_path / "run")
    place = loaded.report()
    assert place == tmp_path / "run" / "report.html"
    data = check_page(place.read_text())
    assert data["sentences"] == fresh["sentences"]
    assert len(data["sentences"]) == 3
    assert all(sentence.endswith(".") for sentence in data["sentences"])
    answer = loaded.to_dict()
    assert data["figures"][0] == {
        "label": "episodes",
        "value": f"{answer['episodes']:,}",
        "note": f"{int(loaded.counts.visits.sum()):,} steps",
    }
    cg.load(tmp_path / "run")  # a page among its files does not disturb a run


def test_the_page_says_what_the_answer_says(tmp_path: Path) -> None:
    run = RUNS["budget"](tmp_path)
    data, answer = data_in(run.report().read_text()), run.to_dict()
    listed = {one["name"]: one for one in data["tables"]}
    missing = [float(row[0]) for row in listed["missing"]["rows"]]
    assert missing == [row[3] for row in answer["uncovered"]]
    assert data["chart"]["rules"][0]["at"] == answer["min_episodes"]
    assert data["tone"] == "open"
    assert "budget of episodes was spent" in data["sentences"][1]
    assert f"{sum(missing):g} visits are missing" in data["sentences"][1]
    overall = data["state_map"]["overall"]
    assert sum(overall["missing"]) == sum(missing)
    assert sum(overall["wanted"]) == run.target.counts.sum()
    assert sum(overall["visits"]) == run.counts.visits.sum()


def test_a_killed_run_says_that_it_can_go_on(tmp_path: Path) -> None:
    RUNS["budget"](tmp_path)
    drop_result(tmp_path)
    data = check_page(cg.load(tmp_path).report().read_text())
    assert (data["status"], data["tone"]) == ("not finished", "open")
    assert "interrupted; resume it" in data["sentences"][1]
    assert data["chart"]["series"][0]["x"][-1] == 4


def test_what_makes_it_expensive_is_in_words(tmp_path: Path) -> None:
    run = cg.cover("gym:FrozenLake-v1", "uniform:1", horizon=6, out=tmp_path)
    plan = cg.plan("gym:FrozenLake-v1", "uniform:1", horizon=6)
    listed = data_in(run.report().read_text())["tables"][0]
    (stage, state, _), price = plan.dearest(1)[0]
    cost, where = listed["rows"][0]
    assert cost == f"{price:g}"
    assert where.startswith(f"{run.names.describe((stage, state, None))} / ")
    assert plan.dearest(5) == run.dearest(5)


def test_maps_of_stages_add_up(tmp_path: Path) -> None:
    run = cg.cover("gym:FrozenLake-v1", "uniform:2", horizon=6, max_episodes=40, out=tmp_path)
    drawn = page_of(run).state_map
    assert drawn is not None
    by_stage = drawn.by_stage
    assert drawn.asked_by_stage
    assert np.array_equal(by_stage.visits, run.counts.visits.sum(axis=2))
    assert np.array_equal(by_stage.wanted, run.target.cell_counts().sum(axis=2))
    lacking = np.maximum(run.target.cell_counts() - run.counts.visits, 0).sum(axis=2)
    assert lacking.any()
    assert np.array_equal(by_stage.missing, lacking)
    assert np.array_equal(np.sum(by_stage.missing, axis=0), drawn.overall.missing)
    assert drawn.overall_actions is not None
    assert np.array_equal(drawn.overall_actions.visits, run.counts.visits.sum(axis=0))
    assert drawn.stage_actions == run.counts.visits.tolist()


# ------------------------------------------------------------------------ over episodes


def test_the_curve_is_what_the_episodes_had_collected(tmp_path: Path) -> None:
    run = cg.cover(CHAIN, "uniform:40/pair", seed=3, out=tmp_path)
    chart = page_of(cg.load(tmp_path)).chart
    assert chart is not None
    points = dict(zip(chart.series[0].x, chart.series[0].y, strict=True))
    assert chart.series[0].x[-1] == run.n_episodes
    visits = np.zeros(run.counts.visits.shape)
    assert points[0] == 0
    for episode in run.episodes():
        visits[np.arange(len(episode)), episode.state, episode.action] += 1
        if float(episode.number + 1) in points:
            had = np.minimum(run.target.collected(visits), run.target.counts).sum()
            share = had / run.target.counts.sum()
            assert points[episode.number + 1] == pytest.approx(share, abs=1e-5)
    assert chart.series[0].y[-1] == chart.series[1].y[-1] == 1.0
    assert chart.series[1].name == "requirements met in full"
    assert chart.series[1].y != chart.series[0].y


def test_a_long_run_has_a_few_hundred_points(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("covgame.storage.episodes.STEPS_PER_SHARD", 700)
    run = cg.cover("chain:states=3,horizon=3", "uniform:400/pair", out=tmp_path)
    chart = page_of(run).chart
    assert chart is not None
    assert run.n_episodes > POINTS
    assert len(chart.series[0].x) == POINTS + 1
    assert chart.series[0].x == sorted(set(chart.series[0].x))
    assert chart.series[0].y == sorted(chart.series[0].y)


def test_runs_without_episodes_say_so(tmp_path: Path) -> None:
    counted = page_of(RUNS["by counts"](tmp_path / "counts")).chart
    kept_nothing = page_of(cg.cover(CHAIN, "uniform:1/pair")).chart
    assert counted is not None
    assert kept_nothing is not None
    assert "visit counts alone" in counted.note
    assert "no folder" in kept_nothing.note
    assert counted.series == kept_nothing.series == []


def test_a_trail_never_grows_beyond_its_length_and_keeps_its_ends() -> None:
    trail = Trail(most=16)
    for i in range(1000):
        trail.add(float(i), 0.0)
    places = [int(point[0]) for point in trail.points]
    assert len(places) < 16
    assert places[0] == 0
    gaps = {b - a for a, b in pairwise(places)}
    assert len(gaps) == 1  # evenly spread
    assert 1000 - places[-1] <= gaps.pop()


def test_the_certificate_falls_to_what_was_asked(tmp_path: Path) -> None:
    run = cg.explore("chain:states=3,horizon=3", epsilon=2, out=tmp_path)
    page = page_of(run)
    assert page.chart is not None
    assert page.chart.rules[0].at == 2
    assert page.chart.series[0].y[-1] == run.phases[-1].bound
    assert page.chart.series[0].y[-1] <= 2 < page.chart.series[0].y[0]
    assert page.status == "certified"
    assert page.state_map is not None
    unseen = run.counts.visits.sum(axis=2) == 0
    assert unseen.any()
    policy = np.where(unseen, -1, run.model.plan().table)
    assert page.state_map.policy == policy.tolist()


# ------------------------------------------------------------------------ nothing in it acts


class Named:
    """Everything has a name that would like to be more than a name."""

    actions, horizon = (EVIL, "\u202eturned"), 4

    def reset(self) -> str:
        return EVIL

    def step(self, action: str) -> Any:
        return "{{constructor}}\x1b[2J\u2028" if action == EVIL else EVIL, 0.0, False


@pytest.mark.parametrize("plain_size", [10**9, 0], ids=["plain", "compressed"])
def test_names_are_text_wherever_they_stand(
    plain_size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covgame.report.html.PLAIN_SIZE", plain_size)
    cg.cover(Named, "uniform:2/pair", out=tmp_path / "run")
    evil: dict[str, Any] = {"environment": EVIL, "versions": {EVIL: EVIL}}
    set_config(tmp_path / "run", by_name=False, **evil)
    text = cg.load(tmp_path / "run").report().read_text()
    data = check_page(text)
    assert data["title"] == EVIL
    assert EVIL in data["made_with"]
    assert data["state_map"]["actions"] == [EVIL, "\\u202eturned"]
    assert data["state_map"]["labels"] == [EVIL, "{{constructor}}\\x1b[2J"]
    assert EVIL not in text
    assert "\x1b" not in text
    assert Parsed(text).inside["h1"] == [EVIL]


def test_what_failed_is_listed_with_the_way_there(tmp_path: Path) -> None:
    data = check_page(failed(tmp_path).report().read_text())
    assert (data["status"], data["tone"]) == ("failed", "bad")
    assert EVIL in data["sentences"][1]
    listed = next(one for one in data["tables"] if one["name"] == "failures")
    times, where, error, then, way = listed["rows"][0]
    assert (times, where, then) == ("3", "stage 2: room 2 / on", "set aside")
    assert EVIL in error
    assert way == "on, on, on"


def test_only_the_script_of_the_page_may_run() -> None:
    text = page_html(shell(None))
    page = Parsed(text)
    rules = next(v for _, name, v in page.attributes if name == "content" and "src" in str(v))
    assert rules is not None
    for kind, content in (("script", page.inside["script"][1]), ("style", page.inside["style"][0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in rules
    assert "default-src 'none'" in rules
    assert "connect-src 'none'" in rules
    assert "unsafe" not in rules


def test_a_page_needs_no_code_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "not_asked_for.py").write_text("from tests.runs import Corner\n")
    monkeypatch.syspath_prepend(tmp_path)
    cg.cover("py:not_asked_for:Corner", "uniform:1/pair", out=tmp_path / "run")
    monkeypatch.delitem(sys.modules, "not_asked_for")
    done = called("report", str(tmp_path / "run"), "--json")
    assert done.exit_code == 0, done.stderr
    assert "not_asked_for" not in sys.modules
    data = data_in((tmp_path / "run" / "report.html").read_text())
    assert data["state_map"]["labels"] == ["here", "there"]
    assert data["command"].startswith(
        "covgame cover py:not_asked_for:Corner --target uniform:1/pair"
    )


# ------------------------------------------------------------------------ the command


def test_the_command_writes_where_it_is_told(tmp_path: Path) -> None:
    cg.cover(CHAIN, "uniform:1/pair", out=tmp_path / "run")
    done = called("report", str(tmp_path / "run"), "--out", str(tmp_path / "a.html"))
    assert done.exit_code == 0
    assert done.stdout.strip() == str(tmp_path / "a.html")
    assert not (tmp_path / "run" / "report.html").exists()
    done = called("report", str(tmp_path / "run"), "--json")
    answer = json.loads(done.stdout)
    page = tmp_path / "run" / "report.html"
    assert answer["report"] == str(page)
    assert answer["bytes"] == len(page.read_bytes())
    assert page.read_bytes() == (tmp_path / "a.html").read_bytes()


def test_what_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    cg.cover(CHAIN, "uniform:1/pair", out=tmp_path / "run")
    for arguments in (
        [str(tmp_path)],
        [str(tmp_path / "run"), "--out", str(tmp_path / "no" / "a")],
    ):
        done = called("report", *arguments)
        assert done.exit_code == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
    with pytest.raises(BadInput, match="no folder"):
        cg.cover(CHAIN, "uniform:1/pair").report()
    assert cg.cover(CHAIN, "uniform:1/pair").report(tmp_path / "b.html").exists()


def test_a_page_replaces_a_link_and_not_what_it_leads_to(tmp_path: Path) -> None:
    run = cg.cover(CHAIN, "uniform:1/pair", out=tmp_path / "run")
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "run" / "report.html").symlink_to(tmp_path / "precious")
    run.report()
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "run" / "report.html").is_symlink()


@pytest.mark.parametrize(
    "asked",
    [
        "cover chain:states=4,horizon=6 --target uniform:2/pair --seed 3",
        "cover gym:FrozenLake-v1 --horizon 5 --target uniform:1 --max-episodes 9 --stage-dependent",
        "explore chain:states=3,horizon=3 --epsilon 2 --delta 0.2",
        "identify chain:states=3,horizon=3 --epsilon 1.5 --return-range 0,2 --max-episodes 90",
    ],
)
def test_the_command_on_the_page_plays_the_run_again(asked: str, tmp_path: Path) -> None:
    first = called(*asked.split(), "--out", str(tmp_path / "a"), "--json", "--quiet", "--report")
    again = data_in((tmp_path / "a" / "report.html").read_text())["command"]
    words = shlex.split(again)
    assert words[0] == "covgame"
    second = called(*words[1:], "--out", str(tmp_path / "b"), "--json", "--quiet")
    one, two = (json.loads(done.stdout) for done in (first, second))
    assert one.pop("run") != two.pop("run")
    assert one == two


def test_objects_are_played_again_by_python() -> None:
    run = cg.cover(Corner(), "uniform:1/pair", seed=4)
    assert page_of(run).command == "covgame.cover(env, 'uniform:1/pair', horizon=3, seed=4)"


def test_golden_runs_have_pages(tmp_path: Path) -> None:
    for archive in sorted((Path(__file__).parent / "golden").glob("run-*.zip")):
        with zipfile.ZipFile(archive) as content:
            content.extractall(tmp_path / archive.stem)
        for place in sorted((tmp_path / archive.stem).rglob("run.db")):
            check_page(cg.load(place.parent).report(tmp_path / "a.html").read_text())


# ------------------------------------------------------------------------ in words


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ("uniform:50", "visit every action in every state at every stage 50 times"),
        ("uniform:1/pair", "visit every action in every state, at any stage, once"),
        ("uniform:2/state", "visit every state, at any stage, 2 times"),
        ("uniform:2/nonsense", "meet 7 requirements on visits"),
        ("mine.json", "visit what mine.json lists, 7 requirements in all"),
    ],
)
def test_targets_in_words(request_: str, said: str) -> None:
    assert asked_in_words(request_, 7) == said


def test_only_all_is_a_hundred_percent() -> None:
    assert [percent(share) for share in (0.0, 0.001, 0.5, 0.996, 1.0)] == [
        "0%", "<1%", "50%", "99%", "100%",
    ]  # fmt: skip


def test_a_run_below_the_bound_is_called_lucky(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = cg.cover(CHAIN, "uniform:2/pair", out=tmp_path)
    monkeypatch.setattr(Coverage, "bound_at_hand", 1.25 * run.n_episodes)
    lucky = page_of(run).sentences[2]
    monkeypatch.setattr(Coverage, "bound_at_hand", 0.5 * run.n_episodes)
    assert lucky.endswith("took 0.800 times as many; a single run may fall below an average.")
    assert page_of(run).sentences[2].endswith("took 2.000 times as many.")


def test_large_worlds_are_not_solved_for_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cg.cover(CHAIN, "uniform:2/pair", out=tmp_path)
    monkeypatch.setattr("covgame.runs.lower_bound.LARGE", 0)
    monkeypatch.setattr("covgame.runs.lower_bound.min_flow", None)
    chart = page_of(cg.load(tmp_path)).chart
    saved = result_of(tmp_path)["min_episodes"]
    assert chart is not None
    assert [rule.at for rule in chart.rules] == [saved]
    set_result(tmp_path, {"min_episodes": "many"})
    page = page_of(cg.load(tmp_path))
    assert page.chart is not None
    assert page.chart.rules == []
    assert "not computed in a world this large" in page.sentences[2]
