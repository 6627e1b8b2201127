"""What a certificate takes for granted is said in sentences, and nothing is left out."""

from __future__ import annotations

from pathlib import Path

import covgame as cg
from covgame.runs.assumptions import WORDS, in_words


def test_everything_that_had_to_be_assumed_is_said(tmp_path: Path) -> None:
    lake = "gym:FrozenLake-v1?is_slippery=false"
    out = tmp_path / "best"
    cg.identify(lake, horizon=5, epsilon=0.9, return_range=(0, 1), out=out)
    checked = cg.certify(out)
    said = [words for label, words in checked.facts() if label in ("assumed", "")]
    assert said == [
        "there are no more than 16 states",
        "all stages behave alike; these data do not contradict that",
        "rewards do not depend on the stage",
        "every step pays between 0 and 1",
        "no episode pays more than 1 in all",
    ]
    assert ("wrong", "with probability 0.1 at most") in checked.facts()
    assert set(checked.believed) <= {*WORDS, "delta", "pooled", "given"}


def test_what_is_known_not_to_matter_is_not_said() -> None:
    """Stages that were kept apart are not assumed to be alike; no limit is no assumption."""
    believed = {"pooled": False, "stages": "parted", "can_end": True, "most_successors": None}
    assert in_words(believed) == []


def test_a_model_that_is_taken_at_its_word_is_mentioned() -> None:
    said = in_words({"can_end": False, "known_start": True, "most_successors": 3})
    assert len(said) == 3
    assert "more than 3 states" in said[2]


def test_new_kinds_of_assumptions_are_shown_until_somebody_words_them() -> None:
    assert in_words({"tides": "low", "given": ["walks: whole episodes"]}) == [
        "tides low",
        "walks: whole episodes",
    ]
