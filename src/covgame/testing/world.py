"""A machine as an environment: rules are its actions, and a sequence is an episode."""

from __future__ import annotations

from typing import Any

from covgame.errors import EnvironmentFailed, PremiseBroken
from covgame.imports import said
from covgame.rng import episode_seed
from covgame.sources.states import as_hashable
from covgame.testing.machines import Found, GaveUp, Machine, OpenSequence, Place, place_of

Shown = tuple[Any, float, bool, bool, dict[str, Any]]

TRIES = 100
"""How often a sequence is set up before nobody believes any more that it can be."""

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
                self._let_go()
                continue
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                self._note(error)
                self._let_go()
                raise
            return self._first(sequence)
        raise PremiseBroken(f"{self.machine.name} was not set up in {TRIES} attempts: {GIVEN_UP}")

    def _first(self, sequence: OpenSequence) -> tuple[Any, dict[str, Any]]:
        state, mask = self._look(sequence)
        if mask is None:
            raise PremiseBroken(f"no rule of {self.machine.name} is allowed at the beginning")
        return state, {"action_mask": mask}

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
            self._let_go()
            raise
        if mask is None:
            return state, 0.0, True, False, {}
        return state, 0.0, False, False, {"action_mask": mask}

    def close(self) -> None:
        """Tear down what is open."""
        if self._open is not None:
            sequence, self._open = self._open, None
            sequence.close()

    def _let_go(self) -> None:
        """Tear down after a failure; what goes wrong now is because of it."""
        try:
            self.close()
        except KeyboardInterrupt:
            raise
        except BaseException:  # noqa: S110
            pass

    def _look(self, sequence: OpenSequence) -> tuple[Any, list[bool] | None]:
        """The state, and which rules are allowed in it; None for none."""
        state, allowed = self._state(sequence), sequence.allowed()
        self.ever_allowed = [
            one or now for one, now in zip(self.ever_allowed, allowed, strict=True)
        ]
        return state, allowed if any(allowed) else None

    def _state(self, sequence: OpenSequence) -> Any:
        """The state; whether it can be told apart from others is seen to at once."""
        try:
            state = sequence.state()
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PremiseBroken(
                f"what counts as a state of {self.machine.name} could not be told: {said(error)}"
            ) from error
        try:
            if not self._is_known(state):
                self._known.add(as_hashable(state))
        except (EnvironmentFailed, TypeError):
            raise PremiseBroken(
                f"what counts as a state of {self.machine.name} is a {type(state).__name__} here, "
                "by which states cannot be told apart; return numbers, words, or tuples of them"
            ) from None
        return state

    def _is_known(self, state: Any) -> bool:
        """Whether it was looked at before, as far as that is to be seen quickly."""
        try:
            return state in self._known
        except TypeError:
            return False

    def _note(self, error: BaseException) -> None:
        """Keep what fails, if nothing shorter fails at the same place."""
        evidence = self._open.evidence if self._open is not None else None
        found, place = Found(tuple(self._path), self._seed, error, evidence), place_of(error)
        known = self.found.get(place)
        if known is None or len(found.rules) < len(known.rules):
            self.found[place] = found
