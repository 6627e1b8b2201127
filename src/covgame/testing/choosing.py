"""Which kind of machine a class is."""

from __future__ import annotations

import sys
from typing import Any

from covgame.errors import BadInput
from covgame.testing.asked import Asked
from covgame.testing.machines import STATE_METHOD, Machine, StateMap
from covgame.testing.world import World


def machine_of(machine: Any, asked: Asked) -> Machine:
    """A class as a machine that can be run."""
    if not isinstance(machine, type):
        raise BadInput(f"a state machine is a class, not {machine!r}")
    if is_of_hypothesis(machine):
        from covgame.testing.hypothesis_machines import HypothesisMachine, check_has_rules

        check_has_rules(machine)
        return HypothesisMachine(machine, state_map(machine, asked), asked.steps)
    from covgame.testing.plain_machines import PlainMachine, check_has_actions

    check_has_actions(machine)
    return PlainMachine(machine, state_map(machine, asked))


def is_of_hypothesis(machine: type) -> bool:
    """Whether it is a state machine of Hypothesis, which then is imported already."""
    stateful = sys.modules.get("hypothesis.stateful")
    return stateful is not None and issubclass(machine, stateful.RuleBasedStateMachine)


def state_map(machine: type, asked: Asked) -> StateMap:
    """What counts as a state: a function that was handed over, or the machine's own method."""
    if asked.states is not None:
        return asked.states
    method = getattr(machine, STATE_METHOD, None)
    if not callable(method):
        raise BadInput(
            f"{machine.__name__} does not say what counts as a state; give it a method "
            f"{STATE_METHOD}(self) that returns the few things that matter, such as "
            "(self.status, self.failures > 0)"
        )
    states: StateMap = method
    return states


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
    asked = Asked(steps=steps, states=states)
    return World(machine_of(machine, asked), steps)
