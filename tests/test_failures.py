"""Environments that fail: nothing is lost, where and how is known, and the run can go on."""

from __future__ import annotations

import ctypes
import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import covgame as cg
from covgame.errors import BadInput, EnvironmentFailed, PremiseBroken
from covgame.failures import ATTEMPTS
from covgame.storage.folder import RunFolder
from tests.rundb import query, spoil_arrays
from tests.test_cli import covgame

needs_processes = pytest.mark.skipif(os.name == "nt", reason="processes are copied by fork")


class Walk:
    """A line of five places; what ``fail`` does comes before the step."""

    actions, horizon = ("left", "right"), 6

    def reset(self, seed: int) -> int:
        self.random, self.place = random.Random(seed), 0
        return self.place

    def step(self, action: str) -> tuple[Any, float, bool]:
        self.fail(self.place, action)
        self.place = min(4, self.place + 1) if action == "right" else max(0, self.place - 1)
        return self.place, 0.0, False

    def fail(self, place: int, action: str) -> None:
        """Nothing fails."""


class Wall(Walk):
    """Always fails at one place."""

    def fail(self, place: int, action: str) -> None:
        if (place, action) == (3, "right"):
            raise RuntimeError("the wall\nis hard")


class Flaky(Walk):
    """Fails now and then."""

    def fail(self, place: int, action: str) -> None:
        if self.random.random() < 0.02:
            raise RuntimeError("now and then")


class Bridge(Walk):
    """The only way to the other side breaks after four steps over it, for good."""

    crossed = 0

    def fail(self, place: int, action: str) -> None:
        if (place, action) == (2, "right"):
            self.crossed += 1
            if self.crossed > 4:
                raise RuntimeError("the bridge is down")


class Ford(Walk):
    """The only way to the other side fails more often than not."""

    def fail(self, place: int, action: str) -> None:
        if (place, action) == (2, "right") and self.random.random() < 0.7:
            raise RuntimeError("too wet")


class Dies(Walk):
    def fail(self, place: int, action: str) -> None:
        if (place, action) == (3, "right"):
            ctypes.string_at(0)


class Leaves(Walk):
    def fail(self, place: int, action: str) -> None:
        if (place, action) == (3, "right"):
            os._exit(0)


class Hangs(Walk):
    def fail(self, place: int, action: str) -> None:
        if (place, action) == (3, "right"):
            time.sleep(1000)


class Prints(Walk):
    def fail(self, place: int, action: str) -> None:
        print("a word from the environment")  # noqa: T201
        os.write(1, b"another on file descriptor 1\n")


TARGET = "uniform:3/pair"
WAY = [[0, 1], [1, 1], [2, 1], [3, 1]]


def test_a_run_stops_after_three_attempts_and_says_where() -> None:
    with pytest.raises(EnvironmentFailed, match=r"episode 3, at stage 3: 3 / right: RuntimeError"):
        cg.cover(Wall, TARGET)


def test_what_failed_is_kept_apart_and_shown(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed, match="attempt 3 of 3"):
        cg.cover(Wall, TARGET, out=tmp_path / "run")
    run = cg.load(tmp_path / "run")
    (shown,) = run.to_dict()["failures"]
    assert (shown["state"], shown["action"], shown["episode"]) == (3, 1, 3)
    assert shown["error"] == "RuntimeError: the wall is hard"
    assert (shown["times"], shown["path"], shown["then"]) == (ATTEMPTS, WAY, "set aside")
    assert shown["where"] == "stage 3: 3 / right"
    assert run.n_episodes == 3  # none of the attempts counts
    assert pq.read_table(tmp_path / "run" / "episodes")["episode"].to_pylist()[-1] == 2
    assert "the wall" in RunFolder.open(tmp_path / "run").load_failures()[0].traceback
    assert "failed       stage 3: 3 / right (3 times, set aside)" in run.to_text()


def test_every_attempt_has_its_own_seed(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailed):
        cg.cover(Wall, TARGET, out=tmp_path / "run")
    with pytest.raises(EnvironmentFailed):
        cg.resume(tmp_path / "run", env=Wall)
    failures = RunFolder.open(tmp_path / "run").load_failures()
    assert [one.attempt for one in failures] == list(range(2 * ATTEMPTS))
    assert len({one.seed for one in failures}) == 2 * ATTEMPTS


def test_an_environment_that_fails_at_times_is_tried_again() -> None:
    run = cg.cover(Flaky, "uniform:20/pair")
    assert run.covered
    assert len(run.failures) > 1
    assert {one.then for one in run.failures} == {"set aside"}


def test_recorded_failures_end_their_episodes(tmp_path: Path) -> None:
    run = cg.cover(Wall, TARGET, on_failure="record", out=tmp_path / "run")
    assert run.covered
    steps = run.steps().to_pydict()
    rows = [
        i
        for i, (state, action) in enumerate(zip(steps["state"], steps["action"], strict=True))
        if (state, action) == (3, 1)
    ]
    assert len(rows) == len(run.failures) >= 3  # the target asks for so many
    for row in rows:
        assert steps["terminated"][row]
        assert steps["next_state"][row] == -1
        assert steps["reward"][row] == 0
    assert [one.episode for one in run.failures] == [steps["episode"][row] for row in rows]
    assert cg.certify(tmp_path / "run").to_dict()["valid"]


def test_what_is_avoided_is_not_taken_again() -> None:
    run = cg.cover(Wall, "uniform:20/pair", on_failure="avoid")
    assert run.covered
    assert len(run.failures) == 1
    assert run.counts.visits[:, 3, 1].sum() == 1
    assert run.counts.visits[:, 3, 0].sum() >= 20
    assert (None, 3, 1) not in run.target.as_rows(range(len(run.target)))


def test_listed_rows_are_left_out_when_they_are_avoided() -> None:
    wanted = cg.cells([(None, "3", "right", 5), (None, "3", "left", 5), (2, "2", None, 3)])
    run = cg.cover(Wall, wanted, on_failure="avoid")
    assert run.covered
    assert run.counts.visits[:, 3, 1].sum() == 1
    assert run.counts.visits[:, 3, 0].sum() >= 5


def test_an_action_that_fails_at_times_is_not_avoided() -> None:
    run = cg.cover(Flaky, "uniform:20/pair", on_failure="avoid", seed=3)
    assert run.covered
    often = [one for one in run.failures if one.then == "recorded"]
    assert often
    assert run.counts.visits.sum(axis=0)[:5].min() >= 20 or any(
        one.then == "avoided" for one in run.failures
    )


def test_what_only_avoided_actions_lead_to_is_given_up() -> None:
    """Without that the run would look for a way over the bridge for ever."""
    run = cg.cover(Bridge, "uniform:9/pair", on_failure="avoid", max_episodes=2000)
    assert run.covered
    assert (None, 3, 0) in run.growth.cut
    assert run.n_episodes < 2000
    assert run.to_dict()["cut_off"]
    assert "cut off" in run.to_text()


@pytest.mark.parametrize(
    ("world", "target", "rows"),
    [
        (Wall, "uniform:20/pair", 7),
        (Wall, "uniform:3/transition", 7),
        (Wall, cg.cells([(None, "3", 0, 4), (None, "3", 1, 4), (None, "3", None, 6)]), 2),
        (Bridge, "uniform:9/pair", None),  # what was over the bridge is cut off
    ],
)
def test_a_run_that_avoids_something_can_be_checked(
    world: Any, target: Any, rows: int | None, tmp_path: Path
) -> None:
    run = cg.cover(world, target, on_failure="avoid", max_episodes=2000, out=tmp_path / "run")
    assert run.covered
    checked = cg.certify(tmp_path / "run")
    assert checked.claim == "coverage"
    assert checked.numbers["rows"] == (len(run.target) if rows is None else rows)
    assert "1 state-action pair is not asked for" in checked.assumptions[-1]
    assert checked.assumptions == run.assumptions


def test_what_was_forbidden_and_taken_all_the_same_is_no_failure(tmp_path: Path) -> None:
    """Without a note of its failure nobody may have taken it."""
    cg.cover(Wall, "uniform:9/pair", on_failure="avoid", out=tmp_path / "run")
    query(tmp_path / "run", "DELETE FROM failures")
    with pytest.raises(BadInput, match="forbids actions that the data show"):
        cg.certify(tmp_path / "run")


def test_the_last_action_of_a_state_is_not_avoided() -> None:
    class OneWay(Walk):
        actions = ("right",)  # type: ignore[assignment]

        def fail(self, place: int, action: str) -> None:
            if place == 1:
                raise RuntimeError("always")

    run = cg.cover(OneWay, TARGET, on_failure="avoid")
    assert run.covered
    assert {one.then for one in run.failures} == {"recorded"}


@pytest.mark.parametrize("how", ["stop", "record", "avoid"])
@pytest.mark.parametrize("kind", [Flaky, Wall, Ford])
def test_broken_off_and_resumed_is_the_run_it_would_have_been(
    how: Any, kind: type[Walk], tmp_path: Path
) -> None:
    """Failures included; and also if all has to be counted again."""

    class Counted(kind):  # type: ignore[misc, valid-type]
        pass

    def end(**more: Any) -> Any:
        try:
            return cg.cover(Counted, "uniform:9/pair", on_failure=how, **more)
        except EnvironmentFailed:
            return None

    whole = end(out=tmp_path / "whole")
    for again in (False, True):
        folder = tmp_path / f"parts-{again}"
        end(out=folder, max_episodes=7)
        if again:
            spoil_arrays(folder)
        try:
            with pytest.warns(UserWarning, match="counted again") if again else _nothing():
                cg.resume(folder, env=Counted, max_episodes=10**6)
        except EnvironmentFailed:
            assert whole is None, "the unbroken run did not give up"
        ours, theirs = cg.load(folder), cg.load(tmp_path / "whole")
        played = theirs.steps().num_rows  # a run that gave up tries further when it is resumed
        assert ours.steps().slice(0, played).equals(theirs.steps())
        if whole is not None:
            assert ours.n_episodes == whole.n_episodes
            assert ours.to_dict()["failures"] == theirs.to_dict()["failures"]
            assert ours.to_dict()["cut_off"] == theirs.to_dict()["cut_off"]


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


def test_learning_records_failures_as_ends() -> None:
    class Small(Walk):
        actions, horizon = ("left", "right"), 3

        def fail(self, place: int, action: str) -> None:
            if (place, action) == (1, "right"):
                raise RuntimeError("no")

    run = cg.explore(Small, epsilon=2.0, most_states=3, on_failure="record", max_episodes=300)
    assert run.counts.visits[:, 1, 1].sum() == len(run.failures) > 10
    with pytest.raises(BadInput, match='on_failure="record"'):
        cg.explore(Small, epsilon=2.0, on_failure="avoid")


def test_a_certificate_says_what_it_takes_for_granted() -> None:
    run = cg.explore(Flaky, epsilon=0.1, most_states=5, max_episodes=300, horizon=3)
    assert run.bounded
    assert any(one.then == "set aside" for one in run.failures)
    assert "the claim is about episodes that do not fail" in run.assumptions[-1]
    assert run.assumptions[-1] in run.to_text()


def test_premises_are_not_tried_again() -> None:
    class Pays(Walk):
        def step(self, action: str) -> tuple[Any, float, bool]:
            return 0, 7.0, True

    with pytest.raises(EnvironmentFailed, match="reward_range"):
        cg.identify(Pays, epsilon=1.0, most_states=2, on_failure="record")
    assert issubclass(PremiseBroken, EnvironmentFailed)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "x"])
def test_seconds_that_are_none(seconds: Any) -> None:
    with pytest.raises(BadInput, match="step_timeout"):
        cg.cover(Walk, TARGET, step_timeout=seconds)
    with pytest.raises(BadInput, match="'stop', 'record' or 'avoid'"):
        cg.cover(Walk, TARGET, on_failure="panic")


# ------------------------------------------------------------------- in a process of its own


@needs_processes
def test_in_a_process_of_its_own_it_plays_the_same(tmp_path: Path) -> None:
    inside = cg.cover(Flaky, "uniform:5/pair", on_failure="record", out=tmp_path / "inside")
    apart = cg.cover(
        Flaky, "uniform:5/pair", on_failure="record", step_timeout=60, out=tmp_path / "apart"
    )
    assert apart.steps().equals(inside.steps())
    assert apart.to_dict()["failures"] == inside.to_dict()["failures"]


@needs_processes
@pytest.mark.parametrize("copied", [False, True])
def test_state_maps_and_observations_come_across(copied: bool, tmp_path: Path) -> None:
    def near(observation: Any, world: Any) -> str:
        return "near" if world.place < 2 else "far"

    class Here(Walk):  # nobody else can make it: its process is a copy of ours
        pass

    env = Here if copied else Walk
    runs = [
        cg.cover(env, TARGET, states=near, keep_observations=True, step_timeout=seconds, out=folder)
        for seconds, folder in ((None, tmp_path / "inside"), (60.0, tmp_path / "apart"))
    ]
    assert runs[1].names.states == runs[0].names.states == ["near", "far"]
    assert runs[1].steps().equals(runs[0].steps())


@needs_processes
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Dies, "segmentation fault"),
        pytest.param(Leaves, "exit code 0", marks=pytest.mark.slow),
        pytest.param(Hangs, "more than 1 seconds", marks=pytest.mark.slow),
    ],
)
def test_processes_that_end_or_hang_are_replaced(kind: type[Walk], words: str) -> None:
    run = cg.cover(kind, TARGET, on_failure="record", step_timeout=1.0)
    assert run.covered
    assert run.counts.visits[:, 3, 1].sum() == len(run.failures) >= 3
    assert all(words in one.error and one.died for one in run.failures)
    with pytest.raises(EnvironmentFailed, match=words):
        cg.cover(kind, TARGET, step_timeout=1.0)


@needs_processes
def test_no_process_outlives_a_run() -> None:
    import multiprocessing

    cg.cover(Walk, TARGET, isolate=True)
    assert not multiprocessing.active_children()


def test_what_an_environment_prints_is_no_answer(tmp_path: Path) -> None:
    for more in ([], ["--step-timeout", "60"] if os.name != "nt" else []):
        done = covgame(
            "cover", f"py:{__name__}:Prints", "--target", TARGET, "--json", *more,
            "--out", str(tmp_path / f"run-{len(more)}"),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["covered"]
        assert "a word from the environment" in done.stderr
        assert "another on file descriptor 1" in done.stderr


def test_tracebacks_are_for_who_asks(tmp_path: Path) -> None:
    asked = ["cover", f"py:{__name__}:Wall", "--target", TARGET, "--json", "--out"]
    plain, debug = (
        covgame(*asked, str(tmp_path / "a")),
        covgame(*asked, str(tmp_path / "b"), "--debug"),
    )
    for done in (plain, debug):
        assert done.returncode == 4
        answer = json.loads(done.stdout)
        assert answer["failures"][0]["path"] == WAY
        assert "--on-failure avoid" in done.stderr
    assert "Traceback" not in plain.stderr
    assert 'raise RuntimeError("the wall' in debug.stderr


class Late(Walk):
    """Fails at one place, with another number every time."""

    def fail(self, place: int, action: str) -> None:
        if (place, action) == (3, "right"):
            raise TimeoutError(f"no answer after {self.random.random():.3f} s at 0x{id(self):x}")


def test_failures_that_differ_in_numbers_are_one_kind_with_the_shortest_way() -> None:
    run = cg.cover(Late, "uniform:8/pair", on_failure="record")
    assert run.covered
    ((shortest, times),) = run.failures.distinct()
    assert times == len(run.failures) >= 8
    assert len({one.error for one in run.failures}) > 1
    assert len(shortest.path) == min(len(one.path) for one in run.failures)
    (told,) = run.to_dict()["failures"]
    assert told["way"] == [run.names.action(action) for _, action in shortest.path]
    assert told["way"][-1] == "right"
    assert "3 / right" in told["where"]
    assert run.to_text().count("TimeoutError") == 1
