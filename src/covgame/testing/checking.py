"""``check_transitions``: run a machine until every transition was seen often enough."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from covgame.config import CoverConfig
from covgame.runs.cover import start
from covgame.runs.coverage import Coverage
from covgame.runs.loop import play
from covgame.sources.environments import make
from covgame.targets.requests import uniform
from covgame.testing.machines import shortened
from covgame.testing.options import OnFailure, TestOptions, options_of
from covgame.testing.outcome import Outcome, outcome_of
from covgame.testing.world import World, machine_of

listeners: list[Callable[[Outcome], None]] = []
"""Who is told how tests went, whatever their verdict."""


class Session:
    """What holds for all tests of a session; pytest's plugin says it."""

    seed: int | None = None  # instead of those that decorators say


class NotCovered(AssertionError):
    """The budget is spent, and transitions lack visits."""


class CoverWarning(UserWarning):
    """Something that a tester should know, though nothing failed."""


def check_transitions(machine: Any, seed: int | None = None) -> Outcome:
    """Run a state machine until every transition was seen as often as its decorator asks.

    Args:
        machine: A class that ``@cover_transitions`` decorates; one that is not gets its defaults.
        seed: Another seed than the decorator's.

    Returns:
        What was seen: ``outcome.transitions``, ``outcome.rules``, ``outcome.states``.

    Raises:
        NotCovered: The budget is spent, and transitions lack visits.
        BadInput: It has no rules, or does not say what counts as a state.
        Exception: Whatever the machine raises, made short, with the rules that lead there.
    """
    __tracebackhide__ = True
    options, seed = options_of(machine), Session.seed if seed is None else seed
    if seed is not None:
        options = replace(options, seed=seed)
    runs = machine_of(machine, options)
    runs.try_known(options.seed)
    world = World(runs, options.steps)
    run, stopped = _play(world, options)
    found = list(world.found.values())[: 1 if options.on_failure == "stop" else None]
    found = [shortened(runs, one) for one in found]  # in the order in which they came up
    outcome = outcome_of(run, world, options, stopped, found)
    for tell in tuple(listeners):
        tell(outcome)
    if found:
        runs.hand_back(found, options.seed)
    if run.failure:
        raise run.failed_by(run.failure)
    for note in outcome.notes:
        warnings.warn(f"{outcome.name}: {note}", CoverWarning, stacklevel=2)
    if not outcome.covered:
        _say_short(outcome, options)
    return outcome


def _play(world: World, options: TestOptions) -> tuple[Coverage, str]:
    """Play a run out: the run, and why it stopped."""
    on_failure: OnFailure = "avoid" if options.on_failure == "avoid" else "record"
    settings = CoverConfig(seed=options.seed, max_episodes=options.budget, on_failure=on_failure)
    run = start(make(world), uniform(options.visits, "transition"), settings)
    until = None if options.seconds is None else time.monotonic() + options.seconds
    try:
        for _ in play(run):
            if world.found and options.on_failure == "stop":
                return run, "failed"
            if until is not None and time.monotonic() > until and not run.done:
                return run, "time"
    finally:
        world.close()
    if run.stopped == "interrupted":
        raise KeyboardInterrupt
    return run, run.stopped or "budget"


def _say_short(outcome: Outcome, options: TestOptions) -> None:
    __tracebackhide__ = True
    advice = f"{outcome.sequences:,} sequences are spent; raise the budget or ask for fewer visits"
    if outcome.stopped == "time":
        advice = f"{options.seconds:g} s are spent; allow more, or ask for fewer visits"
    message = "\n".join(
        [
            f'{outcome.line()}. {advice}, or say when_short="warn". Missing:',
            *(f"  {line}" for line in outcome.lacking()),
        ]
    )
    if options.when_short == "fail":
        raise NotCovered(message)
    warnings.warn(message, CoverWarning, stacklevel=3)
