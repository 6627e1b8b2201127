"""Planners, adversaries and peers that somebody else wrote, checked at the door.

``py:module:name`` names a class or a function without arguments that makes one, or the thing
itself. A planner has ``plan(counts, reward)``. A peer has ``ask(counts)``: it pays no attention to
the target and plays what it likes. An adversary has ``start(target)`` and ``observe(...)``; what it
has to remember beyond the weights goes to ``state.memory``, arrays by name, so that a run that is
resumed finds it there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from covgame.episodes import Episode
from covgame.errors import BadInput, CovgameError
from covgame.game.adversary import OURS, Adversary, AdversaryState
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.game.planner import Planner
from covgame.imports import PREFIX, call, find, said
from covgame.types import FloatHSA, Policy


class Rollout(Protocol):
    """What a peer wants to play for so many episodes (``baselines.peer.Rollout``)."""

    @property
    def episodes(self) -> int:
        """When to ask again."""
        ...

    def policy(self, counts: Counts) -> Policy:
        """The policy of the next episode."""
        ...


class Peer(Protocol):
    """A method that explores by looking at the visit counts alone."""

    def ask(self, counts: Counts) -> Rollout | Policy:
        """What to play next: a policy for one episode, or for several."""
        ...


def own_game(
    game: Game, planner: Planner | Peer | str | None, adversary: Adversary | str | None
) -> Game:
    """A game before its first episode, with somebody's planner or adversary in place of ours."""
    plans = game.planner if planner is None else own_planner(planner)
    weighs = game.adversary if adversary is None else own_adversary(adversary)
    learns = not (isinstance(plans, OwnPlanner) and isinstance(plans.inner, PeerPlanner))
    return _begun(
        lambda: Game(game.target, plans, weighs, game.counts, game.allowed, learns_within=learns)
    )


def with_own(game: Game, name: str) -> Game:
    """A game before its first episode, with whatever ``py:module:name`` is in the place of ours."""
    _, made = _made(name, "plan", "ask", "start")
    if _has(made, ("start",)):
        return own_game(game, None, name)
    return own_game(game, name, None)


def own_planner(asked: Planner | Peer | str) -> Planner:
    """The planner or peer that was asked for, by name or as it is."""
    name, made = _made(asked, "plan", "ask")
    if hasattr(made, "plan"):
        return OwnPlanner(name, cast("Planner", made))
    return OwnPlanner(name, PeerPlanner(cast("Peer", made)))


def own_adversary(asked: Adversary | str) -> Adversary:
    """The adversary that was asked for, by name or as it is."""
    name, made = _made(asked, "start")
    if not hasattr(made, "observe"):
        raise BadInput(f"{name} has no observe() method, which an adversary needs")
    return cast("Adversary", made)


def name_of(asked: object) -> str:
    """How a run remembers it."""
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
    """Whatever goes wrong in somebody else's code becomes one sentence."""
    try:
        yield
    except Exception as error:
        raise BadInput(f"{name}: {method}() raised {said(error)}") from error


class PeerPlanner:
    """A peer as a planner: it is asked again when what it wanted is played."""

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
class OwnPlanner:
    """Somebody's planner; what it returns is checked."""

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
        if not policy.is_stochastic and not _within(policy.table, shape.actions):
            raise BadInput(f"{self.name}: plan() returned actions outside 0 to {shape.actions - 1}")
        return policy


def _within(actions: Any, number: int) -> bool:
    return bool((actions >= 0).all() and (actions < number).all())


def _begun(game: Callable[[], Game]) -> Game:
    """A game with somebody's adversary, whose first weights are checked."""
    try:
        started = game()
    except CovgameError:
        raise
    except Exception as error:
        raise BadInput(f"the adversary's start() raised {said(error)}") from error
    if not isinstance(started.state, AdversaryState):
        raise BadInput(f"start() has to return an AdversaryState, not {started.state!r}")
    check_weights(started)
    return started


def tell(game: Game, episode: Episode) -> None:
    """``Game.tell``, with a look at what somebody's adversary makes of it."""
    try:
        game.tell(episode)
    except Exception as error:
        raise BadInput(f"{_name(game)}: observe() raised {said(error)}") from error
    if type(game.adversary) not in OURS:  # which keep their sum themselves, to the last bit
        check_weights(game)


def check_weights(game: Game) -> None:
    """Weights are finite and not negative, one for every row; their sum is kept for later."""
    weights = np.asarray(game.state.weights)
    fits = weights.shape == (len(game.target),)
    if not fits or not np.isfinite(weights).all() or (weights < 0).any():
        raise BadInput(
            f"{_name(game)}: weights are {len(game.target)} numbers from 0 on, one for every row "
            f"of the target, not {weights!r}"
        )
    game.state.total = float(weights.sum())


def _name(game: Game) -> str:
    return type(game.adversary).__qualname__
