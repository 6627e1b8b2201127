"""What a claim rests on that data cannot show: one list, in a run's answer and in ``certify``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from typing import Protocol

from covgame.pac.error_bounds import Range
from covgame.pac.homogeneity import Stages
from covgame.pac.mixtures import Structure
from covgame.types import Shape


class GivenData(Protocol):
    """Data that a claim rests on."""

    @property
    def name(self) -> str:
        """What they are called."""
        ...

    @property
    def set_aside(self) -> int:
        """How many attempts at episodes failed and do not count."""
        ...

    def is_cut_before(self, horizon: int) -> bool:
        """Whether the environment truncated an episode before this many steps."""
        ...


KNOWN_STAGES = "every stage behaves the same, as the model says"
SUPPOSED_STAGES = (
    "the environment behaves the same at every stage, also where that was not tested "
    "(--stage-dependent drops this assumption)"
)
MARKOV = (
    "what follows depends on the state, the action and the stage only, and episodes are independent"
)
ONLY_OUTCOMES = (
    "actions were chosen from what had been seen before, and no episode was left out because of "
    "its outcome"
)
CUT_BY_ENVIRONMENT = "the environment itself truncated its truncated episodes"


def assumptions_of_claim(
    shape: Shape,
    structure: Structure,
    *,
    simulated: bool,
    pooled: bool,
    stages: Stages,
    rewards: Range | None,
    given: Sequence[GivenData] = (),
    set_aside: int = 0,
    recorded: bool = True,
) -> list[str]:
    """Of a certificate of ``explore`` or ``identify``.

    Args:
        shape: Stages, states and actions that the certificate is made for.
        structure: What it takes as known of the environment.
        simulated: Whether the episodes were drawn from a model.
        pooled: Whether it pools what was seen at different stages.
        stages: What is known of stages.
        rewards: The range of rewards, None for a reward-free claim.
        given: The data that the run started from.
        set_aside: How many attempts at episodes failed and were played again.
        recorded: Whether there are episodes, and not only counts.

    Returns:
        A sentence for each assumption.
    """
    allowed, limit = structure.allowed, structure.most_successors
    forbidden = 0 if allowed is None else int((~allowed).sum())
    low, high, most_paid = (0.0, 0.0, None) if rewards is None else astuple(rewards)
    attempts = "1 failed attempt was" if set_aside == 1 else f"{set_aside:,} failed attempts were"
    candidates = [
        (True, f"the number of states is at most {shape.states:,}"),
        (not simulated, MARKOV),
        (pooled and shape.horizon > 1, KNOWN_STAGES if stages == "known" else SUPPOSED_STAGES),
        (
            pooled and shape.horizon > 1 and structure.same_rewards and rewards is not None,
            "rewards do not depend on the stage",
        ),
        (not structure.can_end, "episodes never end before the last stage"),
        (limit is not None, f"no state and action leads to more than {limit} states"),
        (structure.known_start is not None, "episodes start as the model says"),
        (forbidden > 0, f"{pairs_in_words(forbidden)} not allowed, as the model says"),
        (rewards is not None, f"every step pays between {low:g} and {high:g}"),
        (most_paid is not None, f"no episode pays more than {most_paid or 0.0:g} in all"),
        *((True, sentence) for sentence in _assumptions_of_given(given, shape.horizon)),
        (
            set_aside > 0,
            f"failures do not depend on how an episode goes: {attempts} set aside, and the claim "
            "is about episodes that do not fail (--on-failure record counts a failure as an end)",
        ),
        (not recorded, "the saved counts are right: no episodes were recorded"),
    ]
    return [sentence for applies, sentence in candidates if applies]


def assumptions_of_coverage(
    horizon: int,
    *,
    left_out: int,
    min_reach: float,
    forbidden: int,
    avoided: int,
    groups: bool,
    possible: bool,
    given: Sequence[GivenData] = (),
) -> list[str]:
    """Of a run of ``cover``.

    Args:
        horizon: Stages of an episode.
        left_out: Rows that ``min_reach`` has dropped.
        min_reach: The probability below which it drops them.
        forbidden: State-action pairs that the environment does not allow.
        avoided: State-action pairs that failed and were not tried again.
        groups: Whether the target is about groups that a function of the user's has made.
        possible: Whether the target is about the possible transitions of a known model.
        given: The data that the run started from.

    Returns:
        A sentence for each assumption.
    """
    found = []
    if left_out:
        rows = "1 row is" if left_out == 1 else f"{left_out:,} rows are"
        found.append(
            f"{rows} reached with a probability below {min_reach:g}, as the run has found, and "
            "not asked for"
        )
    if forbidden:
        found.append(f"{pairs_in_words(forbidden)} not allowed, as the environment says")
    if avoided:
        found.append(
            f"{pairs_in_words(avoided)} not asked for because of failures, nor is what only they "
            "lead to"
        )
    if groups:
        found.append("the groups of states and actions are those that the run has saved")
    if possible:
        found.append("the possible transitions are those that the run has saved")
    return found + _assumptions_of_given(given, horizon)


def _assumptions_of_given(given: Sequence[GivenData], horizon: int) -> list[str]:
    """Of data that a run started from."""
    found = []
    for one in given:
        cut = f"; {CUT_BY_ENVIRONMENT}" if one.is_cut_before(horizon) else ""
        failed = f"; {one.set_aside:,} failed attempts were set aside" if one.set_aside else ""
        found.append(
            f"{one.name} holds whole episodes of this environment; {ONLY_OUTCOMES}{cut}{failed}"
        )
    return found


def pairs_in_words(number: int) -> str:
    """``3 state-action pairs are``, ready to be continued."""
    return "1 state-action pair is" if number == 1 else f"{number:,} state-action pairs are"
