"""Planners, adversaries and peers written by users; what they return is checked.

``py:module:name`` names a class, a function without arguments that makes an object, or the object
itself. A planner has ``plan(counts, reward)``. A peer has ``ask(counts)`` and ignores the target.
An adversary has ``start(target)`` and ``observe(...)``; it keeps what it needs beyond the weights
in ``state.memory``, arrays by name, which is stored with the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from covgame.episodes import Episode
from covgame.errors import BadInput, CovgameError
from covgame.game.adversary import OURS, Adversary, AdversaryState
from covgame.game.counts import Counts
from covgame.game.game import Game, Round
from covgame.game.planner import Planner
from covgame.imports import PREFIX, call, find, said
from covgame.types import FloatHSA, Policy


class Rollout(Protocol):
    """What a peer plays for a number of episodes (``baselines.peer.Rollout``)."""

    @property
    def episodes(self) -> int:
        """Number of episodes until the peer is asked again."""
        ...

    def policy(self, counts: Counts) -> Policy:
        """The policy of the next episode."""
        ...


class Peer(Protocol):
    """A method that explores by looking at the visit counts alone."""

    def ask(self, counts: Counts) -> Rollout | Policy:
        """What to play next: a policy for one episode, or for several."""
        ...


def custom_game(
    game: Game, planner: Planner | Peer | str | None, adversary: Adversary | str | None
) -> Game:
    """A game before its first episode, with the planner or adversary of a user.

    Each is an object, or a name such as ``py:module:name``; None keeps the one of the game.
    """
    plans = game.planner if planner is None else custom_planner(planner)
    weighs = game.adversary if adversary is None else custom_adversary(adversary)
    learns = not (isinstance(plans, CheckedPlanner) and isinstance(plans.inner, PeerPlanner))
    try:
        started = CheckedGame(
            game.target, plans, weighs, game.counts, game.allowed, learns_within=learns
        )
    except CovgameError:
        raise
    except Exception as error:
        raise BadInput(f"the adversary's start() raised {said(error)}") from error
    if not isinstance(started.state, AdversaryState):
        raise BadInput(f"start() has to return an AdversaryState, not {started.state!r}")
    started.check_weights()
    return started


def custom_game_named(game: Game, name: str) -> Game:
    """A game before its first episode, with the planner, peer or adversary ``py:module:name``."""
    _, made = _made(name, "plan", "ask", "start")
    if _has(made, ("start",)):
        return custom_game(game, None, name)
    return custom_game(game, name, None)


def custom_planner(asked: Planner | Peer | str) -> Planner:
    """The planner or peer, given by name or as an object."""
    name, made = _made(asked, "plan", "ask")
    if hasattr(made, "plan"):
        return CheckedPlanner(name, cast("Planner", made))
    return CheckedPlanner(name, PeerPlanner(cast("Peer", made)))


def custom_adversary(asked: Adversary | str) -> Adversary:
    """The adversary, given by name or as an object."""
    name, made = _made(asked, "start")
    if not hasattr(made, "observe"):
        raise BadInput(f"{name} has no observe() method, which an adversary needs")
    return cast("Adversary", made)


def name_of(asked: object) -> str:
    """The name that a run stores."""
    return asked if isinstance(asked, str) else f"{type(asked).__qualname__} (an object)"


def _made(asked: object, *methods: str) -> tuple[str, object]:
    """(its name, the object with one of these methods)."""
    if not isinstance(asked, str):
        made: object = asked() if isinstance(asked, type) else asked
    elif not asked.startswith(PREFIX):
        raise BadInput(
            f"{asked!r} cannot be found by its name: write py:module:name, or hand the object over "
            "(covgame.cover and covgame.resume take planner= and adversary=)"
        )
    else:
        found = find(asked)
        made = found if _has(found, methods) and not isinstance(found, type) else call(asked)
    if not _has(made, methods):
        wanted = " or ".join(f"{method}()" for method in methods)
        raise BadInput(f"{name_of(asked)} has no {wanted} method")
    return name_of(asked), made


def _has(thing: object, methods: tuple[str, ...]) -> bool:
    return any(callable(getattr(thing, method, None)) for method in methods)


@contextmanager
def _asking(name: str, method: str) -> Iterator[None]:
    """Turn exceptions of a user's code into ``BadInput``."""
    try:
        yield
    except Exception as error:
        raise BadInput(f"{name}: {method}() raised {said(error)}") from error


class PeerPlanner:
    """A peer as a planner: it is asked again when its rollout has been played."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.rollout: Rollout | None = None
        self.until = 0  # it is asked again after so many episodes

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        """Its policy for the next episode, whatever the reward."""
        del reward
        if self.rollout is None or counts.n_episodes >= self.until:
            asked = self.peer.ask(counts)
            if isinstance(asked, Policy):
                return asked
            self.rollout, self.until = asked, counts.n_episodes + asked.episodes
        return self.rollout.policy(counts)


@dataclass(frozen=True)
class CheckedPlanner:
    """A user's planner, whose policies are checked."""

    name: str
    inner: Planner

    def plan(self, counts: Counts, reward: FloatHSA) -> Policy:
        """Its policy, of the right shape."""
        with _asking(self.name, "plan"):
            policy = self.inner.plan(counts, reward)
        shape = counts.shape
        if not isinstance(policy, Policy) or policy.table.shape[:2] != shape.hs:
            raise BadInput(
                f"{self.name}: plan() has to return a Policy for {shape.horizon} stages and "
                f"{shape.states} states, not {policy!r}"
            )
        if policy.actions != shape.actions:
            raise BadInput(f"{self.name}: plan() returned a policy for {policy.actions} actions")
        if (
            not policy.is_stochastic
            and not ((policy.table >= 0) & (policy.table < shape.actions)).all()
        ):
            raise BadInput(f"{self.name}: plan() returned actions outside 0 to {shape.actions - 1}")
        return policy


class CheckedGame(Game):
    """A game that checks the weights of its adversary, unless it is one of the package."""

    def tell(self, episode: Episode) -> Round:
        try:
            result = super().tell(episode)
        except Exception as error:
            raise BadInput(f"{self._adversary_name}: observe() raised {said(error)}") from error
        if type(self.adversary) not in OURS:  # those keep their sum themselves, to the last bit
            self.check_weights()
        return result

    def check_weights(self) -> None:
        """Check that each row has a finite weight >= 0, and store the sum of the weights."""
        weights = np.asarray(self.state.weights)
        fits = weights.shape == (len(self.target),)
        if not fits or not np.isfinite(weights).all() or (weights < 0).any():
            raise BadInput(
                f"{self._adversary_name}: weights are {len(self.target)} numbers from 0 on, one "
                f"for every row of the target, not {weights!r}"
            )
        self.state.total = float(weights.sum())

    @property
    def _adversary_name(self) -> str:
        return type(self.adversary).__qualname__
