"""``plan`` from Python: results that print well, and the public names."""

from __future__ import annotations

import json
import pkgutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame.planning import number


@pytest.fixture(scope="module")
def river() -> cg.Plan:
    return cg.plan("riverswim:states=8", "uniform:50")


def test_the_public_names_are_the_documented_ones() -> None:
    kinds = [0 if name.isupper() else 1 if name[0].isupper() else 2 for name in cg.__all__]
    assert sorted(zip(kinds, cg.__all__, strict=True)) == list(zip(kinds, cg.__all__, strict=True))
    assert len(set(cg.__all__)) == len(cg.__all__)
    assert all(getattr(cg, name) is not None for name in cg.__all__)  # and imported now
    exported = {name for name in vars(cg) if not name.startswith("_")}
    modules = {module.name for module in pkgutil.iter_modules(cg.__path__)}
    assert exported - modules == set(cg.__all__)


def test_numbers_of_a_plan(river: cg.Plan) -> None:
    assert river.min_episodes == pytest.approx(115080.15, rel=1e-6)
    assert river.cells == 264
    row, price = river.dearest(1)[0]
    assert row[:2] == (7, 7)
    assert price == pytest.approx(906.7, rel=1e-3)
    assert river.visits.shape == (20, 8, 2)
    assert (river.target.collected(river.visits) >= 50 * (1 - 1e-9)).all()


def test_a_plan_prints_in_a_terminal_and_a_notebook(river: cg.Plan) -> None:
    text = str(river)
    assert "at least 115,080 on average" in text
    assert "906.7  stage 7: state 7 / left" in text
    page = river._repr_html_()
    assert "115,080" in page
    assert "stage 7: state 7 / left" in page
    assert page.count("<table>") == page.count("</table>") == 2
    assert "Plan(environment='riverswim:states=8'" in repr(river)


def test_a_wide_gap_is_printed_as_a_bracket(river: cg.Plan) -> None:
    """Above a thousandth neither bound is called phi*."""
    doubtful = replace(river, min_flow=replace(river.min_flow, lower=0.99 * river.attained))
    lower, upper = number(0.99 * river.attained), number(river.attained)
    for text in (str(doubtful), doubtful._repr_html_()):
        assert f"{lower} to {upper} on average (bounds on phi*)" in text
        assert "(phi*)" not in text
    answer = doubtful.to_dict()
    assert answer["min_episodes_is"] == "lower bound"
    assert answer["min_episodes"] == 0.99 * river.attained
    assert answer["attained"] == river.attained
    close = replace(river, min_flow=replace(river.min_flow, lower=0.9995 * river.attained))
    assert "(phi*)" in str(close)


def test_the_json_answer_has_the_contracts_keys(river: cg.Plan) -> None:
    answer = json.loads(json.dumps(river.to_dict(), allow_nan=False))
    keys = {"horizon", "states", "actions", "cells", "min_episodes", "dual_gap", "bounds"}
    assert keys | {"dearest"} <= set(answer)
    assert set(answer["bounds"]) == {"stage_max", "stage_sum", "cell_sum"}
    assert np.array(answer["policy"]).shape == (20, 8, 2)
    groups = cg.plan("riverswim", "uniform:5/pair").to_dict()
    assert groups["bounds"] is None
    assert groups["dearest"][0][0] is None


def test_min_reach_leaves_out_and_lists() -> None:
    plan = cg.plan("riverswim", "uniform:50", min_reach=0.05)
    whole = cg.plan("riverswim", "uniform:50")
    assert plan.min_episodes < whole.min_episodes
    assert len(plan.target) + len(plan.unreachable) == len(whole.target)
    assert all(0 < reach < 0.05 for _, reach in plan.unreachable)
    assert "below --min-reach" in str(plan)
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(cg.BadInput, match="min_reach"):
            cg.plan("riverswim", "uniform:50", min_reach=bad)


def test_everything_left_out_costs_nothing() -> None:
    plan = cg.plan("lock:horizon=3,slip=0.9", cg.cells([(2, 0, 0, 5.0)]), min_reach=0.5)
    assert plan.min_episodes == 0
    assert "at least 0 on average" in str(plan)


def test_targets_in_every_form(tmp_path: Path) -> None:
    path = tmp_path / "target.json"
    path.write_text('{"format": "covgame-target/1", "cells": [[3, 2, 1, 5]]}')
    river = cg.make("riverswim:states=3,horizon=4")
    by_path = cg.plan(river, path)
    assert cg.plan(river, str(path)).min_episodes == by_path.min_episodes
    assert cg.plan(river, by_path.target).min_episodes == by_path.min_episodes
    with pytest.raises(cg.BadInput, match="Shape"):
        cg.plan("riverswim", by_path.target)
    nothing: Any
    for nothing in (None, 5, [1, 2], np.ones(3)):
        with pytest.raises(cg.BadInput, match="a target is"):
            cg.plan(river, nothing)


def test_wrong_kinds_are_bad_input() -> None:
    wrong: Any
    for wrong in ("many", None, [1], 10**400, -1, float("nan")):
        with pytest.raises(cg.BadInput):
            cg.uniform(wrong)
        with pytest.raises(cg.BadInput):
            cg.proportional(wrong)
    for wrong in (2.5, "5", True, 0, 10**30):
        with pytest.raises(cg.BadInput):
            cg.make("riverswim", horizon=wrong)
    for wrong in (None, 5, ["riverswim"], "a\0b.json", "x" * 300):
        with pytest.raises(cg.BadInput):
            cg.make(wrong)
    with pytest.raises(cg.BadInput, match="has its horizon"):
        cg.plan(cg.make("riverswim"), "uniform:1", horizon=5)
    with pytest.raises(cg.BadInput, match="added up"):
        cg.plan("riverswim", "uniform:1e308")


def test_a_target_listed_by_hand_is_like_its_array() -> None:
    counts = np.zeros((4, 3, 2))
    counts[3, 2, 1] = 5.0
    by_array = cg.plan("riverswim:states=3,horizon=4", cg.cells(counts))
    by_rows = cg.plan("riverswim:states=3,horizon=4", cg.cells([(3, 2, 1, 5.0)]))
    assert by_array.min_episodes == pytest.approx(by_rows.min_episodes)


def test_make_takes_a_model_and_says_what_it_is() -> None:
    environment = cg.make("riverswim")
    assert "riverswim" in repr(environment)
    assert "horizon=20, states=8, actions=2, stationary" in repr(environment)
    assert cg.make(environment.require_model("a test"), horizon=5).horizon == 5


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (1.0, "1"),
        (22.0, "22"),
        (0.5429, "0.5429"),
        (906.68, "906.7"),
        (1234.56, "1,234.6"),
        (115080.15, "115,080"),
        (1.5e24, "1.5e+24"),
        (2e-7, "2e-07"),
    ],
)
def test_numbers_for_people(value: float, text: str) -> None:
    assert number(value) == text
