"""Targets that people ask for: transitions, functions of state and action, rows by label."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame.episodes import Episode
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.mdp.transitions import Transitions
from covgame.names import Names
from covgame.storage.reading import RecordedEpisodes
from covgame.targets.moves import possible_moves
from tests.doors import Door, moves_of, transitions_hold
from tests.rooms import assert_same, whatever_is_said
from tests.rundb import arrays_of, config_of, document_of, drop_arrays, result_of, set_config
from tests.runs import coverage_at
from tests.worlds import dense_kernel, min_episodes_by_enumeration, random_world, small_worlds

few = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def episodes_of(path: Path) -> list[Episode]:
    visits = arrays_of(path)["visits"]
    return list(RecordedEpisodes(path / "episodes", cg.Shape(*visits.shape)))


# ------------------------------------------------------------------------------ transitions


@pytest.mark.parametrize("count", [1, 4.5, 20])
def test_transitions_are_covered_when_and_only_when_a_recount_says_so(
    count: float, tmp_path: Path
) -> None:
    run = cg.cover(Door, cg.uniform(count, "transition"), seed=3, out=tmp_path / "run")
    episodes = episodes_of(tmp_path / "run")
    assert run.covered
    assert run.uncovered == run.uncovered_transitions == []
    assert transitions_hold(episodes, 3, count)
    assert run.growth.second_look is not None
    last = len(episodes) - run.growth.second_look.in_vain  # then it looks further for a while
    assert not transitions_hold(episodes[: last - 1], 3, count)  # and it stops at once
    times, _ = moves_of(episodes, 3)
    assert run.transitions is not None
    assert len(run.transitions) == len(times)
    assert cg.certify(tmp_path / "run").numbers["transitions"] == len(times)


@few
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["default", "paper"]))
def test_on_a_known_model_they_are_those_that_can_happen(
    seed: int, stationary: bool, preset: Any
) -> None:
    rng = np.random.default_rng(seed)
    shape = cg.Shape(int(rng.integers(2, 5)), int(rng.integers(1, 4)), 2)
    world = random_world(rng, shape, stationary=stationary)
    reachable, kernel = dp.reachable(world.transitions), dense_kernel(world)
    possible = {
        (s, a, t if t < shape.states else cg.END)
        for h in range(shape.horizon - 1)
        for s in np.flatnonzero(reachable[h]).tolist()
        for a in range(2)
        for t in np.flatnonzero(kernel[h, s, a]).tolist()
    }
    moves = possible_moves(world.transitions)
    listed = zip(*np.divmod(moves.pair, 2), moves.successor, strict=True)
    assert {(int(s), int(a), int(t)) for s, a, t in listed} == possible
    run = cg.cover(world, "uniform:2/transition", seed=seed, preset=preset, max_episodes=2_000)
    if not run.covered:
        return  # one of them is too rare
    rows, successors, times = run.counts.table.listed(0, len(run.counts.table))
    seen: dict[tuple[int, int, int], int] = {}
    for row, successor, n in zip(rows.tolist(), successors.tolist(), times.tolist(), strict=True):
        pair = row % shape.pairs
        move = pair // 2, pair % 2, successor
        seen[move] = seen.get(move, 0) + n
    assert set(seen) == possible
    assert min(seen.values()) >= 2


def test_the_price_of_transitions_is_that_of_the_rarest() -> None:
    """By hand: one state, one action; it stays with probability 0.8, or the episode ends."""
    transitions = Transitions.from_entries(
        cg.Shape(3, 1, 1), np.ones(1), np.zeros(2, dtype=np.int64), np.array([0, cg.END]),
        np.array([0.8, 0.2]), stationary=True,
    )  # fmt: skip
    world = TabularMDP(transitions, np.zeros((1, 1, 1)))
    # 10/0.2 = 50 steps before the last; an episode has 1 + 0.8 of them.
    assert cg.plan(world, "uniform:10/transition").min_episodes == pytest.approx(50 / 1.8)
    ratios = [cg.cover(world, "uniform:10/transition", seed=seed).ratio for seed in range(40)]
    assert np.mean([ratio for ratio in ratios if ratio]) > 0.95


def test_a_step_that_was_the_last_one_is_no_transition() -> None:
    with pytest.raises(cg.BadInput, match="one step"):
        cg.cover("chain:states=3,horizon=1", "uniform:2/transition")
    run = cg.cover("chain:states=4,horizon=6", "uniform:3/transition")
    assert run.target.members.cell.max() < 5 * 8  # the rows pay nothing at the last stage
    assert run.covered


@pytest.mark.parametrize("env", [Door, "riverswim:states=4,horizon=8"], ids=["own", "model"])
def test_transitions_stopped_and_resumed_are_unbroken(env: Any, tmp_path: Path) -> None:
    whole = cg.cover(env, "uniform:25/transition", out=tmp_path / "whole")
    for name, stops in (("a", [1, 2]), ("b", [10, 33]), ("c", [whole.n_episodes - 1])):
        cg.cover(env, "uniform:25/transition", out=tmp_path / name, max_episodes=0)
        again = env if env is Door else None
        for stop in [*stops, 10_000]:
            run = cg.resume(tmp_path / name, env=again, max_episodes=stop)
        assert run.covered
        assert_same(tmp_path / "whole", tmp_path / name)
    drop_arrays(tmp_path / "c")
    if env is Door:  # its episodes are counted again
        with whatever_is_said():
            run = cg.resume(tmp_path / "c", env=env)
        assert (run.covered, run.n_episodes) == (True, whole.n_episodes)
        assert run.target.counts.tolist() == whole.target.counts.tolist()


def test_transitions_of_a_table_that_is_played_by_its_own_steps(tmp_path: Path) -> None:
    lake = "gym:FrozenLake-v1"
    whole = cg.cover(lake, "uniform:2/transition", horizon=15, out=tmp_path / "whole")
    cg.cover(lake, "uniform:2/transition", horizon=15, out=tmp_path / "parts", max_episodes=5)
    for stop in (6, 40, 5000):
        cg.resume(tmp_path / "parts", max_episodes=stop)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    model = cg.make(lake, 15).require_model("this")
    moves = possible_moves(model.transitions, last_step=True)  # its last step shows where it led
    times, _ = moves_of(episodes_of(tmp_path / "whole"), 4)
    listed = zip(*np.divmod(moves.pair, 4), moves.successor, strict=True)
    assert set(times) == {(int(s), int(a), int(t)) for s, a, t in listed}
    assert min(times.values()) >= 2
    assert whole.min_episodes == cg.plan(lake, "uniform:2/transition", horizon=15).min_episodes


def test_no_transitions_take_no_episode() -> None:
    for asked in ({}, {"min_reach": 1.0}):
        count = 0 if not asked else 3
        run = cg.cover("riverswim:states=4,horizon=6", f"uniform:{count}/transition", **asked)  # type: ignore[arg-type]
        assert run.covered
    assert cg.cover("chain:states=3,horizon=4", "uniform:0/transition").n_episodes == 0
    assert cg.cover(Door, "uniform:0/transition").covered


def test_transitions_in_words_and_in_json(tmp_path: Path) -> None:
    run = cg.cover(Door, "uniform:9/transition", max_episodes=6, out=tmp_path / "run")
    answer = result_of(tmp_path / "run")
    missing = answer["uncovered_transitions"]
    assert missing == [[*move, n] for move, n in run.uncovered_transitions]
    per_pair: dict[tuple[int, int], float] = {}
    for state, action, _, n in missing:
        per_pair[state, action] = per_pair.get((state, action), 0) + n
    assert per_pair.items() <= {(s, a): n for _, s, a, n in answer["uncovered"]}.items()
    page = run.to_text()
    assert "transitions seen so far; each " in page
    assert "  CLOSED / wait -> CLOSED\n" in page
    with pytest.raises(cg.BadInput, match="transitions lack visits"):
        cg.certify(tmp_path / "run")


def visits_of_transitions(path: Path) -> Counter[tuple[int, int, int]]:
    """How often each (state, action, next state) was recorded, -1 for the end of an episode."""
    steps = cg.load(path).steps().to_pydict()
    ends = zip(steps["next_state"], steps["terminated"], strict=True)
    successors = [-1 if over else state for state, over in ends]
    return Counter(zip(steps["state"], steps["action"], successors, strict=True))


def test_a_claim_about_transitions_is_checked(tmp_path: Path) -> None:
    cg.cover(Door, "uniform:5/transition", out=tmp_path / "run")
    lacking = 1.0 + min(visits_of_transitions(tmp_path / "run").values())
    set_config(
        tmp_path / "run", growing={**config_of(tmp_path / "run")["growing"], "count": lacking}
    )
    with pytest.raises(cg.BadInput, match="transitions lack visits"):
        cg.certify(tmp_path / "run")


def test_transitions_are_played_episode_by_episode() -> None:
    for play in ("lazy", "counts"):
        with pytest.raises(cg.BadInput, match='play="exact"'):
            cg.cover("chain", "uniform:2/transition", play=play)


# ----------------------------------------------------------------------------------- groups


@few
@given(small_worlds, st.integers(0, 10**6))
def test_the_price_of_groups_is_the_programs(world: TabularMDP, seed: int) -> None:
    """Against the program over all deterministic policies, built from the definition."""
    H, S, A = world.shape.hsa
    values = np.random.default_rng(seed).integers(0, 4, (S, A)).tolist()
    wanted = cg.groups(lambda s, a: values[s][a] or None, 3)
    plan = cg.plan(world, wanted)
    target = plan.target
    reachable = np.logical_or.reduce(dp.reachable(world.transitions), axis=0)
    there = {str(values[s][a]) for s in range(S) if reachable[s] for a in range(A)} - {"0"}
    assert {name for _, name, _ in target.as_rows(range(len(target)))} == there
    for row, (_, name, _) in enumerate(target.as_rows(range(len(target)))):
        mine = target.members.cell[target.members.row == row]
        cells = [(c // (S * A), c // A % S, c % A) for c in mine.tolist()]
        assert cells == [
            (h, s, a)
            for h in range(H)
            for s in range(S)
            for a in range(A)
            if str(values[s][a]) == name and reachable[s]
        ]
    if len(target):
        assert plan.min_episodes == pytest.approx(min_episodes_by_enumeration(world, target))
        assert {name for (_, name, _), _ in plan.dearest()} <= there
        run = cg.cover(world, wanted, max_episodes=5000)
        collected = dict.fromkeys(there, 0)
        for s in range(S):
            for a in range(A):
                if str(values[s][a]) in there:
                    collected[str(values[s][a])] += int(run.counts.visits[:, s, a].sum())
        assert run.covered == all(n >= 3 for n in collected.values())


def test_groups_get_what_the_user_knows() -> None:
    asked: set[Any] = set()

    def look(state: Any, action: Any) -> None:
        asked.add((state, action))

    cg.plan("riverswim:states=3,horizon=5", cg.groups(look, 1))
    assert asked == {(s, a) for s in range(3) for a in ("left", "right")}
    asked.clear()
    cg.cover(Door, cg.groups(look, 1), max_episodes=20)
    assert asked == {(s, a) for s in ("CLOSED", "OPEN", "LOCKED") for a in Door.actions}


class Rooms(Door):
    """Observations that are more than text."""

    def reset(self, seed: int) -> Any:
        return self._shown(super().reset(seed))

    def step(self, action: str) -> Any:
        state, reward, done = super().step(action)
        return self._shown(state), reward, done

    def _shown(self, state: str) -> Any:
        return {"door": state, "numbers": np.array([len(state), 2.0])}


def test_observations_are_tuples_before_and_after_resuming(tmp_path: Path) -> None:
    def function(state: Any, action: str) -> tuple[str, int]:
        (door, name), (numbers, (length, two)) = state
        assert (door, numbers, two) == ("door", "numbers", 2)
        return name, length * (action == "push")

    cg.cover(Rooms, cg.groups(function, 9), out=tmp_path / "whole")
    cg.cover(Rooms, cg.groups(function, 9), out=tmp_path / "parts", max_episodes=1)
    for stop in (2, 3, 1000):
        handed = cg.groups(function, 1)  # the run knows its count
        run = cg.resume(tmp_path / "parts", env=Rooms, target=handed, max_episodes=stop)
    assert run.covered
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert cg.certify(tmp_path / "parts").numbers["rows"] == len(run.target)


def test_groups_of_discovered_states_need_their_function_again(tmp_path: Path) -> None:
    wanted = cg.groups(lambda state, action: (state, action), 5)
    cg.cover(Door, wanted, out=tmp_path / "run", max_episodes=2)
    names = {name for (_, name, _), _ in coverage_with(Door, tmp_path / "run").uncovered}
    assert "(CLOSED, wait)" in names  # looking needs no function
    with pytest.raises(cg.BadInput, match=r"target=covgame.groups"):
        cg.resume(tmp_path / "run", env=Door, max_episodes=500)
    with pytest.raises(cg.BadInput, match="keeps its target"):
        cg.resume(tmp_path / "run", env=Door, target=cg.uniform(3))
    assert cg.resume(tmp_path / "run", env=Door, target=wanted, max_episodes=500).covered


def test_groups_are_looked_for() -> None:
    """What is wanted shows only far away; nothing nearer is in a group."""
    far = cg.groups(lambda state, action: "locked" if state == "LOCKED" else None, 30)
    run = cg.cover(Door, far)
    locked = list(run.names.states or []).index("LOCKED")
    assert run.covered
    assert run.counts.visits[:, locked].sum() >= 30
    acted_in = [state for state, name in enumerate(run.names.states or []) if name != "BROKEN"]
    assert run.counts.visits.sum(axis=0)[acted_in].min() >= 1
    unsought = cg.cover(Door, cg.groups(lambda state, action: None, 30, tries=0))
    assert unsought.covered
    assert unsought.growth.second_look is not None
    assert unsought.n_episodes == 1 + unsought.growth.second_look.episodes


def coverage_with(env: Any, path: Path) -> cg.Coverage:
    run = cg.load(path, env=env)
    assert isinstance(run, cg.Coverage)
    return run


def test_groups_of_a_model_are_kept_with_the_run(tmp_path: Path) -> None:
    wanted = cg.groups(lambda state, action: f"{action} in {state // 2}", 12)
    whole = cg.cover("riverswim:states=4,horizon=8", wanted, out=tmp_path / "whole")
    cg.cover("riverswim:states=4,horizon=8", wanted, out=tmp_path / "parts", max_episodes=3)
    run = cg.resume(tmp_path / "parts", max_episodes=1000)
    assert run.covered
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert run.min_episodes == whole.min_episodes
    assert run.target.as_rows([0, 3]) == [(None, "left in 0", None), (None, "right in 1", None)]
    assert cg.certify(tmp_path / "parts").numbers == {"rows": 4, "visits": 48.0}
    (tmp_path / "target.json").write_text(json.dumps(document_of(tmp_path / "whole", "target")))
    again = cg.plan("riverswim:states=4,horizon=8", str(tmp_path / "target.json"))
    assert again.min_episodes == whole.min_episodes  # a target file can hold groups


@pytest.mark.parametrize("play", ["exact", "lazy", "counts"])
@pytest.mark.parametrize("preset", ["default", "paper"])
def test_groups_are_covered_whoever_plays(play: Any, preset: Any) -> None:
    wanted = cg.groups(lambda state, action: "end" if state in (0, 3) else action, 30)
    run = cg.cover("riverswim:states=4,horizon=8", wanted, play=play, preset=preset)
    visits = run.counts.visits.sum(axis=0)
    assert run.covered
    assert min(visits[[0, 3]].sum(), visits[[1, 2], 0].sum(), visits[[1, 2], 1].sum()) >= 30


def test_min_reach_of_groups_is_the_chance_to_visit_one_of_them(tmp_path: Path) -> None:
    world = cg.make("riverswim:states=5,horizon=8")
    both = cg.groups(lambda state, action: "far" if state >= 3 else "near", 2)
    far = cg.plan(world, cg.cells([(None, 3, None, 1.0)]), min_reach=1e-9)
    assert far.target.rows.tolist() == [[-1, 3, -1]]
    plan = cg.plan(world, both, min_reach=0.999)
    assert [row for row, _ in plan.unreachable] == [(None, "far", None)]
    chance = dp.hitting(world.require_model("this").transitions)[3]
    assert plan.unreachable[0][1] == pytest.approx(chance)
    run = cg.cover(world, both, min_reach=0.999, out=tmp_path / "run")
    assert coverage_at(tmp_path / "run").unreachable == run.unreachable


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda state, action: 1 / 0, "ZeroDivisionError"),
        (lambda state, action: object(), "another in every process"),
        (lambda state: state, "TypeError"),
        (7, "function of state and action"),
    ],
)
def test_functions_that_make_no_groups(function: Any, words: str) -> None:
    with pytest.raises(cg.BadInput, match=words):
        cg.cover("chain", cg.groups(function, 3))


# ----------------------------------------------------------------------------------- labels


def door_model() -> TabularMDP:
    world = random_world(np.random.default_rng(1), cg.Shape(4, 3, 2), stationary=True, ending=0)
    return TabularMDP(
        world.transitions, world.stage_rewards, Names(("CLOSED", "OPEN", "OPEN"), ("push", "wait"))
    )


def test_rows_by_label_are_rows_by_number(tmp_path: Path) -> None:
    world = door_model()
    by_label = cg.cells([(None, "CLOSED", "push", 4), (2, "CLOSED", None, 1), (None, 1, "wait", 2)])
    by_number = cg.cells([(None, 0, 0, 4), (2, 0, None, 1), (None, 1, 1, 2)])
    file = tmp_path / "target.json"
    rows = [[None, "CLOSED", "push", 4], [2, "CLOSED", None, 1], [None, 1, "wait", 2]]
    file.write_text(json.dumps({"format": "covgame-target/1", "cells": rows}))
    for asked in (by_label, file):
        plan = cg.plan(world, asked)
        assert plan.target.rows.tolist() == cg.plan(world, by_number).target.rows.tolist()
        assert cg.cover(world, asked).n_episodes == cg.cover(world, by_number).n_episodes
    grid = cg.plan("grid:rows=2,columns=2", cg.cells([(None, "row 1, column 0", "up", 1)]))
    assert grid.target.rows[0, 1] == 2


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, "CLSED", None, 1), "no state is called 'CLSED'; did you mean 'CLOSED'?"),
        ((None, "OPEN", None, 1), "2 states are called 'OPEN'; say which by number"),
        ((None, 0, "psh", 1), "no action is called 'psh'; did you mean 'push'?"),
        ((None, "x", None, 1), "there are 'CLOSED'"),
    ],
)
def test_labels_that_are_none(row: Any, words: str) -> None:
    with pytest.raises(cg.BadInput, match=words.replace("?", r"\?")):
        cg.plan(door_model(), cg.cells([row]))


def test_a_list_waits_for_its_states(tmp_path: Path) -> None:
    wanted = cg.cells([(None, "LOCKED", "wait", 12), (2, "OPEN", None, 3)])
    run = cg.cover(Door, wanted, out=tmp_path / "whole")
    labels = list(run.names.states or [])
    visits, locked, door = run.counts.visits, labels.index("LOCKED"), labels.index("OPEN")
    assert run.covered
    assert visits[:, locked, 2].sum() >= 12
    assert visits[2, door].sum() >= 3
    cg.cover(Door, wanted, out=tmp_path / "parts", max_episodes=1)
    for stop in (2, 1000):
        cg.resume(tmp_path / "parts", env=Door, max_episodes=stop)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert cg.certify(tmp_path / "parts").claim == "coverage"


def test_what_never_appeared_is_uncovered_in_the_end(tmp_path: Path) -> None:
    wanted = cg.cells([(None, "GONE", "wait", 2), (None, "CLOSED", None, 1)])
    run = cg.cover(Door, wanted, out=tmp_path / "run")
    assert (run.covered, run.stopped) == (False, "unseen")
    assert run.uncovered == [((None, "GONE", 2), 2.0)]
    assert run.counts.visits.sum(axis=0)[:3].min() >= 10  # it was looked for
    assert "GONE (every action of every state seen was tried 10 times)" in run.to_text()
    with pytest.raises(cg.BadInput, match="'GONE' never appeared"):
        cg.certify(tmp_path / "run")
    again = cg.resume(tmp_path / "run", env=Door)
    assert (again.stopped, again.n_episodes) == ("unseen", run.n_episodes)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((None, 0, None, 1), "numbers as they appear"),
        ((9, "OPEN", None, 1), "stage 9 does not exist"),
        ((None, "OPEN", 3, 1), "action 3 does not exist"),
        ((None, "OPEN", "pull", 1), "no action is called 'pull'"),
    ],
)
def test_lists_that_cannot_wait(row: Any, words: str) -> None:
    with pytest.raises(cg.BadInput, match=words):
        cg.cover(Door, cg.cells([row]))


def test_rewards_by_label() -> None:
    run = cg.cover(Door, "uniform:20/pair")
    labels = list(run.names.states or [])
    reward = cg.rewards([(None, "LOCKED", "wait", 1.0), (0, "CLOSED", None, 0.5)], run)
    assert reward[:, labels.index("LOCKED"), 2].tolist() == [1.0] * 7
    assert reward.sum() == 7 + 1.5
    for wrong in [(None, "LOCKD", 0, 1.0)], [(None, "OPEN", 0, 2.0)], [(None, "OPEN", 0)]:
        with pytest.raises(cg.BadInput):
            cg.rewards(wrong, run)  # type: ignore[arg-type]
