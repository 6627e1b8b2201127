"""Search for alternatives: nearby worlds in which a claim about the given world would be wrong.

Everything here is heuristic. ``flow/floor.py`` verifies each alternative that it uses, so a poor
search only makes the floor smaller. Worlds are searched in batches: the first axis of every array
counts the members, B. Rows hold the successors of the given world and one further successor, to
which probability may be moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from covgame.arrays import sum_by_index
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import END, BoolArray, FloatArray, FloatHSA, IntArray

NEWTON_STEPS = 9
MULTIPLIERS = (1e-5, 1e5)
MULTIPLIER_STEPS = 22
SWEEPS = 3
"""Per multiplier: how often all rows are tilted. Each step starts from the rows of the last one."""

LOWERING_MULTIPLIERS = 12
LOWERING_SWEEPS = 40
ROW_STEPS = 30
LEARNING_RATE = 4.0
"""Of the policy that a lowering world has to withstand, in units of the horizon."""

PAIR_SWEEPS = 6
TINY = 1e-300
SMALL = 1e-12


@dataclass(frozen=True, eq=False)
class WorldClass:
    """The worlds that a method has to be right about, around one of them.

    All have the same stages, states, actions and start. Transitions differ, and with
    ``changes_rewards`` also the means of the rewards, which are 0 or 1. Any state may follow any
    pair, and the end too if the given world has one. Without ``new_outcomes`` only what can happen
    in the given world can happen in the others. With ``stationary`` the transitions are the same at
    every stage, with ``same_rewards`` the mean rewards as well.
    """

    transitions: Transitions
    rewards: FloatHSA
    stationary: bool = False
    same_rewards: bool = False
    changes_rewards: bool = True
    new_outcomes: bool = True

    @cached_property
    def can_end(self) -> bool:
        """Whether an episode may end before the last stage."""
        return bool((self.transitions.next_state == END).any())

    @cached_property
    def rows(self) -> tuple[IntArray, FloatArray]:
        """Successors and probabilities, (stages, S, A, K); the end is number S, padding has 0."""
        shape = self.transitions.shape
        stages = 1 if self.stationary else shape.horizon - 1
        kernels = self.transitions.stages[:stages]
        width = max((int(np.diff(k.start).max(initial=1)) for k in kernels), default=1)
        successors = np.full((stages, shape.pairs, width), shape.states, dtype=np.int64)
        chances = np.zeros((stages, shape.pairs, width))
        for h, kernel in enumerate(kernels):
            sizes = np.diff(kernel.start)
            row = np.repeat(np.arange(shape.pairs), sizes)
            place = np.arange(len(row)) - kernel.start[row]
            ends = kernel.next_state == END
            successors[h, row, place] = np.where(ends, shape.states, kernel.next_state)
            chances[h, row, place] = kernel.probability
        full = (stages, shape.states, shape.actions, width)
        return successors.reshape(full), chances.reshape(full)

    @cached_property
    def paid(self) -> FloatArray:
        """Mean rewards, once per stage or once for all."""
        return np.array(self.rewards[: 1 if self.same_rewards else None], dtype=np.float64)

    @cached_property
    def reachable(self) -> BoolArray:
        """Where some policy gets in the given world, (H, S); at any stage if they are alike.

        Data tell nothing of the rest, so that a world may differ there at no cost.
        """
        reached = dp.reachable(self.transitions)
        if self.stationary:
            reached = np.broadcast_to(reached.any(axis=0), reached.shape)
        return reached

    def per_row(self, cells: FloatHSA) -> FloatArray:
        """Visits of cells as visits of rows of transitions."""
        visits: FloatArray = cells.sum(axis=0, keepdims=True) if self.stationary else cells[:-1]
        return visits

    def per_payment(self, cells: FloatHSA) -> FloatArray:
        """Visits of cells as observations of mean rewards."""
        visits: FloatArray = cells.sum(axis=0, keepdims=True) if self.same_rewards else cells
        return visits


@dataclass(eq=False)
class Worlds:
    """A batch of worlds of a class."""

    family: WorldClass
    chance: FloatArray  # (B, stages, S, A, K + 1), the last is that of ``further``
    further: IntArray  # (B, stages, S, A)
    paid: FloatArray  # (B, stages, S, A)

    @classmethod
    def copies(cls, family: WorldClass, number: int) -> Worlds:
        """The given world, ``number`` times."""
        _, chances = family.rows
        chance = np.concatenate([chances, np.zeros((*chances.shape[:3], 1))], axis=3)
        return cls(
            family,
            np.repeat(chance[None], number, axis=0),
            np.full((number, *chances.shape[:3]), family.transitions.shape.states),
            np.repeat(family.paid[None], number, axis=0),
        )

    def __len__(self) -> int:
        return len(self.paid)

    def take(self, which: IntArray | BoolArray) -> Worlds:
        """Some members."""
        return Worlds(self.family, self.chance[which], self.further[which], self.paid[which])

    def reward(self) -> FloatArray:
        """Mean rewards of all cells, (B, H, S, A)."""
        return np.broadcast_to(self.paid, (len(self), *self.family.transitions.shape.hsa))

    def expect(self, h: int, values: FloatArray) -> FloatArray:
        """The mean of values (B, S + 1) after every pair, (B, S, A)."""
        g = 0 if self.family.stationary else h
        known = values[:, self.family.rows[0][g]]
        batch = np.arange(len(self))[:, None, None]
        further: FloatArray = self.chance[:, g, ..., -1] * values[batch, self.further[:, g]]
        further += np.einsum("bsak,bsak->bsa", self.chance[:, g, ..., :-1], known)
        return further

    def occupancies(self, policy: FloatArray) -> FloatArray:
        """How likely policies (B, H, S, A) are in each state at each stage, (B, H, S)."""
        B, H, S, _ = policy.shape
        result = np.empty((B, H, S))
        result[:, 0] = self.family.transitions.initial
        first = (np.arange(B) * (S + 1))[:, None, None, None]
        for h in range(H - 1):
            g = 0 if self.family.stationary else h
            mass = (result[:, h, :, None] * policy[:, h])[..., None] * self.chance[:, g]
            known = np.broadcast_to(self.family.rows[0][g], mass[..., :-1].shape)
            after = np.concatenate([known, self.further[:, g, ..., None]], axis=3)
            arrived = sum_by_index((first + after).ravel(), mass.ravel(), B * (S + 1))
            result[:, h + 1] = arrived.reshape(B, S + 1)[:, :S]
        return result

    def values(self, policy: FloatArray, reward: FloatArray) -> FloatArray:
        """Values of policies (B, H, S, A) for rewards (B, H, S, A), (B, H + 1, S + 1)."""
        B, H, S, _ = policy.shape
        result = np.zeros((B, H + 1, S + 1))
        for h in reversed(range(H)):
            q = reward[:, h] + (self.expect(h, result[:, h + 1]) if h + 1 < H else 0.0)
            result[:, h, :S] = (policy[:, h] * q).sum(axis=2)
        return result

    def best(self, reward: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Optimal policies (B, H, S, A), values (B, H + 1, S + 1) and action values."""
        B, H, S, A = reward.shape
        values, q = np.zeros((B, H + 1, S + 1)), np.empty((B, H, S, A))
        allowed = self.family.transitions.allowed_actions
        for h in reversed(range(H)):
            earned = reward[:, h] + (self.expect(h, values[:, h + 1]) if h + 1 < H else 0.0)
            q[:, h] = np.where(allowed, earned, -np.inf)
            values[:, h, :S] = q[:, h].max(axis=2)
        return deterministic(q), values, q

    def start_values(self, values: FloatArray) -> FloatArray:
        """The values of the first state, (B,)."""
        return values[:, 0, :-1] @ self.family.transitions.initial

    def information(self) -> FloatArray:
        """KL from the given world per visit of each cell, (B, H, S, A); 0 where nothing gets."""
        family = self.family
        result = np.zeros((len(self), *family.transitions.shape.hsa))
        moves = kl_rows(family.rows[1], self.chance[..., :-1])
        if family.stationary:
            result += moves
        else:
            result[:, :-1] += moves
        if family.changes_rewards:
            result += kl_coins(family.paid, self.paid)
        return np.where(family.reachable[..., None], result, 0.0)


def deterministic(preference: FloatArray) -> FloatArray:
    """The policies (..., A) that take the action with the largest preference."""
    chosen: BoolArray = np.equal(
        preference.argmax(axis=-1)[..., None], np.arange(preference.shape[-1])
    )
    return chosen.astype(np.float64)


def distinct(policies: FloatArray) -> FloatArray:
    """Each policy of a batch once, in order."""
    _, first = np.unique(policies.reshape(len(policies), -1), axis=0, return_index=True)
    return policies[np.sort(first)]


# --------------------------------------------------------------------------------- rows


def kl_rows(p: FloatArray, q: FloatArray) -> FloatArray:
    """KL(p, q) along the last axis; infinite where q lacks what p has."""
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p > 0, p * np.log(p / q), 0.0)
    result: FloatArray = np.maximum(terms.sum(axis=-1), 0.0)
    return result


def kl_coins(p: FloatArray, q: FloatArray) -> FloatArray:
    """KL between coins with these chances."""
    pairs = np.stack(np.broadcast_arrays(p, 1 - p), axis=-1)
    return kl_rows(pairs, np.stack(np.broadcast_arrays(q, 1 - q), axis=-1))


def tilted_rows(p: FloatArray, gain: FloatArray, top: FloatArray) -> FloatArray:
    """argmax over q of q.gain - KL(p, q), where a further successor gains ``top`` >= gain.

    q = p/(nu + top - gain), and what is left goes to the further successor (the last entry). nu is
    found by Newton's method for the concave function 1/sum q, from below.
    """
    short = np.where(p > 0, top[..., None] - gain, 1.0)
    nu = np.maximum((p - short).max(axis=-1), 1 - (p * short).sum(axis=-1))
    nu = np.maximum(nu, TINY)
    for _ in range(NEWTON_STEPS):
        parts = p / (nu[..., None] + short)
        total = parts.sum(axis=-1)
        slope = (parts / (nu[..., None] + short)).sum(axis=-1)
        nu = np.maximum(nu + total * (total - 1) / np.maximum(slope, TINY), TINY)
    q = p / (nu[..., None] + short)
    rest = np.maximum(1 - q.sum(axis=-1, keepdims=True), 0.0)
    q = np.concatenate([q, rest], axis=-1)
    result: FloatArray = q / q.sum(axis=-1, keepdims=True)
    return result


def tilted_coins(p: FloatArray, gain: FloatArray) -> FloatArray:
    """argmax over q of q gain - KL of coins, for gain >= 0: gain q (1 - q) = q - p."""
    root = np.sqrt((1 - gain) ** 2 + 4 * gain * p)
    large = (gain - 1 + root) / np.maximum(2 * gain, TINY)
    small = 2 * p / np.maximum(1 - gain + root, TINY)
    return np.where(gain > 1, large, small)


# ------------------------------------------------------------------------------- worlds


def raise_values(
    family: WorldClass,
    visits: FloatHSA,
    policy: FloatArray,
    reward: FloatArray | None,
    wanted: FloatArray,
) -> tuple[Worlds, BoolArray]:
    """Worlds in which policies (B, H, S, A) have at least the wanted values, and which were found.

    They have little information in the visits. For a multiplier of the value, all rows are tilted
    towards what their policy gains from them, in turn; the multiplier is bisected. ``reward``
    (B, H, S, A) stays as it is; None stands for that of the worlds, which may change as well.
    """
    B = len(policy)
    worlds, found = Worlds.copies(family, B), Worlds.copies(family, B)
    is_found = np.zeros(B, dtype=np.bool_)
    low, high = np.full(B, MULTIPLIERS[0]), np.full(B, MULTIPLIERS[1])
    for _ in range(MULTIPLIER_STEPS):
        multiplier = np.sqrt(low * high)
        for _ in range(SWEEPS):
            weight = _weights(worlds, policy, multiplier)
            values = _tilt_all(worlds, visits, policy, weight, 1.0, reward)
        reached = worlds.start_values(values) >= wanted
        low, high = np.where(reached, multiplier, low), np.where(reached, high, multiplier)
        found.chance[reached] = worlds.chance[reached]
        found.further[reached] = worlds.further[reached]
        found.paid[reached] = worlds.paid[reached]
        is_found |= reached

    def is_high(tried: Worlds) -> BoolArray:
        pays = tried.reward() if reward is None else reward
        high_enough: BoolArray = tried.start_values(tried.values(policy, pays)) >= wanted
        return high_enough

    # Half steps leave rows that are shared a little behind the multiplier.
    return (_nearest_mixtures(found, is_high) if family.stationary else found), is_found


def lower_values(family: WorldClass, visits: FloatHSA, wanted: float) -> Worlds:
    """Worlds in which no policy has more than the wanted value; those that were found.

    Rows are tilted away from what a stochastic policy gains from them, while the policy moves its
    actions towards those that are best in the tilted world (multiplicative weights).
    """
    H, S, A = family.transitions.shape.hsa
    multiplier = np.geomspace(1e-3, 1e3, LOWERING_MULTIPLIERS)
    worlds = Worlds.copies(family, len(multiplier))
    allowed = family.transitions.allowed_actions
    preference = np.where(allowed, 0.0, -np.inf) + np.zeros((len(multiplier), H, S, A))
    _, _, q = worlds.best(worlds.reward())
    for _ in range(LOWERING_SWEEPS):
        preference += LEARNING_RATE / H * np.where(allowed, q - q.max(axis=3, keepdims=True), 0.0)
        policy = np.exp(preference - preference.max(axis=3, keepdims=True))
        policy /= policy.sum(axis=3, keepdims=True)
        _tilt_all(worlds, visits, policy, _weights(worlds, policy, multiplier), -1.0, None)
        _, values, q = worlds.best(worlds.reward())
    worlds = worlds.take(worlds.start_values(values) <= wanted)
    if not len(worlds):
        return worlds
    if not family.stationary:
        return _projected(worlds, wanted)
    return _nearest_mixtures(
        worlds, lambda tried: tried.start_values(tried.best(tried.reward())[1]) <= wanted
    )


def _nearest_mixtures(worlds: Worlds, is_enough: Callable[[Worlds], BoolArray]) -> Worlds:
    """Mixtures of the given world with others, with as much of it as is still enough."""
    given = Worlds.copies(worlds.family, len(worlds))
    shares = np.stack([np.zeros(len(worlds)), np.ones(len(worlds))])

    def mixed(share: FloatArray) -> Worlds:
        t = share[:, None, None, None]
        chance = given.chance + t[..., None] * (worlds.chance - given.chance)
        paid = given.paid + t * (worlds.paid - given.paid)
        return Worlds(worlds.family, chance, worlds.further, paid)

    for _ in range(ROW_STEPS):
        middle = shares.mean(axis=0)
        shares = np.where(is_enough(mixed(middle)), [shares[0], middle], [middle, shares[1]])
    return mixed(shares[1])


def _projected(worlds: Worlds, wanted: float) -> Worlds:
    """Worlds with V* between that of the given world and that of each other, at most ``wanted``.

    With W = V* + t (V*' - V*), each row is tilted just so far that it leads to no more than W.
    """
    family = worlds.family
    B = len(worlds)
    result = Worlds.copies(family, B)
    before = result.best(result.reward())[1]
    after = worlds.best(worlds.reward())[1]
    high, low = result.start_values(before), worlds.start_values(after)
    share = np.clip((high - wanted) / np.maximum(high - low, SMALL) + SMALL, 0.0, 1.0)
    goal = before + share[:, None, None] * (after - before)
    H, S = family.transitions.shape.hs
    for h in reversed(range(H)):
        bracket = np.zeros((2, B, S, family.transitions.shape.actions))
        bracket[0], bracket[1] = MULTIPLIERS
        most = goal[:, h, :S, None]
        untilted = _tilted_stage_value(result, h, np.zeros_like(bracket[0]), goal[:, h + 1])
        bracket[:, untilted <= most] = 0.0
        for _ in range(ROW_STEPS):
            factor = np.sqrt(bracket[0] * bracket[1])
            is_low = _tilted_stage_value(result, h, factor, goal[:, h + 1]) <= most
            bracket[1] = np.where(is_low, factor, bracket[1])
            bracket[0] = np.where(is_low, bracket[0], factor)
        _tilted_stage_value(result, h, bracket[1], goal[:, h + 1])
    reached = result.start_values(result.best(result.reward())[1]) <= wanted
    return result.take(reached)


def _tilted_stage_value(
    worlds: Worlds, h: int, factor: FloatArray, values: FloatArray
) -> FloatArray:
    """What rows earn when they are tilted away from their gains with these factors."""
    family = worlds.family
    if family.changes_rewards:
        is_open = family.new_outcomes | ((family.paid[h] > 0) & (family.paid[h] < 1))
        paid = np.broadcast_to(family.paid[h], factor.shape)
        worlds.paid[:, h] = 1 - tilted_coins(1 - paid, np.where(is_open, factor, 0.0))
    earned = worlds.paid[:, h]
    if h + 1 < family.transitions.shape.horizon:
        _tilt_towards(worlds, h, factor, -1.0, values)
        earned = earned + worlds.expect(h, values)
    return earned


def _weights(worlds: Worlds, policy: FloatArray, multiplier: FloatArray) -> FloatArray:
    """What a row's value weighs against its information, (B, H, S, A); much if that is free."""
    arrive = worlds.occupancies(policy) / multiplier[:, None, None]
    weights: FloatArray = np.where(worlds.family.reachable, arrive, 1.0)[..., None] * policy
    return weights


def _tilt_all(
    worlds: Worlds,
    visits: FloatHSA,
    policy: FloatArray,
    weight: FloatArray,
    sign: float,
    reward: FloatArray | None,
) -> FloatArray:
    """Tilt every row towards (or away from) what it leads to; returns the policies' values."""
    family = worlds.family
    B, H, S, _ = policy.shape
    moves = np.maximum(family.per_row(visits), SMALL)
    if reward is None and family.changes_rewards:
        gain = weight.sum(axis=1, keepdims=True) if family.same_rewards else weight
        gain = gain / np.maximum(family.per_payment(visits), SMALL)
        is_open = family.new_outcomes | ((family.paid > 0) & (family.paid < 1))
        gain = np.where(is_open, gain, 0.0)
        paid = np.broadcast_to(family.paid, gain.shape)
        worlds.paid = tilted_coins(paid, gain) if sign > 0 else 1 - tilted_coins(1 - paid, gain)
    pays = worlds.reward() if reward is None else reward
    if family.stationary:
        values = worlds.values(policy, pays)
        gains = sign * np.einsum("bhsa,bht->bsat", weight[:, :-1], values[:, 1:-1])
        gains /= moves[0][..., None]
        known = np.broadcast_to(family.rows[0][0], (B, *family.rows[0][0].shape))
        possible = gains if family.can_end else gains[..., :-1]
        top, further = possible.max(axis=3), possible.argmax(axis=3)
        known_gain = np.take_along_axis(gains, known, axis=3)
        _tilt_stage(worlds, 0, known_gain, top, further, damped=True)
        return worlds.values(policy, pays)
    values = np.zeros((B, H + 1, S + 1))
    for h in reversed(range(H)):
        q = pays[:, h]
        if h + 1 < H:
            _tilt_towards(worlds, h, weight[:, h] / moves[h], sign, values[:, h + 1])
            q = q + worlds.expect(h, values[:, h + 1])
        values[:, h, :S] = (policy[:, h] * q).sum(axis=2)
    return values


def _tilt_towards(
    worlds: Worlds, h: int, factor: FloatArray, sign: float, values: FloatArray
) -> None:
    """Tilt the rows of a stage towards factor (B, S, A) times sign times the values that follow.

    The values are (B, S + 1).
    """
    family = worlds.family
    values = sign * values
    extreme = (values if family.can_end else values[:, :-1]).argmax(axis=1)
    known = factor[..., None] * values[:, family.rows[0][h]]
    top = factor * values[np.arange(len(values)), extreme][:, None, None]
    further = np.broadcast_to(extreme[:, None, None], factor.shape)
    _tilt_stage(worlds, h, known, top, further, damped=False)


def _tilt_stage(
    worlds: Worlds, g: int, gain: FloatArray, top: FloatArray, further: IntArray, *, damped: bool
) -> None:
    """Tilt the rows of a stage towards the gains of their successors (B, S, A, K).

    ``top`` is the most that any successor gains, and ``further`` which one that is. Where all
    stages share a row, gains depend on the other rows; half a step is taken then (``damped``).
    """
    family = worlds.family
    successors, chances = family.rows[0][g], family.rows[1][g]
    open_gain = np.where(chances > 0, gain, -np.inf)
    most = open_gain.max(axis=3)
    is_known = np.isfinite(most) & ((most >= top) | (not family.new_outcomes))
    if is_known.any():
        known = np.broadcast_to(successors, gain.shape)
        best = np.take_along_axis(known, open_gain.argmax(axis=3)[..., None], axis=3)[..., 0]
        further = np.where(is_known, best, further)
        top = np.where(is_known, most, top)
    tilted = tilted_rows(np.broadcast_to(chances, gain.shape), gain, top)
    if damped:
        before = worlds.chance[:, g]
        keeps = (worlds.further[:, g] == further) | (before[..., -1] == 0)
        tilted = np.where(keeps[..., None], (before + tilted) / 2, tilted)
    worlds.chance[:, g], worlds.further[:, g] = tilted, further


def largest_differences(worlds: Worlds, policy: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Policies (B, H, S, A) and rewards for which worlds differ much from the given one.

    For a policy the best reward is 1 where the world is more likely to be. Policies are improved
    stage by stage, and both in turn while that helps.
    """
    family = worlds.family
    B, H, S, A = policy.shape
    given = Worlds.copies(family, B)
    allowed = family.transitions.allowed_actions
    best, best_policy, best_reward = np.full(B, -1.0), policy.copy(), np.zeros((B, H, S, A))
    policy = policy.copy()
    for _ in range(PAIR_SWEEPS):
        more = worlds.occupancies(policy) - given.occupancies(policy)
        difference = np.maximum(more, 0).sum(axis=(1, 2))
        is_better = difference > best + SMALL
        if not is_better.any():
            break
        reward = np.repeat((more > 0)[..., None], A, axis=3).astype(np.float64)
        best = np.where(is_better, difference, best)
        best_policy[is_better], best_reward[is_better] = policy[is_better], reward[is_better]
        for h in range(H - 1):
            q = worlds.expect(h, worlds.values(policy, reward)[:, h + 1])
            q_given = given.expect(h, given.values(policy, reward)[:, h + 1])
            gain = (reward[:, h] + q) * worlds.occupancies(policy)[:, h, :, None]
            gain -= (reward[:, h] + q_given) * given.occupancies(policy)[:, h, :, None]
            policy[:, h] = deterministic(np.where(allowed, gain, -np.inf))
    return best_policy, best_reward


def drawn_worlds(
    family: WorldClass, visits: FloatHSA, number: int, rng: np.random.Generator
) -> Worlds:
    """Worlds as data with these visits might show them: directions for a search."""
    worlds = Worlds.copies(family, number)
    chances = family.rows[1]
    draws = np.maximum(np.round(family.per_row(visits)), 3).astype(np.int64)
    total = chances.sum(axis=3, keepdims=True)
    share = np.divide(
        chances, total, out=np.full_like(chances, 1 / chances.shape[3]), where=total > 0
    )
    seen = rng.multinomial(draws, share, size=(number, *draws.shape))
    worlds.chance[..., :-1] = seen / draws[..., None] * (total > 0)
    if family.new_outcomes:
        states = family.transitions.shape.states + family.can_end
        worlds.further = rng.integers(0, states, worlds.further.shape)
        further = rng.random(worlds.further.shape) / draws * (total[..., 0] > 0)
        worlds.chance[..., :-1] *= 1 - further[..., None]
        worlds.chance[..., -1] = further
    return worlds


def optimistic_policies(
    family: WorldClass, visits: FloatHSA, multipliers: FloatArray
) -> FloatArray:
    """Policies that may be best in nearby worlds, (B, H, S, A): value less priced information.

    A unit of information of a cell costs a multiplier times its visits over its reachability.
    """
    H, S, A = family.transitions.shape.hsa
    B = len(multipliers)
    worlds = Worlds.copies(family, B)
    values, preference = np.zeros((B, H + 1, S + 1)), np.empty((B, H, S, A))
    reach = np.maximum(dp.reachability(family.transitions), SMALL)
    allowed = family.transitions.allowed_actions
    moves, payments = family.per_row(visits), family.per_payment(visits)
    for h in reversed(range(H)):
        of_reward = min(h, len(payments) - 1)
        price = multipliers[:, None, None] * payments[of_reward] / reach[h][:, None]
        price = np.maximum(price, SMALL)
        paid = np.broadcast_to(family.paid[of_reward], price.shape)
        coins = tilted_coins(paid, 1 / price)
        q = coins - price * kl_coins(paid, coins)
        if h + 1 < H:
            g = 0 if family.stationary else h
            price = multipliers[:, None, None] * moves[g] / reach[h][:, None]
            price = np.maximum(price, SMALL)
            _tilt_towards(worlds, g, 1 / price, 1.0, values[:, h + 1])
            moved = kl_rows(family.rows[1][g], worlds.chance[:, g, ..., :-1])
            q = q + worlds.expect(h, values[:, h + 1]) - price * moved
        q = np.where(allowed, q, -np.inf)
        preference[:, h], values[:, h, :S] = q, q.max(axis=2)
    return deterministic(preference)
