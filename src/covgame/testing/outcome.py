"""What a test has seen, as plain data: pages are made of it, and processes send it on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from covgame.imports import said
from covgame.mdp.transitions import Transitions
from covgame.planning import number
from covgame.runs.coverage import Coverage
from covgame.targets.moves import Moves
from covgame.testing.machines import Found
from covgame.testing.options import TestOptions
from covgame.testing.world import World
from covgame.types import END, FloatArray, IntArray

MOST_PRICES = 2_000
"""Of so many pairs of state and rule it is worked out what one more visit costs."""

MOST_ENTRIES = 2_000_000
"""Numbers in memory at once, at most."""

SHOWN = 5

ADDRESS = re.compile(r" at 0x[0-9a-f]+")
"""In the representation of an object; another one in each run."""


@dataclass(frozen=True)
class Seen:
    """A transition: a state, a rule that was run there, the state after it (None: it ended)."""

    state: str
    rule: str
    led_to: str | None
    times: int
    price: float | None = None  # sequences for one more visit, about; None: unknown

    def __str__(self) -> str:
        return f"{self.state} / {self.rule} -> {self.led_to or 'the end'}"


@dataclass(frozen=True)
class Failed:
    """A line of code at which sequences failed, and the rules that lead there."""

    where: str
    error: str
    times: int
    path: tuple[str, ...]


@dataclass(frozen=True)
class Outcome:
    """How a test went: what was reached how often, what never, what failed."""

    name: str
    visits: int  # wanted of each
    seed: int
    sequences: int
    steps: int
    covered: bool
    stopped: str  # covered, budget, time, failed
    states: tuple[tuple[str, int], ...]  # with their visits
    rules: tuple[tuple[str, int], ...]  # with how often they were run
    transitions: tuple[Seen, ...]  # rarest first
    untried: tuple[tuple[str, str], ...]  # allowed in a state, and never run there
    never_allowed: tuple[str, ...]  # rules
    failures: tuple[Failed, ...] = ()
    notes: tuple[str, ...] = ()  # what a person should know
    test: str = field(default="", compare=False)  # pytest's name for it

    @property
    def short(self) -> tuple[Seen, ...]:
        """The transitions that lack visits."""
        return tuple(one for one in self.transitions if one.times < self.visits)

    def line(self) -> str:
        """All of it in a line."""
        done = sum(one.times >= self.visits for one in self.transitions)
        many = f"all {done:,}" if self.covered else f"{done:,} of {len(self.transitions):,}"
        seen = f"{many} transitions {self.visits:,} {'time' if self.visits == 1 else 'times'}"
        cost = f"{number(self.sequences)} sequences, {number(self.steps)} steps, seed {self.seed}"
        never = f"; never allowed: {', '.join(self.never_allowed)}" if self.never_allowed else ""
        return f"{self.name}: {seen} ({cost}){never}"

    def lacking(self) -> list[str]:
        """What is missing, in words; the dearest first."""
        lines = [
            f"{one}: seen {one.times:,} times{_price(one.price)}"
            for one in sorted(self.short, key=lambda one: -(one.price or 0.0))
        ]
        lines += [f"{state} / {rule}: never run" for state, rule in self.untried]
        more = [f"and {len(lines) - SHOWN:,} more"] if len(lines) > SHOWN else []
        return lines[:SHOWN] + more

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "test": self.test}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Outcome:
        """From ``to_dict``, also when it was sent between processes."""
        return TypeAdapter(cls).validate_python(content)


def _price(price: float | None) -> str:
    if price is None or price < 1:
        return ""
    return f", one more takes about {number(float(f'{price:.2g}'))} sequences"


def outcome_of(
    run: Coverage, world: World, options: TestOptions, stopped: str, found: Sequence[Found]
) -> Outcome:
    """What a run has seen."""
    names, visits = run.names, run.counts.visits.sum(axis=0)
    states = range(run.n_states)
    tried = visits[: run.n_states] > 0
    allowed = np.ones_like(tried) if run.game.allowed is None else run.game.allowed[: run.n_states]
    untried = np.argwhere(allowed & ~tried & tried.any(axis=1, keepdims=True)).tolist()
    missing = stopped != "covered"
    return Outcome(
        name=world.machine.name,
        visits=options.visits,
        seed=options.seed,
        sequences=run.n_episodes,
        steps=int(visits.sum()),
        covered=not missing,
        stopped=stopped,
        states=tuple((names.state(s), int(visits[s].sum())) for s in states),
        rules=tuple(
            (name, int(visits[:, number].sum())) for number, name in enumerate(world.actions)
        ),
        transitions=tuple(sorted(_transitions(run), key=lambda one: one.times)),
        untried=tuple((names.state(s), names.action(a)) for s, a in untried),
        never_allowed=tuple(
            name for name, ever in zip(world.actions, world.ever_allowed, strict=True) if not ever
        ),
        failures=tuple(
            Failed(one.where, ADDRESS.sub("", said(one.error)), one.times, one.rules)
            for one in found
        ),
        notes=tuple(_notes(run)),
    )


def _transitions(run: Coverage) -> Iterator[Seen]:
    """Every transition that was seen, with what one more visit costs."""
    names, actions = run.names, run.counts.shape.actions
    moves, visits = Moves.of(run.counts), run.counts.visits.sum(axis=0).reshape(-1)
    rarest = np.unique(moves.pair[np.argsort(moves.times, kind="stable")[:MOST_PRICES]])
    model = run.model.transitions
    often = dict(zip(rarest.tolist(), most_visits(model, rarest).tolist(), strict=True))
    for pair, successor, times in zip(
        moves.pair.tolist(), moves.successor.tolist(), moves.times.tolist(), strict=True
    ):
        state, action = divmod(pair, actions)
        led_to = None if successor == END else names.state(successor)
        a_sequence = often.get(pair, 0.0) * times / max(int(visits[pair]), 1)
        price = 1 / a_sequence if a_sequence > 0 else None
        yield Seen(names.state(state), names.action(action), led_to, times, price)


def _notes(run: Coverage) -> Iterator[str]:
    named = [run.names.state(state) for state, _ in run.aliased]
    if named:
        shown = ", ".join(named[:SHOWN]) + (" and others" if len(named) > SHOWN else "")
        yield (
            f"what follows {shown} depends on how one got there, so that the state does not say "
            "all that matters: have covgame_state return more"
        )
    if run.source.discovers_states and run.warning:
        yield (
            "most steps lead to states never seen before, so that this will hardly end: have "
            "covgame_state return less"
        )


def most_visits(transitions: Transitions, pairs: IntArray) -> FloatArray:
    """For each pair (s*A + a): how often an episode visits it at most, in expectation.

    max_pi E[sum_h 1{(s_h, a_h) = pair}], by backward induction for many pairs side by side.
    """
    _, states, actions = transitions.shape.hsa
    width = max(1, MOST_ENTRIES // max(len(transitions.next_state), transitions.shape.pairs, 1))
    visits = np.zeros(len(pairs))
    for first in range(0, len(pairs), width):
        part = pairs[first : first + width]
        wanted = np.zeros((states * actions, len(part)))
        wanted[part, np.arange(len(part))] = 1.0
        values = np.zeros((states, len(part)))
        for kernel in reversed(transitions.stages):
            best = wanted + kernel.expect(values)
            values = best.reshape(states, actions, -1).max(axis=1)
        visits[first : first + width] = transitions.initial @ values
    return visits
