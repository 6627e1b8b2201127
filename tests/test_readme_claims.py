"""What README says of the comparison is what the results say."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest
from benchmarks.comparison import summaries
from benchmarks.comparison.methods import AUTHORS, MISSING, OURS
from benchmarks.comparison.results import read_results

ROOT = Path(__file__).parent.parent
CLEAR = ("uniform:5", "uniform:50", "unbalanced:100", "uniform:10/pair")
"""Targets on which README says that we are ahead of everybody, over all worlds."""


@pytest.fixture(scope="module")
def compared() -> summaries.Covering:
    return summaries.Covering(read_results(ROOT / "benchmarks" / "results" / "peers.parquet"))


@pytest.mark.parametrize("target", CLEAR)
@pytest.mark.parametrize("rival", summaries.RIVALS)
def test_where_the_readme_says_that_we_are_ahead_we_are(
    compared: summaries.Covering, rival: str, target: str
) -> None:
    strata, _ = compared.behind(compared.worlds, [target], rival)
    assert not strata or summaries.interval(strata)[0] > 0


@pytest.mark.parametrize(
    ("rival", "target"),
    [
        *((MISSING, "uniform:1"), (MISSING, "uniform:1/pair"), (MISSING, "proportional:100")),
        *(("RF-Express", "uniform:1/pair"), ("RF-UCRL", "uniform:1/pair")),
    ],
)
def test_where_the_readme_says_that_nobody_is_ahead_nobody_is(
    compared: summaries.Covering, rival: str, target: str
) -> None:
    low, high = summaries.interval(compared.behind(compared.worlds, [target], rival)[0])
    assert low <= 0 <= high


def test_a_peer_is_shown_in_no_worse_form_than_its_authors(compared: summaries.Covering) -> None:
    shown = {
        cells[1].strip(): cells[2:-1]
        for cells in (
            line.split("|") for line in summaries.peers(compared.results).splitlines()[2:]
        )
    }
    for peer, forms in AUTHORS.items():
        for place, target in enumerate(compared.targets):
            value = float(re.findall(r"\d+\.\d+", shown[peer][place])[0])
            for form in forms:
                theirs = compared.over_phi(target, form)
                assert theirs is None or value <= theirs.mean + 0.005


def test_the_readme_counts_the_cases_that_we_lose(compared: summaries.Covering) -> None:
    lost = len(summaries.wins(compared.results).splitlines()) - 2
    cases = sum(
        bool(compared.behind([env], [target], rival)[0])
        for rival, env, target in product(summaries.RIVALS, compared.worlds, compared.targets)
    )
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"{lost} of {cases:,} cases" in readme
    river = [line for line in summaries.wins(compared.results).splitlines()
             if "RiverSwim" in line and "uniform:1/pair" in line]  # fmt: skip
    assert f"{len(river)} peers beat us on RiverSwim" in readme


def test_the_suite_has_the_seeds_that_readme_says(compared: summaries.Covering) -> None:
    runs = [
        len(compared.ratios(env, target, OURS)[0])
        for env, target in product(compared.worlds, compared.targets)
    ]
    assert {number for number in runs if number} == {12, 30, 60}
    assert len(compared.worlds) == 14
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert "over 12 to 60 seeds, geometric mean over fourteen worlds" in readme


def test_the_readme_takes_a_minute_before_its_first_table() -> None:
    """240 words, which is what people read in one; code and addresses are looked at, not read."""
    before = (ROOT / "README.md").read_text().split("<!-- table:")[0]
    prose = re.sub(r"^```.*?^```", "", before, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|<[^>]*>", "", prose)
    assert len(prose.split()) <= 240
