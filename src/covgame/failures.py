"""Episodes in which an environment failed: where, how, and what became of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from covgame.names import Names

OnFailure = Literal["stop", "record", "avoid"]
"""What to do when an environment fails.

``stop`` sets the episode aside, tries it again with another seed, and gives up after ``ATTEMPTS``.
``record`` takes the failure for the end of the episode, and goes on. ``avoid`` does so as well, and
does not take that action in that state again.
"""

ATTEMPTS = 3
"""How often an episode is begun before the run stops."""

NUMBER = re.compile(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)?")
"""What differs from one occurrence of an error to the next: sizes, times, addresses."""

Then = Literal["set aside", "recorded", "avoided"]


@dataclass(frozen=True)
class Failure:
    """An episode that an environment did not get through."""

    episode: int
    attempt: int  # from 0 on: how often it had failed before
    seed: int  # what the environment was reset with
    error: str
    path: tuple[tuple[int, int], ...]  # (state, action) by step; it failed at the last, or at reset
    then: Then = "set aside"  # or it counts as an episode that ended there
    died: bool = False  # whether it took a process with it
    placed: bool = True  # whether anybody knows where: nobody does when a whole worker is gone
    traceback: str = field(default="", compare=False)

    @property
    def state(self) -> int | None:
        """Where it failed; None at reset, and where nobody knows."""
        return self.path[-1][0] if self.path else None

    @property
    def action(self) -> int | None:
        """What it was asked to do there."""
        return self.path[-1][1] if self.path else None

    def to_dict(self) -> dict[str, Any]:
        """As a line of a file has it."""
        return {**asdict(self), "path": [list(step) for step in self.path]}

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Failure:
        """From such a line; anything else is a ``ValueError``."""
        try:
            path = tuple((_whole(state), _whole(action)) for state, action in content["path"])
            episode, attempt, seed = (
                _whole(content[name]) for name in ("episode", "attempt", "seed")
            )
            then, died, placed = content["then"], content["died"], content.get("placed", True)
            if then not in get_args(Then) or {type(died), type(placed)} != {bool}:
                raise ValueError("it does not say what became of the episode")
            texts = [str(content[name]) for name in ("error", "traceback")]
        except (KeyError, TypeError) as error:
            raise ValueError(str(error)) from error
        return cls(episode, attempt, seed, texts[0], path, then, died, placed, texts[1])

    def words(self, names: Names) -> str:
        """Where it failed, in the user's words: ``stage 3: row 1, column 2 / right``."""
        if not self.path:
            return "reset" if self.placed else "an unknown step"
        return names.describe((len(self.path) - 1, *self.path[-1]))

    def sentence(self, names: Names, *, last: bool = False) -> str:
        """A sentence about it; ``last`` if the episode is not tried again."""
        attempts = f" (attempt {ATTEMPTS} of {ATTEMPTS})" if last else ""
        where = f"episode {self.episode}, at {self.words(names)}"
        return f"the environment failed in {where}: {self.error}{attempts}"

    def way(self, names: Names) -> str:
        """The actions that led there, in the user's words."""
        return ", ".join(names.action(action) for _, action in self.path)


class Failures:
    """All failures of a run, in the order in which they came."""

    def __init__(
        self, known: Iterable[Failure] = (), attempts: Mapping[int, int] | None = None
    ) -> None:
        self.all = list(known)
        self._set_aside = Counter(one.episode for one in self.all if one.then == "set aside")
        self._set_aside.update(attempts or {})  # of which somebody else has noted how they went
        self._ended = {one.episode: one for one in self.all if one.then != "set aside"}
        self._now: tuple[int, int] = (-1, 0)  # an episode, and its failures in this process

    def __len__(self) -> int:
        return len(self.all)

    def __iter__(self) -> Iterator[Failure]:
        return iter(self.all)

    @property
    def last(self) -> Failure:
        """The latest; there has to be one."""
        return self.all[-1]

    def attempt(self, episode: int) -> int:
        """How often an episode was set aside already."""
        return self._set_aside[episode]

    def add(self, failure: Failure) -> None:
        """Hear of one more."""
        self.all.append(failure)
        if failure.then != "set aside":
            self._ended[failure.episode] = failure
        else:
            self._set_aside[failure.episode] += 1
            before = self._now[1] if self._now[0] == failure.episode else 0
            self._now = (failure.episode, before + 1)

    @property
    def set_aside(self) -> int:
        """How many attempts at episodes failed and do not count."""
        return sum(one.then == "set aside" for one in self.all)

    def is_given_up(self, episode: int) -> bool:
        """Whether an episode was begun often enough; a resumed run may try again."""
        return self._now[0] == episode and self._now[1] >= ATTEMPTS

    @property
    def any_death(self) -> bool:
        """Whether the environment has taken a process with it."""
        return any(one.died for one in self.all)

    def ended(self, episode: int) -> Failure | None:
        """The failure that a recorded episode ended with."""
        return self._ended.get(episode)

    def distinct(self) -> list[tuple[Failure, int]]:
        """Each kind of failure once, by its shortest path, with how often it came.

        A kind is a state, an action, and what the error says, whatever the numbers in it.
        """
        kinds = [
            (one.placed, one.state, one.action, NUMBER.sub("#", one.error)) for one in self.all
        ]
        times = Counter(kinds)
        shortest: dict[tuple[bool, int | None, int | None, str], Failure] = {}
        for one, kind in zip(self.all, kinds, strict=True):
            if kind not in shortest or len(one.path) < len(shortest[kind].path):
                shortest[kind] = one
        return [(one, times[kind]) for kind, one in shortest.items()]

    def to_list(self, names: Names) -> list[dict[str, Any]]:
        """The JSON answer: each kind of failure with where it came and the way there."""
        return [
            {
                "state": one.state,
                "action": one.action,
                "error": one.error,
                "episode": one.episode,
                "times": times,
                "where": one.words(names),
                "path": [list(step) for step in one.path],
                "way": [names.action(action) for _, action in one.path],
                "seed": one.seed,
                "then": one.then,
            }
            for one, times in self.distinct()
        ]


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is no whole number")
    return value
