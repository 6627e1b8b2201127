"""The certified preset: play what the certificate doubts most, until it says enough.

``explore``: the policy whose value is known least is played for a few more episodes, then the
certificate is computed anew. Cells of which nothing is known count as if everything could be lost
there, so exploring needs no beginning of its own. ``identify``: the policy that may be best.

Any way of choosing policies is covered by the certificates, which look at the data alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import log, pi
from typing import Any

import numpy as np

from covgame.episodes import Block
from covgame.game.counts import Counts
from covgame.pac.error_bounds import (
    OF_VALIDATIONS,
    BestPolicyGap,
    Bound,
    Optimism,
    Penalty,
    Range,
    RewardFreeError,
    Validation,
    best_policy,
    reward_free,
)
from covgame.pac.homogeneity import TRUNCATED, Parting, Stages, difference, share_of
from covgame.pac.learnt import LearntModel
from covgame.pac.mixtures import Structure
from covgame.pac.principle import Conclusion
from covgame.pac.tasks import PhaseReport, PolicyTask
from covgame.types import FloatArray, Policy

GROWTH = 0.02
"""A round takes this share of the episodes so far, at least one."""

FIRST_VALIDATION = 100
"""Before so many episodes nothing is validated."""

FIRST_JOINT = 200
"""Before so many episodes every cell is bounded by itself."""

PROMISING = 0.35
"""The estimated policy is validated when that may take this share of the episodes so far."""

PATIENCE = 0.7
"""A validation is given up after this share of the episodes before it."""

TYPICAL_REGRET = 0.5 * log(pi * 1000)
"""What Lemma 3 loses after a thousand episodes."""

AGAIN = 1.3
"""And the next one has to wait until the episodes have grown by this factor."""

MILESTONE = 1.25
"""Progress is noted whenever the episodes have grown by this factor."""


WORTHWHILE = 8.0
"""The joint budget is tried once rows by themselves prove so many times epsilon."""


@dataclass(eq=False)
class Certified(ABC):
    """Rounds of one policy each, until the bound is at most epsilon.

    ``apart`` are empty counts per stage, where ``counts`` pool stages that are only supposed to be
    alike. When they turn out not to be, the bounds rest on these from then on.
    """

    counts: Counts
    structure: Structure
    epsilon: float
    delta: float
    apart: Counts | None = field(default=None, kw_only=True)

    needs_episodes = False

    def __post_init__(self) -> None:
        self.phases: list[PhaseReport] = []
        self.rounds = 0
        self.noted = 0  # episodes at the last milestone
        self.truncated = False  # whether an episode was cut short before the last stage
        self.parting: Parting | None = None  # when stages turned out to differ
        self._known: tuple[int, Any] | None = None

    @property
    def stages(self) -> Stages:
        """What is known of stages: alike, supposed to be, or not."""
        if self.parting is not None:
            return "parted"
        return "known" if self.apart is None else "tested"

    @property
    def share(self) -> float:
        """What of delta the confidence sets have."""
        return share_of(self.delta, self.stages)

    @property
    def pooled_rewards(self) -> Range | None:
        """The range of rewards, if bounds rest on their means over stages."""
        return None

    @property
    @abstractmethod
    def bound(self) -> float:
        """What has to fall below epsilon."""

    @abstractmethod
    def _next_policy(self) -> Policy:
        """What to play next."""

    def start_from(self, given: Counts, *, cut_short: bool) -> None:
        """Count episodes collected before, stages apart; ``cut_short`` if some were truncated.

        The bounds hold at any time and for any way of choosing what to play, so given data count
        like one's own, if their actions were chosen by what had been seen before.
        """
        self.truncated |= cut_short
        self.counts.include(given, last_stage=False)
        self.noted = self.counts.n_episodes
        if self.apart is not None:
            self.apart.include(given, last_stage=False)
            self._compare_stages(self.apart)

    @property
    def done(self) -> bool:
        return self.counts.n_episodes > 0 and self.bound <= self.epsilon

    @property
    def model(self) -> LearntModel:
        return LearntModel.of(self.counts)

    def next_task(self) -> PolicyTask | None:
        if self.done:
            return None
        episodes = max(1, int(GROWTH * self.counts.n_episodes))
        fresh = Counts(
            self.counts.shape,
            pooled=self.counts.pooled and self.apart is None,
            paid=self.counts.payments is not None,
        )
        return PolicyTask(f"round {self.rounds + 1}", self._next_policy(), episodes, fresh)

    def tell(self, task: PolicyTask, episodes: Sequence[Block] = ()) -> bool:
        del episodes
        self.counts.include(task.counts)
        if self.apart is not None:
            self.apart.include(task.counts)
            self._compare_stages(self.apart)
        self.rounds += 1
        played = self.counts.n_episodes
        if played >= MILESTONE * self.noted or self.done:
            seen = int((self.counts.visits > 0).sum())
            name = f"until round {self.rounds}"
            self.phases.append(PhaseReport(name, played - self.noted, seen, 0.0, self.bound))
            self.noted = played
        return True

    def _compare_stages(self, apart: Counts) -> None:
        """Go on with stages apart, where they are seen not to be alike."""
        symbols = apart.shape.states + (1 if self.structure.can_end else 0)
        why = TRUNCATED if self.truncated else None
        why = why or difference(apart, symbols, self.delta, self.pooled_rewards)
        if why is not None:
            self.parting = Parting(apart.n_episodes, why)
            self.take_apart()

    def take_apart(self) -> None:
        """Rest on what was counted per stage."""
        if self.apart is not None:
            self.counts, self.apart, self._known = self.apart, None, None

    def state(self) -> dict[str, Any]:
        parting = None if self.parting is None else asdict(self.parting)
        seen = {"truncated": self.truncated, "parting": parting}
        return {"rounds": self.rounds, "noted": self.noted, **seen}

    def restore(self, state: dict[str, Any]) -> None:
        self.rounds, self.noted = state["rounds"], state["noted"]
        self.truncated = bool(state.get("truncated", False))
        if state.get("parting") is not None:
            self.parting = Parting(**state["parting"])


class CertifiedExploration(Certified):
    """Reward-free: plays the policy whose value is known least."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.penalty: Penalty | None = None  # how the joint budget is used
        self.searched = 0  # episodes when that was looked for last

    @property
    def certificate(self) -> RewardFreeError:
        """What the data prove now."""
        return self._found[0]

    @property
    def proved(self) -> Bound:
        """The smallest bound found: the joint budget is used once it may be enough."""
        return self._found[1]

    @property
    def _found(self) -> tuple[RewardFreeError, Bound]:
        episodes = self.counts.n_episodes
        if self._known is None or self._known[0] != episodes:
            certificate = reward_free(self.counts, self.structure, self.share)
            found = certificate.bound()
            if episodes and found.error <= WORTHWHILE * self.epsilon:
                if self.penalty is None or episodes >= MILESTONE * self.searched:
                    joint = certificate.search(self.penalty)
                    self.penalty, self.searched = joint.penalty, episodes
                else:
                    joint = certificate.bound(self.penalty)
                found = min(found, joint, key=lambda bound: bound.error)
            self._known = (episodes, (certificate, found))
        known: tuple[RewardFreeError, Bound] = self._known[1]
        return known

    @property
    def bound(self) -> float:
        return min(self.proved.error, float(self.counts.shape.horizon))

    @property
    def certified_error(self) -> float | None:
        return self.bound if self.counts.n_episodes else None

    def _next_policy(self) -> Policy:
        return self.certificate.policy(self.proved)

    def state(self) -> dict[str, Any]:
        penalty = None if self.penalty is None else asdict(self.penalty)
        return {**super().state(), "penalty": penalty, "searched": self.searched}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.searched = state["searched"]
        if state["penalty"] is not None:
            self.penalty = Penalty(**state["penalty"])


@dataclass(eq=False)
class CertifiedIdentification(Certified):
    """Best policy: plays the policy that may be best.

    When the estimated policy looks good enough, it is played by itself for a while: the returns of
    these fresh episodes bound its value better than the worst case over all that it does. If they
    do not, exploring goes on, and they were not in vain.

    What is costly (how the joint budget is used, reach in all worlds that are possible, policies
    from below) is looked for anew when episodes have grown by a quarter. In between reach is that
    of earlier data, which may guide play; before anything is claimed it is computed anew.
    """

    range: Range
    validates: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.attempts = 0
        self.active: Validation | None = None
        self.best: Validation | None = None
        self.wait = FIRST_VALIDATION
        self.penalty: Penalty | None = None  # how the joint budget is used
        self.reach: FloatArray | None = None
        self.searched = 0  # episodes when both were looked for last

    @property
    def certificate(self) -> BestPolicyGap:
        """What the data prove now."""
        return self._found[0]

    @property
    def bound(self) -> float:
        return self._found[2]

    @property
    def _found(self) -> tuple[BestPolicyGap, Optimism, float]:
        """(certificate, the policy to play and a guess of V*, what is proved of the gap)."""
        episodes = self.counts.n_episodes
        if self._known is None or self._known[0] != episodes:
            asked = (self.counts, self.structure, self.share, self.range, self.best)
            self._known = (episodes, self._looked_at(best_policy(*asked)))
        known: tuple[BestPolicyGap, Optimism, float] = self._known[1]
        return known

    def _looked_at(self, certificate: BestPolicyGap) -> tuple[BestPolicyGap, Optimism, float]:
        plain, episodes = certificate.optimism(), self.counts.n_episodes
        if episodes == 0:
            return certificate, plain, plain.upper - certificate.candidate[0]
        least = float(self.range.floors(self.counts.shape.horizon)[0])
        lower, guess, upper = max(certificate.validated, least), plain, plain.upper
        is_current = episodes == self.searched  # a run that was restored has searched here before
        is_joint = certificate.is_joint and episodes >= FIRST_JOINT
        renews = not is_current and episodes >= MILESTONE * self.searched
        if is_joint and not renews:
            guess = certificate.optimism(self.penalty, self.reach)
            renews = not is_current and guess.upper - lower <= self.epsilon < upper - lower
        if renews or is_current:
            lower = max(lower, certificate.candidate[0])
            if renews and is_joint:
                self.reach = certificate.reach
                guess = certificate.search(self.penalty)
                self.penalty = guess.penalty
            upper = min(upper, guess.upper)
            self.searched = episodes
        return certificate, min(plain, guess, key=lambda found: found.upper), upper - lower

    @property
    def pooled_rewards(self) -> Range | None:
        return self.range if self.structure.same_rewards else None

    def take_apart(self) -> None:
        super().take_apart()
        self.reach = self.penalty = None
        self.searched = 0

    def _next_policy(self) -> Policy:
        return self.certificate.policy(self._found[1])

    def next_task(self) -> PolicyTask | None:
        if self.done:
            return None
        if self.active is None and self._looks_good():
            self.attempts += 1
            policy = self.certificate.estimated[1]
            self.active = Validation(policy, self.attempts, self.counts.n_episodes)
        task = super().next_task()
        if task is not None and self.active is not None:
            task.policy, task.validates = self.active.policy, True
            task.name = f"validation {self.attempts}"
            if task.counts.payments is not None:
                task.counts.payments.returns = {}
        return task

    def _looks_good(self) -> bool:
        """Whether validating the estimated policy would be short, were the estimates right.

        A mean of n returns of variance v is bounded within sqrt(2 v level/n) or so.
        """
        if not self.validates or self.counts.payments is None:
            return False
        if self.counts.n_episodes < self.wait:
            return False
        certificate, guess, _ = self._found
        room = self.epsilon - (guess.upper - certificate.estimated[0])
        if room <= 0:
            return False
        attempt = self.attempts + 1
        level = log(attempt * (attempt + 1) / (OF_VALIDATIONS * certificate.delta))
        level += TYPICAL_REGRET
        return certificate.length_of_validation(room, level) <= PROMISING * self.counts.n_episodes

    def tell(self, task: PolicyTask, episodes: Sequence[Block] = ()) -> bool:
        if task.validates and self.active is not None and task.counts.payments is not None:
            H = self.counts.shape.horizon
            ends = float(self.range.floors(H)[0]), float(self.range.ceilings(H)[0])
            self.active = self.active.and_then(task.counts.payments.returns or {}, *ends)
            self._keep_the_better(self.active)
        super().tell(task, episodes)
        if self.active is not None and self.active.episodes > PATIENCE * self.active.first_episode:
            self.active = None
            self.wait = int(AGAIN * self.counts.n_episodes)
        return True

    def _keep_the_better(self, validation: Validation) -> None:
        least = float(self.range.floors(self.counts.shape.horizon)[0])
        delta = OF_VALIDATIONS * self.share
        same = self.best is not None and self.best.attempt == validation.attempt
        if (
            self.best is None
            or same
            or validation.lower(least, delta) > self.best.lower(least, delta)
        ):
            self.best = validation

    def conclusion(self) -> Conclusion | None:
        """The candidate with its bounds; None before the first episode."""
        if not self.counts.n_episodes:
            return None
        lower, policy = self.certificate.candidate
        return Conclusion(policy, lower, self.upper)

    @property
    def upper(self) -> float:
        """V* is at most this, by what is known now."""
        certificate = self.certificate
        upper = certificate.optimism().upper
        if self.penalty is not None:
            upper = min(upper, certificate.optimism(self.penalty).upper)
        return upper

    @property
    def policy(self) -> Policy:
        return self.certificate.candidate[1]

    def state(self) -> dict[str, Any]:
        return {
            **super().state(),
            "attempts": self.attempts,
            "wait": self.wait,
            "active": _as_json(self.active),
            "best": _as_json(self.best),
            "penalty": None if self.penalty is None else asdict(self.penalty),
            "reach": None if self.reach is None else self.reach.tolist(),
            "searched": self.searched,
        }

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self.attempts, self.wait = state["attempts"], state["wait"]
        self.searched = state["searched"]
        if state["penalty"] is not None:
            self.penalty = Penalty(**state["penalty"])
        if state["reach"] is not None:
            self.reach = np.array(state["reach"], dtype=np.float64)
        actions = self.counts.shape.actions
        self.active, self.best = (_from_json(state[name], actions) for name in ("active", "best"))


def _as_json(validation: Validation | None) -> dict[str, Any] | None:
    if validation is None:
        return None
    returns = sorted(validation.returns.items())
    return {**vars(validation), "policy": validation.policy.to_list(), "returns": returns}


def _from_json(content: dict[str, Any] | None, actions: int) -> Validation | None:
    if content is None:
        return None
    policy = Policy.deterministic(np.array(content["policy"], dtype=np.int64), actions)
    returns = {float(value): int(times) for value, times in content["returns"]}
    return Validation(**{**content, "policy": policy, "returns": returns})
