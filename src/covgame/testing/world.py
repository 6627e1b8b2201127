"""A state machine as an environment: rules are its actions, and a sequence is an episode."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from covgame.errors import BadInput, EnvironmentFailed, PremiseBroken
from covgame.imports import said
from covgame.names import label_of
from covgame.rng import episode_seed
from covgame.sources.states import as_hashable
from covgame.testing.machines import (
    Found,
    GaveUp,
    Machine,
    OpenSequence,
    Place,
    StateMap,
    close_after_failure,
    place_of,
)
from covgame.testing.options import TestOptions

Shown = tuple[Any, float, bool, bool, dict[str, Any]]

TRIES = 100
"""Attempts to set up a sequence."""

ANOTHER_TRY = 5
"""The stream of random numbers that gives every attempt its own seed."""

GIVEN_UP = "assume() was false, or a filter found nothing, every time"


class World:
    """Plays sequences of a machine, and keeps the shortest that fails at each place."""

    def __init__(self, machine: Machine, steps: int) -> None:
        self.machine, self.horizon = machine, steps
        self.actions = list(machine.rules)
        self.found: dict[Place, Found] = {}
        self.ever_allowed = [False] * len(self.actions)
        self._numbers = {name: number for number, name in enumerate(self.actions)}
        self._known: set[Any] = set()  # states that can be told apart
        self._open: OpenSequence | None = None
        self._path: list[str] = []
        self._seed = 0

    def reset(self, seed: int) -> tuple[Any, dict[str, Any]]:
        """Begin a sequence: its first state, and which rules are allowed."""
        self.close()
        self._path = []
        for attempt in range(TRIES):
            self._seed = seed if not attempt else episode_seed(seed, ANOTHER_TRY, attempt)
            self._open = sequence = self.machine.begin(self._seed)
            try:
                sequence.start()
            except GaveUp:
                self._close_after_failure()
                continue
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._note(error)
                self._close_after_failure()
                raise
            state, mask = self._look(sequence)
            if mask is None:
                raise PremiseBroken(f"no rule of {self.machine.name} is allowed at the beginning")
            return state, {"action_mask": mask}
        raise PremiseBroken(f"{self.machine.name} was not set up in {TRIES} attempts: {GIVEN_UP}")

    def step(self, rule: str) -> Shown:
        """Run a rule: (state, 0, whether no rule is allowed any more, whether it was given up)."""
        assert self._open is not None, "reset comes first"  # noqa: S101
        self._path.append(rule)
        try:
            self._open.run(self._numbers[rule])
            state, mask = self._look(self._open)
            if mask is None or len(self._path) == self.horizon:
                self.close()
        except GaveUp:
            state, _ = self._look(self._open)
            self.close()
            return state, 0.0, False, True, {}
        except (KeyboardInterrupt, PremiseBroken):
            raise
        except BaseException as error:
            self._note(error)
            self._close_after_failure()
            raise
        if mask is None:
            return state, 0.0, True, False, {}
        return state, 0.0, False, False, {"action_mask": mask}

    def close(self) -> None:
        """Tear down what is open."""
        if self._open is not None:
            sequence, self._open = self._open, None
            sequence.close()

    def _close_after_failure(self) -> None:
        if self._open is not None:
            sequence, self._open = self._open, None
            close_after_failure(sequence)

    def _look(self, sequence: OpenSequence) -> tuple[Any, list[bool] | None]:
        """The state, and which rules are allowed in it; None for none."""
        state, allowed = self._state(sequence), sequence.allowed()
        self.ever_allowed = [
            one or now for one, now in zip(self.ever_allowed, allowed, strict=True)
        ]
        return state, allowed if any(allowed) else None

    def _state(self, sequence: OpenSequence) -> Any:
        """The state; it has to be comparable with others."""
        try:
            self._last = state = sequence.state()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PremiseBroken(
                f"what counts as a state of {self.machine.name} could not be told: {said(error)}"
            ) from error
        try:
            if state in self._known:
                return state
        except TypeError:
            pass
        try:
            self._known.add(as_hashable(state))
        except (EnvironmentFailed, TypeError):
            raise PremiseBroken(
                f"what counts as a state of {self.machine.name} is a {type(state).__name__} here, "
                "by which states cannot be told apart; return numbers, words, or tuples of them"
            ) from None
        return state

    def _note(self, error: BaseException) -> None:
        """Count a failure, and keep the shortest sequence that fails at each place."""
        rules = tuple(self._path)
        where = f"{label_of(self._last)} / {rules[-1]}" if rules else "set-up"
        steps = self._open.steps if self._open is not None else []
        found, place = Found(rules, where, 1, self._seed, error, steps), place_of(error)
        known = self.found.get(place)
        if known is not None:
            shorter = min(known, found, key=lambda one: len(one.rules))
            found = replace(shorter, times=known.times + 1)
        self.found[place] = found


def machine_of(machine: Any, options: TestOptions) -> Machine:
    """A class as a machine that can be run."""
    if not isinstance(machine, type):
        raise BadInput(f"a state machine is a class, not {machine!r}")
    stateful = sys.modules.get("hypothesis.stateful")  # a machine of Hypothesis has imported it
    if stateful is not None and issubclass(machine, stateful.RuleBasedStateMachine):
        from covgame.testing.hypothesis_machines import HypothesisMachine

        return HypothesisMachine(machine, options.states, options.steps)
    from covgame.testing.plain_machines import PlainMachine

    return PlainMachine(machine, options.states)


def environment(machine: Any, steps: int = 50, states: StateMap | None = None) -> World:
    """A state machine as an environment, for ``covgame.cover`` and the command line.

    Args:
        machine: A state machine of Hypothesis or a plain class with ``@action`` methods.
        steps: Rules of a sequence at most.
        states: What counts as a state, instead of the machine's method ``covgame_state``.

    Returns:
        An object with ``reset`` and ``step``.

    Raises:
        BadInput: It is no machine, has no rules, or does not say what counts as a state.
    """
    options = TestOptions(steps=steps, states=states)
    return World(machine_of(machine, options), steps)
