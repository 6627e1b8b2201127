"""All internals of Hypothesis that are used.

Hypothesis has no public way to run a state machine whose rules are chosen from outside. What is
needed for it, and since when Hypothesis has it as it is used here (6.138, August 2025):

- ``ConjectureData(random=..., prefix=...)`` makes the choices of one run, and lists them;
- ``BuildContext`` is what strategies and ``assume`` look for while they draw;
- ``machine._rules_strategy`` draws the next rule, and may be replaced;
- ``_initialize_rules_to_run``, ``_add_results_to_targets`` and ``names_to_values`` of a machine;
- the loop of ``hypothesis.stateful.get_state_machine_test``: a yes-or-no choice before every rule;
- ``choices_to_bytes``, and that a database's key for what is not minimal ends in ``.secondary``;
- how a test is skipped that has nothing to run.

``tests/test_hypothesis_inside.py`` checks each of these by itself, in every version that is
supported, and says which one has changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, cast
from unittest import SkipTest

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.control import BuildContext
from hypothesis.database import ExampleDatabase, InMemoryExampleDatabase, choices_to_bytes
from hypothesis.errors import StopTest, Unsatisfiable, UnsatisfiedAssumption
from hypothesis.internal.conjecture.data import ConjectureData
from hypothesis.internal.conjecture.engine import BUFFER_SIZE
from hypothesis.stateful import (
    MultipleResults,
    RuleBasedStateMachine,
    StateMachineMeta,
    VarReference,
    run_state_machine_as_test,
)
from hypothesis.strategies import SearchStrategy, fixed_dictionaries, just, one_of, tuples

Choices = tuple[Any, ...]

GIVES_UP = (StopTest, UnsatisfiedAssumption)
"""Raised where a test case is not wanted: ``assume`` was false, or a filter found nothing."""

LONGEST = 0.8 * BUFFER_SIZE
"""Hypothesis ends a run of a machine when its choices take more than this."""

STOP = 2**-16
"""How likely Hypothesis stops before a rule, so that its shrinker can make a run shorter."""


NOTHING_KEPT = "Hypothesis has been told to run no "
"""How the sentence begins with which a test without anything to run is skipped."""


class ChosenRule(SearchStrategy[Any]):
    """Draws a rule of a machine and its arguments: the rule that was chosen, or any."""

    def __init__(self, machine: RuleBasedStateMachine, rules: Sequence[Any]) -> None:
        super().__init__()
        self.machine, self.rules = machine, rules
        self.chosen: int | None = None

    def do_draw(self, data: ConjectureData) -> tuple[Any, dict[str, Any]]:
        """The number of the rule is a choice like any other, so that a run can be replayed."""
        number = data.draw_integer(0, len(self.rules) - 1, forced=self.chosen)
        rule = self.rules[number]
        if not is_allowed(self.machine, rule):
            data.mark_invalid(f"{rule.function.__name__} is not allowed here")
        return rule, {name: data.draw(one) for name, one in rule.arguments_strategies.items()}


def rules_of(machine: type[RuleBasedStateMachine]) -> list[Any]:
    """The rules of a class, by name."""
    return sorted(machine.setup_state().rules, key=lambda rule: str(rule.function.__name__))


def is_allowed(machine: RuleBasedStateMachine, rule: Any) -> bool:
    """Whether its preconditions hold and its bundles hold something."""
    return all(machine.bundle(one.name) for one in rule.bundles) and all(
        holds(machine) for holds in rule.preconditions
    )


def with_chosen_rules(machine: type[RuleBasedStateMachine]) -> type[RuleBasedStateMachine]:
    """The same machine, whose rules are drawn by ``ChosenRule``; it prints under the same name."""
    rules = rules_of(machine)

    def __init__(self: Any) -> None:  # noqa: N807
        machine.__init__(self)
        self._rules_strategy = ChosenRule(self, rules)

    about = {"__module__": machine.__module__, "__qualname__": machine.__qualname__}
    made: Any = StateMachineMeta(
        machine.__name__, (machine,), {**about, "__doc__": machine.__doc__, "__init__": __init__}
    )
    return cast("type[RuleBasedStateMachine]", made)


class OpenRun:
    """One run of a machine, rule by rule: what Hypothesis does in its own loop.

    ``machine`` is a class made by ``with_chosen_rules``. The ``first`` choices are those of an
    earlier run, which then is repeated as far as they go.
    """

    def __init__(
        self, machine: type[RuleBasedStateMachine], seed: int, first: Choices | None = None
    ) -> None:
        self.data = ConjectureData(random=Random(seed), prefix=first)
        self.context = BuildContext(self.data, wrapped_test=run_state_machine_as_test)
        self.make, self.machine = machine, None  # type: type[RuleBasedStateMachine], Any

    @property
    def choices(self) -> Choices:
        """All choices so far: with them Hypothesis does the same."""
        return tuple(self.data.choices)

    @property
    def is_too_long(self) -> bool:
        """Whether Hypothesis would stop here."""
        return bool(self.data.length > LONGEST)

    def start(self) -> None:
        """Make the machine, and run the rules that come first, in any order."""
        with self.context:
            self.machine = self.make()
            self.data.hypothesis_runner = self.machine
            self.machine._observability_predicates = self.data._observability_predicates
            self._check_invariants()
        while self.machine._initialize_rules_to_run:
            to_run = self.machine._initialize_rules_to_run
            drawn = [tuples(just(rule), fixed_dictionaries(rule.arguments)) for rule in to_run]
            self._run(one_of(drawn), to_run)

    def run(self, rule: int) -> None:
        """Run a rule, by its number."""
        self.machine._rules_strategy.chosen = rule
        self._run(self.machine._rules_strategy)

    def _run(self, strategy: Any, to_run: list[Any] | None = None) -> None:
        with self.context:
            self.data.draw_boolean(p=STOP, forced=False)
            rule, arguments = self.data.draw(strategy)
            if to_run is not None:
                to_run.remove(rule)
            values = {name: self._value(one) for name, one in arguments.items()}
            result = rule.function(self.machine, **values)
            if rule.targets:
                made = result.values if isinstance(result, MultipleResults) else [result]
                self.machine._add_results_to_targets(rule.targets, made)
            self._check_invariants()

    def _value(self, drawn: Any) -> Any:
        if isinstance(drawn, VarReference):
            return self.machine.names_to_values[drawn.name]
        if isinstance(drawn, list) and all(isinstance(one, VarReference) for one in drawn):
            return [self.machine.names_to_values[one.name] for one in drawn]
        return drawn

    def _check_invariants(self) -> None:
        for one in self.machine.invariants:
            early = self.machine._initialize_rules_to_run and not one.check_during_init
            if not early and all(holds(self.machine) for holds in one.preconditions):
                one.function(self.machine)

    def close(self) -> None:
        """Hypothesis tears down whatever happened."""
        if self.machine is not None:
            with self.context:
                self.machine.teardown()


class HandedBack(ExampleDatabase):
    """A database that knows some failing runs beside those that Hypothesis has kept itself.

    Its keys are its own: the choices of a machine with chosen rules mean nothing to the same
    machine without. What Hypothesis shrinks is kept there, and is tried first the next time.
    """

    def __init__(self, kept: ExampleDatabase | None, runs: Iterable[Choices] = ()) -> None:
        super().__init__()
        self.kept = InMemoryExampleDatabase() if kept is None else kept
        self.runs = [choices_to_bytes(choices) for choices in runs]

    def fetch(self, key: bytes) -> Iterable[bytes]:
        """What is known to fail; what is handed over is not minimal, which is what the key says."""
        yield from self.kept.fetch(_own(key))
        if key.endswith(b".secondary"):
            yield from self.runs

    def save(self, key: bytes, value: bytes) -> None:
        """Keep a failing run."""
        self.kept.save(_own(key), value)

    def delete(self, key: bytes, value: bytes) -> None:
        """Forget one that does not fail any more."""
        with contextlib.suppress(ValueError):
            self.runs.remove(value)
        self.kept.delete(_own(key), value)


def _own(key: bytes) -> bytes:
    return key + b".covgame"


def replay(
    machine: type[RuleBasedStateMachine],
    runs: Sequence[Choices],
    steps: int,
    settings: hypothesis.settings,
    seed: int,
) -> None:
    """Have Hypothesis run the failing ``runs``, shrink them and raise as it does.

    Runs that it has kept from last time are tried as well. Returns if nothing fails any more.
    """
    __tracebackhide__ = True
    phases = {Phase.reuse, Phase.shrink, Phase.explain} & {*settings.phases, Phase.reuse}
    again = hypothesis.settings(
        settings,
        phases=tuple(phases),
        database=HandedBack(settings.database, runs),
        derandomize=False,
        max_examples=max(settings.max_examples, 2 * len(runs)),
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
    )
    try:  # what does not fail any more goes on with any rules, which may all be rejected
        run_state_machine_as_test(hypothesis.seed(seed)(machine), settings=again)
    except Unsatisfiable:
        return
    except SkipTest as skipped:
        if not str(skipped).startswith(NOTHING_KEPT):
            raise
