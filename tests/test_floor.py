"""The floor under certified learning: closed forms, and certificates checked independently."""

from __future__ import annotations

import json
from math import inf, log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame.flow import floor as module
from covgame.flow.alternatives import (
    WorldClass,
    Worlds,
    kl_coins,
    lower_values,
    tilted_coins,
    tilted_rows,
)
from covgame.flow.floor import Floor, FloorTask, learning_floor
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import Shape
from tests.test_cli import covgame
from tests.worlds import random_world

CLOSE = 1e-4
NEEDED = 0.8 * log(9)  # kl(0.9, 0.1)


def kl(p: float, q: float) -> float:
    return sum(a * (log(a / b) if b > 0 else inf) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)


def kernel(
    shape: Shape, moves: list[tuple[int, int, float]], *, stationary: bool = False
) -> Transitions:
    """From (row, successor, probability), the same at every stage; starts in state 0."""
    stages = 1 if stationary else shape.horizon
    rows = [(h * shape.pairs + row, s, p) for h in range(stages) for row, s, p in moves]
    row, successor, chance = (np.array(column) for column in zip(*rows, strict=True))
    start = np.eye(shape.states)[0]
    return Transitions.from_entries(
        shape, start, row, successor, chance.astype(np.float64), stationary=stationary
    )


def arms(means: list[float]) -> WorldClass:
    """A bandit: one state, one stage."""
    shape = Shape(1, 1, len(means))
    transitions = kernel(shape, [(a, 0, 1.0) for a in range(len(means))])
    return WorldClass(transitions, np.array(means).reshape(1, 1, -1))


def coin(p: float, actions: int = 1, *, new_outcomes: bool = True) -> WorldClass:
    """Every action leads from state 0 to state 1 with chance p, to state 2 otherwise."""
    shape = Shape(2, 3, actions)
    moves = [(a, s, q) for a in range(actions) for s, q in ((1, p), (2, 1 - p)) if q > 0]
    moves += [(s * actions + a, s, 1.0) for s in (1, 2) for a in range(actions)]
    rewards = np.zeros(shape.hsa)
    return WorldClass(
        kernel(shape, moves), rewards, changes_rewards=False, new_outcomes=new_outcomes
    )


# ------------------------------------------------------------------------- closed forms


def test_two_arms_far_apart() -> None:
    """The better arm may be better or worse by epsilon, the other one may be the best."""
    floor = learning_floor(arms([0.7, 0.4]), "identify", 0.2, 0.1)
    by_hand = 1 / min(kl(0.7, 0.9), kl(0.7, 0.5)) + 1 / kl(0.4, 0.9)
    assert floor.episodes == pytest.approx(NEEDED * by_hand, rel=CLOSE)
    assert floor.episodes <= NEEDED * by_hand
    assert floor.ended


def test_two_arms_close_together() -> None:
    """V* is lower by epsilon only if both arms are: one constraint over two cells.

    Visits n of the arms: n_2 kl(.6, .9) >= 1, and n_1 kl(.7, .5) + n_2 kl(.6, .5) >= 1 is cheaper
    to meet by the first arm.
    """
    floor = learning_floor(arms([0.7, 0.6]), "identify", 0.2, 0.1)
    second = 1 / kl(0.6, 0.9)
    first = (1 - second * kl(0.6, 0.5)) / kl(0.7, 0.5)
    assert first * kl(0.7, 0.9) > 1
    assert floor.episodes == pytest.approx(NEEDED * (first + second), rel=CLOSE)


def test_what_cannot_be_better_may_be_worse() -> None:
    """A mean of 0.95 cannot rise by 0.2, and no other arm can reach 1.15."""
    floor = learning_floor(arms([0.95, 0.3]), "identify", 0.2, 0.1)
    assert floor.episodes == pytest.approx(NEEDED / kl(0.95, 0.75), rel=CLOSE)


@pytest.mark.parametrize("delta", [0.01, 0.3])
def test_delta(delta: float) -> None:
    floor = learning_floor(arms([0.5]), "identify", 0.25, delta)
    assert floor.episodes == pytest.approx(kl(1 - delta, delta) / kl(0.5, 0.25), rel=CLOSE)


@pytest.mark.parametrize("actions", [1, 2])
def test_a_coin_to_be_learnt(actions: int) -> None:
    """A reward on state 1 or 2 shows a change of p by epsilon, for every action by itself."""
    floor = learning_floor(coin(0.4, actions), "explore", 0.2, 0.1)
    by_hand = actions / min(kl(0.4, 0.6), kl(0.4, 0.2))
    assert floor.episodes == pytest.approx(NEEDED * by_hand, rel=CLOSE)


def test_what_never_happened_may_be_possible() -> None:
    """A sure move that is not sure: mass epsilon to another state."""
    floor = learning_floor(coin(1.0), "explore", 0.2, 0.1)
    assert floor.episodes == pytest.approx(NEEDED / -log(0.8), rel=CLOSE)
    known = learning_floor(coin(1.0, new_outcomes=False), "explore", 0.2, 0.1)
    assert known.episodes == 0
    assert known.ended


def test_rewards_without_new_outcomes() -> None:
    """A reward of 0 stays 0 where only what can happen may happen."""
    means = arms([0.0, 0.5])
    both = learning_floor(means, "identify", 0.2, 0.1)
    assert both.episodes == pytest.approx(NEEDED * (1 / kl(0.5, 0.7) + 1 / kl(0, 0.7)), rel=CLOSE)
    known = WorldClass(means.transitions, means.rewards, new_outcomes=False)
    only = learning_floor(known, "identify", 0.2, 0.1)
    assert only.episodes == pytest.approx(NEEDED / kl(0.5, 0.7), rel=CLOSE)


def test_pooled_visits_add_up() -> None:
    """One state and one action for H stages: H observations of one mean, whose sum moves by eps."""
    H, epsilon = 4, 0.8
    shape = Shape(H, 1, 1)
    transitions = kernel(shape, [(0, 0, 1.0)], stationary=True)
    rewards = np.full(shape.hsa, 0.5)
    pooled = WorldClass(transitions, rewards, stationary=True, same_rewards=True)
    floor = learning_floor(pooled, "identify", epsilon, 0.1)
    assert floor.episodes == pytest.approx(NEEDED / (H * kl(0.5, 0.5 + epsilon / H)), rel=CLOSE)
    apart = learning_floor(WorldClass(transitions, rewards), "identify", epsilon, 0.1)
    # Told apart, the cheapest change is the same; it costs the same, one stage after the other.
    assert apart.episodes == pytest.approx(floor.episodes, rel=CLOSE)


def test_a_pooled_row_is_one_row() -> None:
    """A state that is kept with chance p at both of two moves: V = p + p^2 for the reward 1 there.

    A visit at the last stage counts as well. With stages apart each move may change by itself,
    by so much that the second alone moves V by epsilon.
    """
    p, epsilon = 0.5, 0.2
    shape = Shape(3, 2, 1)
    moves = [(0, 0, p), (0, 1, 1 - p), (1, 1, 1.0)]
    transitions = kernel(shape, moves, stationary=True)
    rewards = np.zeros(shape.hsa)
    pooled = WorldClass(transitions, rewards, True, True, changes_rewards=False)
    floor = learning_floor(pooled, "explore", epsilon, 0.1)
    moved = (-1 + np.sqrt(1 + 4 * (p + p**2 + epsilon))) / 2
    fallen = (-1 + np.sqrt(1 + 4 * (p + p**2 - epsilon))) / 2
    least = min(kl(p, moved), kl(p, fallen)) * (1 + p + p**2)
    assert floor.episodes >= NEEDED / least * (1 - CLOSE)
    apart = learning_floor(
        WorldClass(transitions, rewards, changes_rewards=False), "explore", epsilon, 0.1
    )
    assert apart.episodes > floor.episodes


def test_an_action_that_is_forbidden_never_changes() -> None:
    shape = Shape(2, 3, 2)
    moves = [(0, 1, 0.4), (0, 2, 0.6), (2, 1, 1.0), (4, 2, 1.0)]
    free = kernel(shape, moves)
    allowed = np.array([[True, False]] * 3)
    masked = Transitions(
        shape, free.initial, free.start, free.next_state, free.probability, False, allowed
    )
    family = WorldClass(masked, np.zeros(shape.hsa), changes_rewards=False)
    floor = learning_floor(family, "explore", 0.2, 0.1)
    one_action = learning_floor(coin(0.4), "explore", 0.2, 0.1)
    assert floor.episodes == pytest.approx(one_action.episodes, rel=CLOSE)


# ------------------------------------------------------------ certificates, independently


def dense(transitions: Transitions) -> np.ndarray:
    """(H, S, A, S + 1), the end last."""
    H, S, A = transitions.shape.hsa
    result = np.zeros((H, S * A, S + 1))
    for h, rows in enumerate(transitions.stages):
        for row in range(S * A):
            for entry in range(rows.start[row], rows.start[row + 1]):
                result[h, row, rows.next_state[entry]] += rows.probability[entry]
    return result.reshape(H, S, A, S + 1)


def best_value(transitions: Transitions, rewards: np.ndarray) -> float:
    p, values = dense(transitions), np.zeros(transitions.shape.states + 1)
    for h in reversed(range(transitions.shape.horizon)):
        q = rewards[h] + (p[h] @ values if h + 1 < transitions.shape.horizon else 0.0)
        values = np.append(q.max(axis=1), 0.0)
    return float(transitions.initial @ values[:-1])


def value_of(transitions: Transitions, reward: np.ndarray, policy: np.ndarray) -> float:
    p, values = dense(transitions), np.zeros(transitions.shape.states + 1)
    for h in reversed(range(transitions.shape.horizon)):
        q = reward[h] + (p[h] @ values if h + 1 < transitions.shape.horizon else 0.0)
        values = np.append((policy[h] * q).sum(axis=1), 0.0)
    return float(transitions.initial @ values[:-1])


def check(family: WorldClass, floor: Floor) -> None:
    """The floor from its alternatives and multipliers, by plain loops over dense arrays."""
    given, H = family.transitions, family.transitions.shape.horizon
    p = dense(given)
    total = np.zeros(given.shape.hsa)
    for one, multiplier in zip(floor.alternatives, floor.multipliers, strict=True):
        q = dense(one.transitions)
        told = np.zeros(given.shape.hsa)
        for h, s, a in np.ndindex(given.shape.hsa):
            if family.stationary or h + 1 < H:
                assert q[h, s, a].sum() == pytest.approx(1)
                told[h, s, a] += sum(
                    x * log(x / y) for x, y in zip(p[h, s, a], q[h, s, a], strict=True) if x > 0
                )
            told[h, s, a] += kl(float(family.rewards[h, s, a]), float(one.rewards[h, s, a]))
        if family.stationary:
            assert one.transitions.stationary
        reached = np.broadcast_to(dp.reachable(given)[..., None], told.shape)
        np.testing.assert_allclose(one.information[reached], told[reached], rtol=1e-6, atol=1e-12)
        assert (one.information[~reached] == 0).all()
        total += multiplier * one.information
        values = [
            best_value(kernel_, pays)
            if one.policy is None or one.reward is None
            else value_of(kernel_, one.reward, one.policy)
            for kernel_, pays in ((given, family.rewards), (one.transitions, one.rewards))
        ]
        assert abs(values[1] - values[0]) > floor.epsilon
        assert (one.policy is None) == (floor.task == "identify")
    most = best_value(given, total)
    needed = kl(1 - floor.delta, floor.delta)
    if len(floor.alternatives):
        proved = needed * float(floor.multipliers.sum()) / most
        assert floor.episodes == pytest.approx(proved, rel=1e-6)
        assert floor.episodes <= proved
    else:
        assert floor.episodes == 0


@settings(max_examples=12)
@given(
    st.integers(0, 2**31),
    st.sampled_from(["identify", "explore"]),
    st.booleans(),
    st.booleans(),
    st.floats(0.1, 0.6),
)
def test_certificates(seed: int, task: FloorTask, pooled: bool, new: bool, epsilon: float) -> None:
    """Whatever the search finds, the number follows from what is listed with it."""
    world = random_world(np.random.default_rng(seed), Shape(3, 3, 2), ending=0.3, stationary=pooled)
    family = WorldClass(
        world.transitions,
        world.rewards,
        stationary=pooled,
        same_rewards=pooled and len(world.stage_rewards) == 1,
        changes_rewards=task == "identify",
        new_outcomes=new,
    )
    floor = learning_floor(family, task, epsilon, 0.1, quick=True)
    check(family, floor)
    assert floor.episodes <= floor.attained
    for one in floor.alternatives:
        assert module.is_member(family, one.transitions, one.rewards)


def test_what_is_no_member_is_refused() -> None:
    family = coin(0.4)
    given = family.transitions
    other = coin(0.5).transitions
    assert module.is_member(family, other, family.rewards)
    assert not module.is_member(family, other, family.rewards + 0.1)
    assert not module.is_member(family, coin(0.5, 2).transitions, family.rewards)
    late = Transitions(
        given.shape,
        np.array([0.5, 0.5, 0]),
        given.start,
        given.next_state,
        given.probability,
        False,
    )
    assert not module.is_member(family, late, family.rewards)
    short = Transitions(
        given.shape, given.initial, given.start, given.next_state, given.probability * 0.9, False
    )
    assert not module.is_member(family, short, family.rewards)
    ends = np.where(given.next_state == 2, cg.END, given.next_state)
    ending = Transitions(given.shape, given.initial, given.start, ends, given.probability, False)
    assert not module.is_member(family, ending, family.rewards)
    sure = coin(1.0, new_outcomes=False)
    assert not module.is_member(sure, other, sure.rewards)
    shared = WorldClass(other, family.rewards, stationary=True)
    assert not module.is_member(shared, other, family.rewards)


def test_a_difference_of_epsilon_is_too_little() -> None:
    """Alternatives whose value moves by epsilon or less prove nothing and are left out."""
    family = arms([0.5])
    worlds = Worlds.copies(family, 2)
    worlds.paid[0], worlds.paid[1] = 0.75, 0.76
    assert module.alternative(worlds, 0, 0.25) is None
    found = module.alternative(worlds, 1, 0.25)
    assert found is not None
    assert found.information[0, 0, 0] == pytest.approx(kl(0.5, 0.76))


# ------------------------------------------------------------------------------- pieces


@given(st.integers(0, 2**31), st.floats(-3, 3))
def test_tilted_rows_are_best(seed: int, scale: float) -> None:
    """q maximises q.gain - KL(p, q) among random rows, unseen successor included."""
    rng = np.random.default_rng(seed)
    p, gain = rng.dirichlet(np.ones(3)), rng.random(3) * 10**scale
    top = gain.max() + rng.integers(0, 2) * 10**scale
    q = tilted_rows(p[None], gain[None], np.array([top]))[0]
    assert q.sum() == pytest.approx(1)

    def worth(row: np.ndarray) -> float:
        seen = np.maximum(row[:3], 1e-300)
        return float(row[:3] @ gain + row[3] * top - (p * np.log(p / seen)).sum())

    others = np.concatenate(
        [rng.dirichlet(np.ones(4), 200), 0.9 * q + 0.1 * rng.dirichlet(np.ones(4), 200)]
    )
    assert worth(q) >= max(map(worth, others)) - 1e-7 * max(1.0, 10**scale)


@given(st.floats(0, 1), st.floats(0, 50))
def test_tilted_coins_are_best(p: float, gain: float) -> None:
    q = float(tilted_coins(np.array(p), np.array(gain)))
    others = np.linspace(1e-6, 1 - 1e-6, 2001)
    best = (others * gain - kl_coins(np.full_like(others, p), others)).max()
    assert q * gain - float(kl_coins(np.array(p), np.array(q))) >= best - 1e-6


def test_lowered_worlds_are_low() -> None:
    """Every world that is found has V* at most as wanted, and not much below."""
    world = cg.make("garnet:states=4,actions=2,horizon=4").require_model("a test")
    for pooled in (False, True):
        family = WorldClass(world.transitions, world.rewards, False, False)
        if pooled:
            chain = cg.make("riverswim:states=4,horizon=6").require_model("a test")
            family = WorldClass(chain.transitions, chain.rewards, True, True)
        given_world = Worlds.copies(family, 1)
        value = given_world.start_values(given_world.best(given_world.reward())[1])[0]
        visits = np.full(family.transitions.shape.hsa, 5.0)
        found = lower_values(family, visits, value * 0.7)
        assert len(found)
        after = found.start_values(found.best(found.reward())[1])
        assert (after <= value * 0.7).all()
        assert after.max() > value * 0.69


# -------------------------------------------------------------------------- the surface


MODEL = {
    "format": "covgame-mdp/1", "horizon": 1, "states": 1, "actions": 2, "initial": 0,
    "transitions": [], "rewards": [[None, 0, 0, 0.7], [None, 0, 1, 0.4]],
}  # fmt: skip


def test_the_command(tmp_path: Path) -> None:
    """A model file with two arms; one object on standard output, the same as in Python."""
    model = tmp_path / "arms.json"
    model.write_text(json.dumps(MODEL))
    done = covgame("plan", str(model), "--floor", "--epsilon", "0.2", "--delta", "0.05", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)["floor"]
    by_hand = 1 / min(kl(0.7, 0.9), kl(0.7, 0.5)) + 1 / kl(0.4, 0.9)
    assert (answer["epsilon"], answer["delta"]) == (0.2, 0.05)
    assert answer["identify"]["episodes"] == pytest.approx(kl(0.95, 0.05) * by_hand, rel=CLOSE)
    assert answer["identify"]["search_ended"]
    assert answer["identify"]["stages"] == "apart"
    assert answer["explore"]["episodes"] == 0  # one stage: there is nothing to learn
    mine = cg.floor(model, epsilon=0.2, delta=0.05, stage_dependent=True)
    assert mine.episodes == answer["identify"]["episodes"]
    page = covgame("plan", str(model), "--floor", "--epsilon", "0.2").stdout
    assert "any method needs on average that also proves its answer" in page
    assert f"{NEEDED * by_hand:.4g}" in page


def test_pooled_floors_of_a_command() -> None:
    """Where stages are alike, also for methods that rely on it: those need fewer episodes."""
    done = covgame("plan", "riverswim:states=3,horizon=3", "--floor", "--epsilon", "1", "--json")
    found = json.loads(done.stdout)["floor"]
    for task in ("identify", "explore"):
        assert found[f"{task}_pooled"]["stages"] == "pooled"
        assert 0 < found[f"{task}_pooled"]["episodes"] < found[task]["episodes"]


def test_rewards_outside_the_unit_interval() -> None:
    """Cliff walking pays -1 and -100: identify has no floor, explore has one."""
    done = covgame("plan", "gym:CliffWalking-v1", "--horizon", "2", "--floor", "--epsilon", "1.5",
                   "--json")  # fmt: skip
    found = json.loads(done.stdout)["floor"]
    assert found["identify"] is None
    assert found["explore"]["episodes"] >= 0
    with pytest.raises(cg.BadInput, match=r"mean rewards in \[0, 1\], not from -100 to -1"):
        cg.floor("gym:CliffWalking-v1", horizon=2, epsilon=1.5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["riverswim", "--floor"], "--floor need --epsilon"),
        (["riverswim", "--epsilon", "1"], "--epsilon is for --functionals and --floor"),
        (["riverswim", "--floor", "--epsilon", "0"], "--epsilon is a positive number"),
        (["riverswim", "--floor", "--epsilon", "1", "--delta", "0.5"], "between 0 and 0.5"),
        (["gym:Taxi-v4", "--horizon", "200", "--floor", "--epsilon", "9"], "1,000,000 cells"),
        (
            ["gym:Blackjack-v1", "--horizon", "3", "--floor", "--epsilon", "1"],
            "needs the transition table",
        ),
    ],
)
def test_what_is_refused(arguments: list[str], said: str) -> None:
    done = covgame("plan", *arguments, "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "identify", "explore"),
    [
        ("garnet:states=4,actions=2,horizon=4", 22, 65),
        ("lock:horizon=5,actions=2,slip=0.1", 7.5, 33),
        ("deepsea:size=6,noise=0.1", 20, 95),
    ],
)
def test_floors_of_the_table(name: str, identify: float, explore: float) -> None:
    """delta 0.1, epsilon H/10, stages apart."""
    epsilon = cg.make(name).require_model("a test").shape.horizon / 10
    for task, least in (("identify", identify), ("explore", explore)):
        floor = cg.floor(name, task=task, epsilon=epsilon, stage_dependent=True)  # type: ignore[arg-type]
        assert floor.episodes >= least


def test_the_same_call_gives_the_same_floor() -> None:
    family = coin(0.4, 2)
    floors = [learning_floor(family, "explore", 0.1, 0.1, quick=True) for _ in range(2)]
    assert floors[0].episodes == floors[1].episodes


def test_runs_take_more_than_the_floor() -> None:
    """Our own method proves its answers, so on average it is above the floor; and says so."""
    name = "garnet:states=3,actions=2,horizon=3"
    for run in (cg.identify(name, epsilon=0.6), cg.explore(name, epsilon=0.6)):
        answer = run.to_dict()
        assert 1 < answer["floor"] < answer["episodes"]
        assert answer["times_floor"] == pytest.approx(answer["episodes"] / answer["floor"])
        assert "also proves its answer" in run.to_text()


def test_no_floor_beside_what_it_is_not_about() -> None:
    """Unfinished runs; data of others; rewards that come with the next state."""
    name = "garnet:states=3,actions=2,horizon=3"
    stopped = cg.identify(name, epsilon=0.3, max_episodes=50)
    assert stopped.to_dict()["floor"] is None
    lake = cg.identify("gym:FrozenLake-v1", horizon=3, epsilon=2.0)
    assert lake.to_dict()["floor"] is None
    assert cg.explore("gym:FrozenLake-v1", horizon=3, epsilon=2.9).to_dict()["times_floor"] is None
