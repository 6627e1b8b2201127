"""What the certificates of ``explore`` and ``identify`` would say of data."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from covgame.data.combined_counts import CombinedCounts
from covgame.data.dataset import require_evidence
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.pac.assumptions import assumptions_of_claim
from covgame.pac.error_bounds import Range, best_policy, reward_free
from covgame.pac.homogeneity import share_of
from covgame.pac.mixtures import Structure
from covgame.planning import number
from covgame.types import Policy

MOST_DOUBLINGS = 20


@dataclass(frozen=True, eq=False)
class Certificate:
    """One certificate: what it would say, and how far that is from what was asked for."""

    command: str  # explore or identify
    bound: float  # what is lost at most
    epsilon: float
    times_more: float | None  # as many data, gathered alike, would do; None: no number of them

    @property
    def holds(self) -> bool:
        """Whether it says enough."""
        return self.bound <= self.epsilon

    def to_dict(self) -> dict[str, Any]:
        """For the JSON answer."""
        name = "certified_error" if self.command == "explore" else "certified_gap"
        return {"holds": self.holds, name: self.bound, "times_more": self.times_more}

    @property
    def words(self) -> str:
        """In a sentence."""
        what = {
            "explore": "for any reward, planning on these data loses",
            "identify": "the policy that these data suggest loses",
        }[self.command]
        said = f"{what} at most {number(self.bound)}"
        if self.holds:
            return f"{said}: enough for epsilon {self.epsilon:g}"
        if self.times_more is None:
            return f"{said}; more data of this kind would not bring it to {self.epsilon:g}"
        return (
            f"{said}, and {self.epsilon:g} was asked for; about {number(self.times_more)} times "
            "as many episodes, gathered alike, would do"
        )


@dataclass(frozen=True, eq=False)
class Certificates:
    """Both certificates, as far as the data allow."""

    epsilon: float
    delta: float
    explore: Certificate
    identify: Certificate | None  # None: nothing says what was paid
    value_lower: float | None = None
    value_upper: float | None = None
    policy: Policy | None = None
    assumptions: Sequence[str] = ()  # what data cannot show

    def to_dict(self) -> dict[str, Any]:
        """For the JSON answer."""
        found = None
        if self.identify is not None and self.policy is not None:
            found = self.identify.to_dict() | {
                "value_lower": self.value_lower,
                "value_upper": self.value_upper,
                "policy": self.policy.to_list(),
            }
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "explore": self.explore.to_dict(),
            "identify": found,
            "assumptions": list(self.assumptions),
        }


def certify_data(
    combined: CombinedCounts, epsilon: float, most_states: int | None, *, forecast: bool = True
) -> Certificates:
    """What is proved with probability 1 - delta."""
    if not (isinstance(epsilon, int | float) and 0 < epsilon < np.inf):
        raise BadInput(f"epsilon is a positive number, not {epsilon!r}")
    require_evidence(combined.datasets, combined.shape.horizon)
    states = _states(combined, most_states)
    paid = combined.rewards is not None
    counts = Counts(combined.shape, pooled=combined.counts.pooled, paid=paid)
    counts.include(combined.apart, last_stage=False)
    if states > counts.shape.states:
        counts.grow(states)
    structure = _structure(combined)
    share = share_of(combined.delta, combined.stages[0])
    error = reward_free(counts, structure, share).error
    more = None
    if forecast and error > epsilon:
        more = _times(counts, lambda more: reward_free(more, structure, share).error, epsilon)
    explore = Certificate("explore", float(error), epsilon, more)
    earned = combined.rewards
    if earned is None:
        assumptions = _assumptions(combined, structure, counts, None)
        return Certificates(epsilon, combined.delta, explore, None, assumptions=assumptions)
    _check_paid(combined, earned)
    found = best_policy(counts, structure, share, earned)
    more = None
    if forecast and found.gap > epsilon:
        more = _times(counts, lambda c: best_policy(c, structure, share, earned).gap, epsilon)
    lower, policy = found.candidate
    return Certificates(
        epsilon,
        combined.delta,
        explore,
        Certificate("identify", float(found.gap), epsilon, more),
        float(lower),
        float(found.upper),
        policy.first(combined.shape.states),
        _assumptions(combined, structure, counts, earned),
    )


def _assumptions(
    combined: CombinedCounts, structure: Structure, counts: Counts, earned: Range | None
) -> list[str]:
    """The list of a run that has played nothing and started from these data."""
    return assumptions_of_claim(
        counts.shape,
        structure,
        simulated=False,
        pooled=counts.pooled,
        stages=combined.stages[0],
        rewards=earned,
        given=combined.datasets,
    )


def _states(combined: CombinedCounts, most_states: int | None) -> int:
    """How many states there can be."""
    seen = combined.shape.states
    known = combined.environment is not None and combined.model is not None
    known = known or any(one.knows_states for one in combined.datasets)
    if most_states is None and not known:
        raise BadInput(
            "a certificate needs the number of states there can be, and these data only show those "
            f"that were met ({seen:,}); say --most-states N, an upper bound"
        )
    if most_states is not None and most_states < seen and not known:
        raise BadInput(f"the data show {seen:,} states, more than the {most_states:,} given")
    return seen if known or most_states is None else most_states


def _structure(combined: CombinedCounts) -> Structure:
    model, environment = combined.model, combined.environment
    if model is None or environment is None:
        return Structure()
    simulated = environment.opener is None
    one_start = int((model.initial > 0).sum()) == 1
    return Structure(
        known_start=model.initial if simulated and one_start else None,
        allowed=model.transitions.allowed,
        same_rewards=len(model.stage_rewards) == 1,
    )


def _check_paid(combined: CombinedCounts, earned: Range) -> None:
    for one in combined.datasets:
        low, high = one.reward_range
        if low < earned.low or high > earned.high:
            raise BadInput(
                f"{one.name} holds rewards from {low:g} to {high:g}, outside "
                f"[{earned.low:g}, {earned.high:g}]; say --reward-range LO,HI"
            )


def _times(counts: Counts, bound: Any, epsilon: float) -> float | None:
    """How many times these counts it takes; None if even a million times do not suffice."""
    high = 1
    for _ in range(MOST_DOUBLINGS):
        high *= 2
        if bound(_multiplied(counts, high)) <= epsilon:
            break
    else:
        return None
    low = high // 2
    while high - low > max(1, low // 20):
        middle = (low + high) // 2
        if bound(_multiplied(counts, middle)) <= epsilon:
            high = middle
        else:
            low = middle
    return float(high)


def _multiplied(counts: Counts, times: int) -> Counts:
    """The same data so many times over."""
    again = deepcopy(counts)
    again.visits *= times
    again.reward_sums *= times
    if again.payments is not None:
        again.payments.sums *= times
    again.starts *= times
    again.n_episodes *= times
    again.table.entries["count"] *= times
    again.table.rows["total"] *= times
    again.table.rows["share"] /= times
    return again
