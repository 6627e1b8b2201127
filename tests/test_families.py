"""The families are what their descriptions say."""

from __future__ import annotations

import numpy as np
import pytest

import covgame as cg
from covgame.mdp import dp
from covgame.mdp.families import FAMILIES, Family
from covgame.mdp.model import TabularMDP
from covgame.types import END
from tests.worlds import dense_kernel


def world(text: str) -> TabularMDP:
    return cg.make(text).require_model("a test")


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_examples_and_defaults_build(family: Family) -> None:
    assert family.summary.endswith((".", ":"))
    for text in (family.name, family.example):
        built = world(text)
        assert built.rewards.min() >= 0
        assert built.rewards.max() <= 1


@pytest.mark.parametrize(
    "name", ["garnet", "bandit", "ergodic", "twobranch", "lock", "maze", "digraph"]
)
def test_the_seed_decides_everything(name: str) -> None:
    one, same, other = (dense_kernel(world(f"{name}:seed={seed}")) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_garnet_has_distinct_successors_for_every_pair_and_stage() -> None:
    built = world("garnet:states=6,actions=2,horizon=4,branching=3")
    sizes = np.diff(built.transitions.start).reshape(4, -1)
    assert (sizes[:3] == 3).all()
    assert (sizes[3] == 0).all()
    assert not built.transitions.stationary
    assert world("garnet:states=6,stationary=true").transitions.stationary


def test_garnet_successors_are_uniform() -> None:
    built = world("garnet:states=5,actions=40,horizon=51,branching=2")
    share = np.bincount(built.transitions.next_state) / len(built.transitions.next_state)
    np.testing.assert_allclose(share, 0.2, atol=0.01)


def test_riverswim_current_banks_and_rewards() -> None:
    river = world("riverswim:states=4,horizon=2")
    dense = dense_kernel(river)[0]
    np.testing.assert_allclose(dense[0, 1, :4], [0.4, 0.6, 0, 0])
    np.testing.assert_allclose(dense[1, 1, :4], [0.05, 0.6, 0.35, 0])
    np.testing.assert_allclose(dense[3, 1, :4], [0, 0, 0.4, 0.6])
    np.testing.assert_allclose(dense[2, 0, :4], [0, 1, 0, 0])
    assert river.rewards[0].tolist() == [[0.005, 0], [0, 0], [0, 0], [0, 1]]


def test_chains_walk_and_slip() -> None:
    dense = dense_kernel(world("chain:states=4,horizon=2,slip=0.1"))[0]
    np.testing.assert_allclose(dense[1, 0, :4], [0.9, 0, 0.1, 0])
    np.testing.assert_allclose(dense[1, 1, :4], [0.1, 0, 0.9, 0])
    np.testing.assert_allclose(dense[0, 0, :4], [0.9, 0.1, 0, 0])
    assert world("doublechain:length=7").initial.argmax() == 3
    assert world("chain:states=5,start=2").initial.argmax() == 2


def test_deepsea_pays_only_for_always_right() -> None:
    built = world("deepsea:size=6")
    best = dp.backward_induction(built.transitions, built.rewards)
    assert (np.diagonal(best.policy.table) == 1).all()
    assert best.values[0, 0] == pytest.approx(1.0)
    reach = dp.reachability(built.transitions)
    np.testing.assert_array_equal(reach > 0, np.tri(6, dtype=np.bool_))


def test_noise_makes_the_treasure_rarer() -> None:
    built = world("deepsea:size=6,noise=0.2")
    assert dp.reachability(built.transitions)[5, 5] == pytest.approx(0.8**5)


def test_lock_opens_for_one_combination() -> None:
    built = world("lock:horizon=5,actions=3,slip=0.1")
    best = dp.backward_induction(built.transitions, built.rewards)
    assert best.values[0, 0] == pytest.approx(0.9**4)
    even = dp.occupancy(built.transitions, cg.Policy.uniform(built.shape))
    assert even[4, 0].sum() == pytest.approx((0.9 / 3) ** 4)


def test_a_grid_may_start_in_its_middle() -> None:
    assert world("grid:rows=3,columns=5").initial[0] == 1.0
    assert world("grid:rows=3,columns=5,start=middle").initial[7] == 1.0


def test_grid_with_rooms_is_connected_and_can_end() -> None:
    open_grid = world("grid:rows=7,columns=7,horizon=30,slip=0")
    assert dp.reachable(open_grid.transitions)[-1].all()
    rooms = world("grid:rows=7,columns=7,horizon=30,slip=0,rooms=true")
    ever = np.flatnonzero(dp.reachable(rooms.transitions).any(axis=0))
    assert 48 in ever
    assert len(ever) == 49 - 9
    ended = world("grid:rows=3,columns=3,ends=true")
    assert (dense_kernel(ended)[:, 8, :, END] == 1).all()


def test_tree_gives_every_action_a_node_of_its_own() -> None:
    built = world("tree:horizon=3,actions=3")
    assert built.shape.states == 13
    reachable = dp.reachable(built.transitions)
    assert reachable.sum(axis=1).tolist() == [1, 3, 9]


def test_bandit_ignores_actions() -> None:
    dense = dense_kernel(world("bandit"))
    np.testing.assert_array_equal(dense, np.broadcast_to(dense[:, :, :1], dense.shape))


@pytest.mark.parametrize(("alpha", "beta"), [(0.5, 0.25), (0.9, 0.1), (0.3, 0.2)])
def test_ergodic_rows_stay_between_their_bounds(alpha: float, beta: float) -> None:
    built = world(f"ergodic:states=7,alpha={alpha},beta={beta}")
    p = built.transitions.probability
    assert p.max() <= 7 ** (alpha - 1) + 1e-12
    assert p.min() >= (1 - 7 ** (beta - 1)) / 6 - 1e-12


def test_twobranch_is_the_papers_comparison() -> None:
    built = world("twobranch:states=20,actions=4,horizon=5,gap=0.3")
    dense = dense_kernel(built)[0]
    assert set(np.unique(dense[4:])) == {0.0, 1.0}
    assert (dense[4:, :, :4] == 0).all()  # the barren branch is never left
    np.testing.assert_allclose(dense[1:4, :, 1:4].sum(axis=2), 1.0)  # nor is the small one
    assert (dense[1:4, 0] != dense[1:4, 1]).any()
    q = (
        built.rewards[0]
        + dense[:, :, :20] @ dp.backward_induction(built.transitions, built.rewards).values[1]
    )
    np.testing.assert_allclose(q[0, 0] - q[0, 1:], 0.3)
    reach = dp.reachability(built.transitions)
    assert (reach[1:, 4:] == 1).sum(axis=1).tolist() == [3, 12, 16, 16]


def test_the_small_branch_can_earn_further() -> None:
    built = world("twobranch:further=0.5")
    assert 0 < built.rewards[:, 1:4].max() <= 0.5
    assert (built.rewards[:, 4:] == 0).all()


def test_inventory_is_seasonal() -> None:
    built = world("inventory")
    assert not built.transitions.stationary
    dense = dense_kernel(built)
    sold = 10 - dense[:, 10, 0, :11] @ np.arange(11)  # from a full stock
    np.testing.assert_allclose(sold / 10, 0.3 + 0.2 * np.sin(2 * np.pi * np.arange(12) / 12))
    np.testing.assert_allclose(built.rewards[:, 10, 0], sold / 10)
    assert world("inventory:capacity=1200,orders=1,horizon=2").shape.states == 1201


@pytest.mark.parametrize(
    "text",
    [
        "garnet:states=0",
        "garnet:states=3,branching=4",
        "garnet:states=x",
        "garnet:states=2.5",
        "garnet:colour=red",
        "garnet:states",
        "garnet:states=3,states=4",
        "garnet:stationary=maybe",
        "riverswim:states=1",
        "riverswim:horizon=0",
        "deepsea:noise=1.5",
        "deepsea:noise=nan",
        "chain:start=10",
        "grid:rows=0",
        "grid:start=end",
        "grid:start=middle,rooms=true",
        "tree:actions=0",
        "ergodic:alpha=0.2,beta=0.3",
        "ergodic:states=1",
        "twobranch:states=2",
        "twobranch:gap=0",
        "grid:rooms=true,rows=1",
        "inventory:capacity=0",
        "riverswin:states=3",
        "py",
        "",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(cg.BadInput):
        cg.make(text)


@pytest.mark.parametrize(
    "text",
    [
        "garnet:states=1000000000",
        "riverswim:states=9999999999999",
        "deepsea:size=10000000",
        "tree:horizon=200,actions=10",
        "bandit:contexts=1000000",
        "ergodic:states=1000000",
        "grid:rows=1000000,columns=1000000",
        "inventory:capacity=100000",
        "lock:horizon=100000000000",
        "twobranch:states=100000000000",
    ],
)
def test_what_cannot_fit_is_refused_before_allocation(text: str) -> None:
    with pytest.raises(cg.TooLarge):
        cg.make(text)


def test_a_typing_error_gets_a_hint() -> None:
    with pytest.raises(cg.BadInput, match="did you mean riverswim"):
        cg.make("riverswin:states=3")


def test_the_horizon_can_be_said_once() -> None:
    assert cg.make("riverswim", horizon=7).horizon == 7
    assert cg.make("riverswim:horizon=7", horizon=7).horizon == 7
    assert cg.make("deepsea:size=6", horizon=4).horizon == 4
    for other in ("8", "-7", "7²", "9" * 5000):  # Python reads no integer of 5000 digits
        with pytest.raises(cg.BadInput, match="horizon"):
            cg.make(f"riverswim:horizon={other}", horizon=7)
    with pytest.raises(cg.BadInput, match="prolonged"):
        cg.make("deepsea:size=6", horizon=7)
    with pytest.raises(cg.BadInput, match="horizon"):
        cg.make("riverswim", horizon=0)


def test_mazes_have_one_way_between_cells() -> None:
    """A spanning tree: 2 (S - 1) open directions, and every cell is reached."""
    kernel = dense_kernel(world("maze:rows=5,columns=6,horizon=40,seed=3"))[0][:, :, :30]
    ahead = kernel.argmax(axis=2)
    moves = ahead != np.arange(30)[:, None]
    assert moves.sum() == 2 * 29
    for s, a in np.argwhere(moves):
        assert ahead[ahead[s, a], (a + 2) % 4] == s
        assert abs(s // 6 - ahead[s, a] // 6) + abs(s % 6 - ahead[s, a] % 6) == 1
    reached = {0}
    for _ in range(30):
        reached |= set(ahead[list(reached)].ravel().tolist())
    assert len(reached) == 30


def test_mazes_slip_in_all_directions() -> None:
    sure, slippery = (
        dense_kernel(world(f"maze:rows=3,columns=3,horizon=2,slip={slip}"))[0] for slip in (0, 0.2)
    )
    expected = 0.8 * sure + 0.2 * sure.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(slippery, expected)


def test_digraphs_are_strongly_connected_without_loops() -> None:
    kernel = dense_kernel(world("digraph:nodes=30,actions=2,horizon=2,seed=4"))[0][:, :, :30]
    ahead = kernel.argmax(axis=2)
    assert (kernel.max(axis=2) == 1).all()
    assert (ahead[:, 0] != ahead[:, 1]).all()
    assert (ahead != np.arange(30)[:, None]).all()
    for first in range(30):
        reached = {first}
        for _ in range(30):
            reached |= set(ahead[list(reached)].ravel().tolist())
        assert len(reached) == 30


def test_digraphs_slip_to_other_actions() -> None:
    sure, slippery = (
        dense_kernel(world(f"digraph:nodes=9,actions=3,horizon=2,slip={slip}"))[0]
        for slip in (0, 0.3)
    )
    expected = 0.7 * sure + 0.3 * sure.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(slippery, expected)
