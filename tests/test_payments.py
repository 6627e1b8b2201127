"""What each transition paid: counted the same way by every way in."""

from __future__ import annotations

import numpy as np
import pytest

from covgame.engine.engines import SimulatedPolicyEngine
from covgame.episodes import Episode
from covgame.game.counts import CountedVisits, Counts
from covgame.sources.counted import SortedSuccessors, draw_visits
from covgame.sources.simulated import SimulatedSource
from covgame.storage.state import counts_arrays, counts_from
from covgame.types import END, Policy, Shape
from tests.evidence import small

SHAPE = Shape(3, 2, 1)
EPISODES = [
    [(0, 0, 0.5, 1), (1, 0, 1.0, 1), (1, 0, 0.25, -2)],
    [(0, 0, 1.0, 1), (1, 0, 0.5, END)],
]


def told(counts: Counts) -> dict[tuple[int, int], float]:
    assert counts.payments is not None
    row, successor, sums = counts.payments.listed()
    return dict(zip(zip(row.tolist(), successor.tolist(), strict=True), sums.tolist(), strict=True))


def counted(*, pooled: bool) -> Counts:
    counts = Counts(SHAPE, pooled=pooled, paid=True)
    assert counts.payments is not None
    counts.payments.returns = {}
    for steps in EPISODES:
        counts.add(Episode.of_steps(steps))
    return counts


def test_steps_by_hand() -> None:
    """The reward of the last step, after which nothing was seen, belongs to no transition."""
    apart = counted(pooled=False)
    assert told(apart) == {(0, 1): 1.5, (3, 1): 1.0, (3, END): 0.5}
    assert told(counted(pooled=True)) == {(0, 1): 1.5, (1, 1): 1.0, (1, END): 0.5}
    assert apart.payments is not None
    assert apart.payments.returns == {1.75: 1, 1.5: 1}
    found = apart.payments.of(np.array([3, 3, 5]), np.array([END, 0, 1]))
    assert found.tolist() == [0.5, 0.0, 0.0]


@pytest.mark.parametrize("pooled", [False, True])
def test_columns_and_blocks_count_as_steps_do(pooled: bool) -> None:
    counts = Counts(SHAPE, pooled=pooled, paid=True)
    assert counts.payments is not None
    counts.payments.returns = {}
    steps = [(h, *step) for episode in EPISODES for h, step in enumerate(episode)]
    stage, state, action, reward, after = (np.array(column) for column in zip(*steps, strict=True))
    over = after == END
    columns = {
        "stage": stage,
        "state": state,
        "action": action,
        "reward": reward,
        "next_state": np.maximum(after, -1),
        "terminated": over,
        "truncated": over & False,
    }
    counts.add_steps(columns)
    assert told(counts) == told(counted(pooled=pooled))
    assert counts.payments.returns == {1.75: 1, 1.5: 1}


def test_counts_are_included_and_grow() -> None:
    apart, pooled = counted(pooled=False), Counts(SHAPE, pooled=True, paid=True)
    pooled.include(apart)
    pooled.include(apart)
    assert told(pooled) == {(0, 1): 3.0, (1, 1): 2.0, (1, END): 1.0}
    apart.grow(4)
    assert told(apart) == {(0, 1): 1.5, (5, 1): 1.0, (5, END): 0.5}


def test_they_are_saved() -> None:
    apart = counted(pooled=False)
    again = counts_from(counts_arrays(apart))
    assert told(again) == told(apart)
    assert again.payments is not None
    assert apart.payments is not None
    assert again.payments.returns == apart.payments.returns


def test_compiled_play_and_play_by_counts_tell_them() -> None:
    world = small(3)
    policy = Policy.deterministic(np.zeros((3, 3), dtype=np.int64), 2)
    source, step_by_step = SimulatedSource(world, 5), Counts(world.shape, pooled=False, paid=True)
    for episode in range(40):
        step_by_step.add(source.play(policy, episode))
    compiled = Counts(world.shape, pooled=False, paid=True)
    assert compiled.payments is not None
    compiled.payments.returns = {}
    block = SimulatedPolicyEngine(policy, compiled, source, most=40, record=False).play(40)
    assert len(block.state) == 0
    assert told(compiled) == told(step_by_step)
    assert sum(compiled.payments.returns.values()) == 40
    drawn = Counts(world.shape, pooled=False, paid=True)
    rng = np.random.default_rng(0)
    seen = draw_visits(SortedSuccessors(world), policy, 5000, rng, paid=True)
    drawn.add_visits(seen)
    paid = told(drawn)
    for cell in range(world.shape.cells - world.shape.pairs):
        sums = sum(value for (row, _), value in paid.items() if row == cell)
        assert sums == drawn.reward_sums.ravel()[cell]
    untold = CountedVisits(1, np.ones(3, dtype=np.int64), seen.visits, seen.reward_sums, seen.moves)
    with pytest.raises(ValueError, match="do not say"):
        drawn.add_visits(untold)
