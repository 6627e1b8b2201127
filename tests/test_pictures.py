"""Runs as pictures and as tables of a notebook."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from tests.runs import Corridor

RIVER = "riverswim:states=4,horizon=5"


class Odd(Corridor):
    """Names that a careless page would take for its own, and dollars that are no mathematics."""

    def __init__(self) -> None:
        super().__init__(lambda room: f"<b>$room_{{{room}$ & co")


@pytest.fixture(scope="module")
def covered() -> cg.Coverage:
    return cg.cover("grid:rows=3,columns=4", "uniform:5/pair")


@pytest.fixture(scope="module")
def explored() -> cg.Exploration:
    return cg.explore(RIVER, epsilon=1.5)


@pytest.fixture(scope="module")
def lake() -> cg.Identification:
    return cg.identify(
        "gym:FrozenLake-v1", horizon=8, epsilon=0.9, return_range=(0, 1), max_episodes=300
    )


def words(figure: Any) -> str:
    """All that is written in a figure."""
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text))


def images(figure: Any) -> list[Any]:
    from matplotlib.image import AxesImage

    found: list[Any] = figure.findobj(AxesImage)
    return [image.get_array() for image in found]


def bars(figure: Any) -> list[float]:
    return [patch.get_width() for axes in figure.axes for patch in axes.patches]


def test_a_grid_is_drawn_as_a_grid(covered: cg.Coverage) -> None:
    figure = covered.plot()
    visits, share = images(figure)[:2]
    np.testing.assert_array_equal(visits, covered.counts.visits.sum(axis=(0, 2)).reshape(3, 4))
    np.testing.assert_array_equal(share, np.ones((3, 4)))
    assert f"{covered.n_episodes} episodes, 48 of 48 covered" in words(figure)


def test_what_is_missing_shows(covered: cg.Coverage) -> None:
    part = cg.cover("grid:rows=3,columns=4", "uniform:50/pair", max_episodes=20)
    share = images(part.plot())[1]
    missing = np.zeros(12)
    for (_, state, _), visits in part.uncovered:
        missing[state] += visits
    np.testing.assert_allclose(share.ravel(), 1 - missing / 200)
    done = len(part.target) - len(part.uncovered)
    assert f"{done} of {len(part.target)} covered" in words(part.plot())


def test_states_have_their_names_and_bars() -> None:
    run = cg.cover(Odd, "uniform:30/pair", max_episodes=40)
    figure = run.plot()
    assert bars(figure) == run.counts.visits.sum(axis=(0, 2))[:4].tolist()
    assert len(bars(figure)) == run.n_states - 1 == 4  # the last room ends the episode
    assert "<b>$room_{2$ & co" in words(figure)
    (axes,) = figure.axes
    (marks,) = axes.lines
    assert marks.get_xdata().tolist() == [60.0] * 4
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_many_states_are_a_line() -> None:
    run = cg.cover("chain:states=40,horizon=45", "uniform:1/state", max_episodes=3)
    figure = run.plot()
    (axes,) = figure.axes
    assert axes.get_xlabel() == "state"
    wanted, lacking = axes.lines
    assert len(wanted.get_xdata()) == 40
    states = sorted(state for (_, state, _), _ in run.uncovered)
    assert lacking.get_xdata().tolist() == states


def test_the_bound_falls_towards_epsilon(explored: cg.Exploration) -> None:
    (axes,) = explored.plot().axes
    bound, epsilon = axes.lines
    assert bound.get_ydata()[-1] == pytest.approx(explored.certified_error)
    assert bound.get_xdata()[-1] == explored.n_episodes
    assert set(epsilon.get_ydata()) == {1.5}


def test_a_policy_is_drawn_where_the_states_are(lake: cg.Identification) -> None:
    figure = lake.plot()
    said = words(figure)
    assert "stage 7" in said
    assert {"left", "down", "right", "up"} <= set(said.splitlines())
    first = np.ma.filled(images(figure)[0], np.nan)
    assert first.shape == (4, 4)
    assert first[0, 0] == lake.policy.table[0, 0]
    assert np.isnan(first[3, 3])  # nobody begins there
    rows = cg.identify(RIVER, epsilon=2.0).plot()
    assert images(rows)[0].shape == (4, 5)


def test_a_run_without_bounds_can_be_drawn() -> None:
    run = cg.identify(RIVER, epsilon=0.1, max_episodes=0)
    assert "epsilon" in words(run.plot())


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_pictures_are_files_the_same_each_time(
    covered: cg.Coverage, lake: cg.Identification, tmp_path: Path, ending: str
) -> None:
    plan = cg.plan("grid:rows=3,columns=4", "uniform:5/pair")
    results: list[Any] = [covered, lake, plan]
    for number, result in enumerate(results):
        paths = [tmp_path / f"{number}-{again}.{ending}" for again in range(2)]
        for path in paths:
            assert result.plot(path) is None
        assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_plan_speaks_in_names() -> None:
    figure = cg.plan("grid:rows=3,columns=4", "uniform:5/pair").plot()
    assert re.search(r"^row \d, column \d / (up|down|left|right)$", words(figure), re.MULTILINE)
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_said(
    covered: cg.Coverage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(cg.BadInput, match=r"ends in \.svg"):
        covered.plot(tmp_path / "x.doc")
    with pytest.raises(cg.BadInput, match="no folder"):
        covered.plot(str(tmp_path / "nowhere" / "x.svg"))
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "matplotlib" else find(name)
    )
    for path in (None, tmp_path / "x.svg"):
        with pytest.raises(cg.MissingExtra, match="plot"):
            covered.plot(path)


# ------------------------------------------------------------------------------ notebooks


def plain(page: str) -> str:
    """A page without its tags, which have to be closed."""
    for tag in ("table", "tr", "td", "th", "caption"):
        assert len(re.findall(rf"<{tag}\b", page)) == page.count(f"</{tag}>")
    return " ".join(re.sub(r"<[^>]*>", " ", page).split())


def test_a_covering_run_is_a_table(covered: cg.Coverage) -> None:
    page = plain(covered._repr_html_())
    assert f"episodes {covered.n_episodes} (preset default" in page
    assert "Still missing" not in page
    part = cg.cover("grid:rows=3,columns=4", "uniform:50/pair", max_episodes=5)
    page = plain(part._repr_html_())
    assert "Still missing" in page
    assert "row 2, column 3 / up" in page or "more" in page


def test_names_are_escaped() -> None:
    run = cg.cover(Odd, "uniform:30/pair", max_episodes=10)
    page = run._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;$room_{0$ &amp; co / action 0" in page


def test_nobody_waits_for_a_linear_program_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    run = cg.cover("grid:rows=3,columns=4", "uniform:1/state")
    monkeypatch.setattr("covgame.runs.lower_bound.LARGE", 10)
    assert "minimum" not in run._repr_html_()
    assert run.min_episodes
    assert "minimum" in run._repr_html_()


def test_learning_runs_are_tables(explored: cg.Exploration, lake: cg.Identification) -> None:
    page = plain(explored._repr_html_())
    assert "a model that is good enough for any reward, epsilon 1.5" in page
    assert "4 states" in page
    assert "Parts" in page
    page = plain(lake._repr_html_())
    assert "policy deterministic, in run.policy" in page


def test_models_claims_and_environments_are_tables(
    explored: cg.Exploration, tmp_path: Path
) -> None:
    page = plain(explored.model._repr_html_())
    assert "5 stages, 4 states, 2 actions, the same at every stage" in page
    assert repr(explored.model).startswith("LearntModel(horizon=5, states=4, actions=2")
    cg.cover("chain:states=4,horizon=6", "uniform:2/pair", out=tmp_path)
    page = plain(cg.certify(tmp_path)._repr_html_())
    assert "claim coverage: it holds" in page
    assert "4 states, 2 actions" in plain(cg.make("chain:states=4,horizon=6")._repr_html_())
    page = plain(cg.make(Corridor)._repr_html_())
    assert "at most 8 steps" in page
    assert "not known" in page


def test_groups_are_drawn_by_their_names() -> None:
    target = cg.groups(lambda state, action: f"parity {state % 2}", 20)
    run = cg.cover("chain:states=6,horizon=8", target, max_episodes=2)
    axes = run.plot().axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["parity 0", "parity 1"]
    assert [bar.get_width() for bar in axes.patches] == run.game.collected.tolist()
    assert cg.plan("chain:states=6,horizon=8", target).plot().axes


def test_states_called_by_two_numbers_stand_at_their_places() -> None:
    run = cg.cover(Corridor(lambda room: (room, 7 - room)), "uniform:1/pair")
    left = run.plot().axes[0].images[0].get_array()
    visits = run.counts.visits.sum(axis=(0, 2))
    assert left.shape == (4, 4)  # the fifth only ends episodes
    assert left.diagonal().tolist() == visits[:4].tolist()
    assert left.mask.sum() == 12
