"""Episodes simulated from a model: the world's side of the game."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covgame.episodes import LAST, Episode
from covgame.game.game import Revise
from covgame.mdp.model import TabularMDP
from covgame.rng import uniforms
from covgame.types import END, FloatArray, Policy, Shape

STREAM = 0


@dataclass(frozen=True, eq=False)
class SimulatedSource:
    """Plays episodes of a model; episode i depends on the seed, i and the policy alone."""

    model: TabularMDP
    seed: int = 0

    @property
    def shape(self) -> Shape:
        """Stages, states and actions."""
        return self.model.shape

    @property
    def repeats(self) -> bool:
        """What was lost is played again exactly."""
        return True

    @property
    def state_keys(self) -> list[str] | None:
        """None: states are numbered beforehand."""
        return None

    @property
    def state_labels(self) -> list[str] | None:
        """None: the model has its names."""
        return None

    @property
    def most_states(self) -> int | None:
        """None: the model knows its states."""
        return None

    @property
    def keeps_observations(self) -> bool:
        """No: a model shows states and nothing else."""
        return False

    @property
    def observation_space(self) -> None:
        """None: there are no observations."""
        return

    @property
    def discovers_states(self) -> bool:
        """No: states are numbered beforehand."""
        return False

    @property
    def stationary(self) -> bool:
        """Whether the model is the same at every stage."""
        return self.model.transitions.stationary

    def seeded(self, seed: int) -> SimulatedSource:
        """The same model with other episodes."""
        return SimulatedSource(self.model, seed)

    def play(self, policy: Policy, episode: int, revise: Revise | None = None) -> Episode:
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
        return Episode.of_steps(steps)

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
