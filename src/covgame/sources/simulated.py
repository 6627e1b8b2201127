"""Episodes simulated from a model: the world's side of the game."""

from __future__ import annotations

import numpy as np

from covgame.episodes import LAST, Episode
from covgame.failures import Failures
from covgame.game.game import Revise
from covgame.mdp.model import TabularMDP
from covgame.names import Names
from covgame.rng import uniforms
from covgame.sources.masks import Masks
from covgame.sources.source import UNOBSERVED, EpisodeObserver, Source
from covgame.sources.states import CountedStates
from covgame.sources.steppers import Actions
from covgame.types import END, FloatArray, Policy, Shape

STREAM = 0


class SimulatedSource(Source):
    """Plays episodes of a model; episode i depends on the seed, i and the policy alone."""

    model: TabularMDP
    is_replayable = True

    def __init__(self, model: TabularMDP, seed: int = 0) -> None:
        self.model, self.seed = model, seed
        self.states, self.failures = CountedStates(model.shape.states), Failures()
        self.masks = Masks(model.shape.actions, model.transitions.allowed)

    @property
    def shape(self) -> Shape:
        return self.model.shape

    @property
    def stationary(self) -> bool:
        return self.model.transitions.stationary

    @property
    def actions(self) -> Actions:
        labels = self.model.names.actions
        return Actions(range(self.shape.actions), None if labels is None else tuple(labels))

    @property
    def names(self) -> Names:
        return self.model.names

    def seeded(self, seed: int) -> SimulatedSource:
        return SimulatedSource(self.model, seed)

    def play(
        self,
        policy: Policy,
        episode: int,
        revise: Revise | None = None,
        observer: EpisodeObserver = UNOBSERVED,
    ) -> Episode:
        """One episode. Each step uses three numbers: action, successor, reward."""
        H, S, A = self.shape.hsa
        numbers = uniforms(self.seed, STREAM, episode, 1 + 3 * H)
        steps: list[tuple[int, int, float, int]] = []
        state = _draw(self.model.initial, numbers[0])
        policy = policy.begin(state)
        for h in range(H):
            act, move, earn = numbers[1 + 3 * h : 4 + 3 * h]
            action = _choose(policy, h, state, act)
            row = state * A + action
            successor = LAST if h + 1 == H else self._successor(h, row, move)
            reward = float(earn < self.model.rewards[h, state, action])
            steps.append((state, action, reward, successor))
            if successor in (END, LAST):
                break
            policy = (revise and revise(h * S * A + row, successor)) or policy
            state = successor
        played = Episode.of_steps(steps)
        observer.on_episode(observer.number_of(episode), played)
        return played

    def _successor(self, h: int, row: int, number: float) -> int:
        kernel = self.model.transitions.stages[h]
        entries = slice(kernel.start[row], kernel.start[row + 1])
        return int(kernel.next_state[entries][_draw(kernel.probability[entries], number)])


def _draw(probabilities: FloatArray, number: float) -> int:
    """The index whose share of [0, 1) holds the number; the last possible one takes the rest."""
    index = int(np.searchsorted(np.cumsum(probabilities), number, side="right"))
    return min(index, int(np.flatnonzero(probabilities)[-1]))


def _choose(policy: Policy, h: int, state: int, number: float) -> int:
    chosen = policy.table[policy.row(h), state]
    return _draw(chosen, number) if policy.is_stochastic else int(chosen)
