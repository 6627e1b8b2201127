"""What covgame uses of Hypothesis beyond its public interface: one test for each, by name.

A version that changes one of these fails the test that says which. ``test_supported_versions``
runs this file with every version in ``SUPPORTED`` (slow: it installs them).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.database import InMemoryExampleDatabase
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from covgame.testing import hypothesis_inside as inside

MEANT = "COVGAME_HYPOTHESIS"
"""The variable that says which version a session is about."""

SUPPORTED = ("6.138.0", "6.148.8", "6.155.0", "6.162.0", "6.170.15")


class Shelf(RuleBasedStateMachine):
    """Bundles, initialize rules, preconditions, drawn data, invariants; fails at a large number."""

    boxes: Bundle[int] = Bundle("boxes")

    def __init__(self) -> None:
        super().__init__()
        self.room, self.filled = 0, 0
        self.seen: list[Any] = []

    @initialize(room=st.integers(3, 5))
    def build(self, room: int) -> None:
        self.room = room

    @rule(target=boxes, size=st.integers(1, 9))
    def bring(self, size: int) -> int:
        return size

    @rule(target=boxes)
    def bring_two(self) -> Any:
        return multiple(1, 2)

    @rule(box=consumes(boxes))
    def fill(self, box: int) -> None:
        self.filled += 1
        self.seen.append(box)

    @rule(data=st.data())
    def look(self, data: Any) -> None:
        self.seen.append(data.draw(st.integers(0, 3)))

    @precondition(lambda self: self.filled >= 2)
    @rule(weight=st.integers())
    def load(self, weight: int) -> None:
        assert weight < 1000, "too heavy"

    @rule()
    def never_mind(self) -> None:
        hypothesis.assume(False)

    @invariant()
    def is_built(self) -> None:
        assert self.room


RULES = ["bring", "bring_two", "fill", "load", "look", "never_mind"]
BRING, BRING_TWO, FILL, LOAD, LOOK, NEVER_MIND = range(6)
PHASES = (hypothesis.Phase.reuse, hypothesis.Phase.shrink)  # to explain takes longest
SETTINGS = hypothesis.settings(database=None, deadline=None, phases=PHASES)


def started(seed: int = 0, first: Any = None) -> Any:
    run = inside.OpenRun(inside.with_chosen_rules(Shelf), seed, first)
    run.start()
    return run


def failing(seed: int) -> Any:
    """Choices of a run that fails."""
    while True:
        run = started(seed)
        for number in (BRING_TWO, FILL, LOOK, FILL):
            run.run(number)
        try:
            run.run(LOAD)
        except AssertionError:
            return run.choices
        seed += 1000


def test_the_version_is_supported_and_the_one_that_is_meant() -> None:
    version = hypothesis.__version__
    assert os.environ.get(MEANT, version) == version
    assert tuple(map(int, version.split("."))) >= tuple(map(int, SUPPORTED[0].split(".")))


def test_rules_of_a_class_and_their_names() -> None:
    assert [one.function.__name__ for one in inside.rules_of(Shelf)] == RULES


def test_initialize_rules_run_first_and_invariants_wait_for_them() -> None:
    assert 3 <= started().machine.room <= 5


def test_preconditions_and_bundles_say_what_is_allowed() -> None:
    run, rules = started(), inside.rules_of(Shelf)
    allowed = [inside.is_allowed(run.machine, one) for one in rules]
    assert allowed == [True, True, False, False, True, True]
    run.run(BRING)
    assert inside.is_allowed(run.machine, rules[FILL])


def test_results_go_into_bundles_and_are_consumed() -> None:
    run = started()
    run.run(BRING_TWO)
    run.run(FILL)
    run.run(FILL)
    assert sorted(run.machine.seen) == [1, 2]
    assert not inside.is_allowed(run.machine, inside.rules_of(Shelf)[FILL])


def test_arguments_and_data_are_drawn_by_the_seed() -> None:
    def seen(seed: int) -> tuple[Any, ...]:
        run = started(seed)
        for _ in range(20):
            run.run(LOOK)
        return tuple(run.machine.seen)

    assert seen(1) == seen(1)
    assert seen(1) != seen(2)


def test_what_assume_rejects_is_told_apart_from_failures() -> None:
    with pytest.raises(inside.GIVES_UP):
        started().run(NEVER_MIND)


def test_a_run_goes_on_from_the_choices_of_another() -> None:
    run = started(1)
    for number in (BRING, FILL, LOOK):
        run.run(number)
    again = started(2, run.choices)
    for number in (BRING, FILL, LOOK):
        again.run(number)
    assert again.machine.seen == run.machine.seen
    assert again.choices == run.choices
    again.run(LOOK)


def test_long_runs_are_noticed() -> None:
    run = started()
    assert not run.is_too_long
    while not run.is_too_long:
        run.run(LOOK)


def test_hypothesis_replays_shrinks_and_prints_what_is_handed_back() -> None:
    with pytest.raises(AssertionError, match="too heavy") as caught:
        inside.replay(inside.with_chosen_rules(Shelf), [failing(0), failing(7)], 20, SETTINGS, 0)
    printed = "\n".join(caught.value.__notes__)
    assert "state = Shelf()" in printed
    assert "state.load(weight=1000)" in printed  # the smallest that fails
    assert "look" not in printed  # left out, it fails as well


def test_the_same_failure_is_printed_every_time() -> None:
    def printed() -> str:
        with pytest.raises(AssertionError) as caught:
            inside.replay(inside.with_chosen_rules(Shelf), [failing(0)], 20, SETTINGS, 0)
        return "\n".join(caught.value.__notes__)

    assert printed() == printed()


def test_what_was_shrunk_is_kept_and_tried_first_the_next_time() -> None:
    kept = InMemoryExampleDatabase()
    settings = hypothesis.settings(SETTINGS, database=kept)
    machine = inside.with_chosen_rules(Shelf)
    inside.replay(machine, [], 20, settings, 0)  # nothing is known yet
    with pytest.raises(AssertionError, match="too heavy"):
        inside.replay(machine, [failing(0)], 20, settings, 0)
    with pytest.raises(AssertionError, match="too heavy"):
        inside.replay(machine, [], 20, settings, 0)


def test_nothing_is_raised_when_nothing_fails_any_more() -> None:
    class Mended(Shelf):
        def load(self, weight: int) -> None:
            """Bears everything."""

    choices = failing(0)
    Mended.load = rule(weight=st.integers())(Mended.load)  # type: ignore[method-assign]
    inside.replay(inside.with_chosen_rules(Mended), [choices], 20, SETTINGS, 0)


def test_keys_are_not_those_of_the_machine_without_chosen_rules() -> None:
    """Its database holds choices that mean something else; none of them is touched."""
    kept = InMemoryExampleDatabase()
    kept.save(b"key", b"theirs")
    ours = inside.HandedBack(kept)
    assert list(ours.fetch(b"key")) == []
    ours.save(b"key", b"ours")
    ours.delete(b"key", b"theirs")
    assert set(kept.fetch(b"key")) == {b"theirs"}


@pytest.mark.slow
@pytest.mark.parametrize("version", SUPPORTED)
def test_supported_versions(version: str, tmp_path: Path) -> None:
    """Needs the network."""
    install = ["-m", "pip", "install", "-q", "--no-deps", "--target", str(tmp_path)]
    packages = [f"hypothesis=={version}", "sortedcontainers", "attrs"]
    subprocess.run([sys.executable, *install, *packages], check=True)
    root = Path(__file__).parent.parent
    paths = os.pathsep.join([str(tmp_path), str(root / "src")])
    done = subprocess.run(
        [sys.executable, "-m", "pytest", __file__, "-q", "-m", "not slow"],
        capture_output=True, text=True, check=False, cwd=root,
        env={**os.environ, "PYTHONPATH": paths, MEANT: version},
    )  # fmt: skip
    assert done.returncode == 0, f"with Hypothesis {version}:\n{done.stdout[-3000:]}{done.stderr}"
