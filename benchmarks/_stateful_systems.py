"""Three systems with bugs behind rare transitions, and one of each kind in argument values.

They are state machines of Hypothesis, written as its users write them. A seeded bug is a line that
would be wrong: ``self.seeded(name)`` stands where the wrong line would show, and notes it. So one
run tells when each bug would have been found, as if it were the only one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule


class Log:
    """What happened, step by step, whoever chose the rules."""

    def __init__(self) -> None:
        self.steps = 0
        self.seen: dict[tuple[Any, str, Any], list[int]] = {}  # the steps at which it came
        self.bugs: dict[str, int] = {}  # the step that shows it
        self.sequences = 0


class System(RuleBasedStateMachine):
    """A machine that is watched."""

    log = Log()
    state_bugs: tuple[str, ...] = ()
    value_bugs: tuple[str, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.log.sequences += 1

    def seeded(self, name: str) -> None:
        """The place where a bug shows."""
        self.log.bugs.setdefault(name, self.log.steps)

    def covgame_state(self) -> Any:
        raise NotImplementedError


def step(function: Callable[..., None]) -> Callable[..., None]:
    """A rule that is written down."""

    @wraps(function)
    def watched(self: Any, **arguments: Any) -> None:
        before = self.covgame_state()
        self.log.steps += 1
        function(self, **arguments)
        move = (before, function.__name__, self.covgame_state())
        self.log.seen.setdefault(move, []).append(self.log.steps)

    return watched


class CircuitBreaker(System):
    """Opens after 5 failures in a row, tries again after 30 s, closes after 3 successes."""

    state_bugs = ("successes of the trial before are not forgotten", "reopened for half the time")
    value_bugs = ("a call that takes exactly as long as it may", "the same request twice in a row")

    def __init__(self) -> None:
        super().__init__()
        self.mode, self.failures, self.successes, self.waited = "CLOSED", 0, 0, 0
        self.reopened, self.earlier, self.last = 0, 0, -1

    def covgame_state(self) -> Any:
        trial = (self.earlier > 0, min(self.reopened, 2))
        return self.mode, self.failures, self.successes, self.waited // 10, *trial

    @rule(request=st.integers(0, 2**32), took=st.integers(0, 60_000))
    @step
    def succeed(self, request: int, took: int) -> None:
        if took == 30_000:
            self.seeded("a call that takes exactly as long as it may")
        if request == self.last:
            self.seeded("the same request twice in a row")
        self.last = request
        if self.mode == "CLOSED":
            self.failures = 0
        elif self.mode == "HALF_OPEN":
            self.successes += 1
            if self.earlier and self.earlier + self.successes == 3:
                self.seeded("successes of the trial before are not forgotten")
            if self.successes == 3:
                self.mode, self.failures, self.reopened, self.earlier = "CLOSED", 0, 0, 0

    @rule()
    @step
    def fail(self) -> None:
        if self.mode == "CLOSED":
            self.failures += 1
            if self.failures == 5:
                self._open()
        elif self.mode == "HALF_OPEN":
            self.earlier, self.reopened = self.successes, self.reopened + 1
            self._open()

    def _open(self) -> None:
        self.mode, self.waited, self.successes, self.failures = "OPEN", 0, 0, 0

    @rule(seconds=st.integers(1, 10))
    @step
    def wait(self, seconds: int) -> None:
        if self.mode == "OPEN":
            self.waited += seconds
            if self.waited >= 30:
                self.mode, self.waited = "HALF_OPEN", 0
                if self.reopened >= 2:
                    self.seeded("reopened for half the time")

    @precondition(lambda self: self.mode != "CLOSED")
    @rule()
    @step
    def reset(self) -> None:
        self.mode, self.failures, self.successes, self.waited = "CLOSED", 0, 0, 0
        self.reopened, self.earlier = 0, 0


class Cache(System):
    """Holds 4 entries for 20 s each; the one that was not used for longest makes room."""

    state_bugs = ("full of expired entries", "hits after a flush of a full cache")
    value_bugs = ("a key that was there before",)

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[int, int] = {}  # seconds left, the least recently used first
        self.pinned = False
        self.flushed_full = False
        self.evicted: set[int] = set()

    def covgame_state(self) -> Any:
        expired = sum(left <= 0 for left in self.entries.values())
        freshest = max([0, *self.entries.values()])
        return len(self.entries), expired, -(-freshest // 8), self.pinned, self.flushed_full

    @rule(key=st.integers(0, 2**16))
    @step
    def put(self, key: int) -> None:
        if key in self.evicted:
            self.seeded("a key that was there before")
        if key not in self.entries and len(self.entries) == 4:
            if all(left <= 0 for left in self.entries.values()):
                self.seeded("full of expired entries")
            oldest = next(iter(self.entries))
            del self.entries[oldest]
            self.evicted.add(oldest)
        self.entries.pop(key, None)
        self.entries[key] = 20

    @precondition(lambda self: bool(self.entries))
    @rule(place=st.integers(0, 3))
    @step
    def use(self, place: int) -> None:
        keys = list(self.entries)
        key = keys[place % len(keys)]
        left = self.entries.pop(key)
        if left > 0:
            self.entries[key] = 20
            if self.flushed_full and len(self.entries) == 3:
                self.seeded("hits after a flush of a full cache")

    @rule(seconds=st.integers(1, 8))
    @step
    def pass_time(self, seconds: int) -> None:
        if not self.pinned:
            self.entries = {key: left - seconds for key, left in self.entries.items()}

    @precondition(lambda self: len(self.entries) >= 2)
    @rule()
    @step
    def toggle_pin(self) -> None:
        self.pinned = not self.pinned

    @precondition(lambda self: bool(self.entries))
    @rule()
    @step
    def flush(self) -> None:
        self.flushed_full = self.pinned and len(self.entries) == 4
        self.entries, self.pinned = {}, False


class Protocol(System):
    """A handshake, numbered data that are sent again when nobody answers, and a goodbye."""

    state_bugs = ("answer to the fourth attempt", "data on the way at the goodbye")
    value_bugs = ("two messages of the same length in a row",)

    def __init__(self) -> None:
        super().__init__()
        self.mode, self.attempts, self.number, self.length = "IDLE", 0, 0, -1
        self.on_the_way: tuple[str, ...] = ()

    def covgame_state(self) -> Any:
        return self.mode, self.attempts, self.number, self.on_the_way

    @precondition(lambda self: self.mode == "IDLE")
    @rule()
    @step
    def connect(self) -> None:
        self.mode, self.on_the_way = "SYN SENT", ("syn",)

    @precondition(lambda self: bool(self.on_the_way))
    @rule()
    @step
    def deliver(self) -> None:
        first, *rest = self.on_the_way
        self.on_the_way = tuple(rest)
        if first == "syn" and self.mode == "SYN SENT":
            self.on_the_way += ("syn-ack",)
        elif first == "syn-ack" and self.mode == "SYN SENT":
            self.mode, self.attempts = "OPEN", 0
        elif first == "data" and self.mode in ("WAITING", "CLOSING"):
            self.on_the_way += ("ack",)
        elif first == "ack" and self.mode == "WAITING":
            if self.attempts == 3:
                self.seeded("answer to the fourth attempt")
            self.mode, self.attempts, self.number = "OPEN", 0, (self.number + 1) % 3
        elif first == "fin" and self.mode == "CLOSING":
            self.mode, self.number, self.attempts = "IDLE", 0, 0
            if "ack" in self.on_the_way:
                self.seeded("data on the way at the goodbye")
            self.on_the_way = ()

    @precondition(lambda self: bool(self.on_the_way))
    @rule()
    @step
    def lose(self) -> None:
        self.on_the_way = self.on_the_way[1:]

    @precondition(lambda self: self.mode == "OPEN")
    @rule(length=st.integers(0, 2**16))
    @step
    def send(self, length: int) -> None:
        if length == self.length:
            self.seeded("two messages of the same length in a row")
        self.mode, self.length = "WAITING", length
        self._send("data")

    @precondition(lambda self: self.mode in ("SYN SENT", "WAITING", "CLOSING"))
    @rule()
    @step
    def time_out(self) -> None:
        if self.attempts == 3:
            self.mode, self.attempts, self.number, self.on_the_way = "IDLE", 0, 0, ()
            return
        self.attempts += 1
        again = {"SYN SENT": "syn", "WAITING": "data", "CLOSING": "fin"}[self.mode]
        self._send(again)

    @precondition(lambda self: self.mode in ("OPEN", "WAITING"))
    @rule()
    @step
    def close(self) -> None:
        self.mode, self.attempts = "CLOSING", 0
        self._send("fin")

    def _send(self, what: str) -> None:
        self.on_the_way = (*self.on_the_way, what)[-2:]


SYSTEMS: tuple[type[System], ...] = (CircuitBreaker, Cache, Protocol)
