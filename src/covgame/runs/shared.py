"""What runs of all commands share: sources of episodes, sizes of blocks, checks of numbers."""

from __future__ import annotations

import math
import platform
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from covgame.errors import BadInput, EnvironmentFailed
from covgame.sources.environments import Environment, make
from covgame.sources.external import StepSource
from covgame.sources.simulated import SimulatedSource
from covgame.sources.states import DiscoveredStates
from covgame.store.folder import RunFolder
from covgame.store.state import Arrays
from covgame.types import Shape

if TYPE_CHECKING:
    from covgame.store.episodes import RecordedEpisodes

Source = SimulatedSource | StepSource

STEPS_PER_BLOCK = 200_000
SECONDS_PER_BLOCK = 0.1
FIRST_BLOCK = 16


class Stoppable(Protocol):
    """A run, as far as its end is concerned."""

    stopped: Any
    failure: str | None


def to_the_end(
    run: Stoppable, playing: Iterable[Any], progress: Callable[[Any], None] | None
) -> None:
    """Play a run out; an interruption and a failing environment are raised when all is saved."""
    for _ in playing:
        if progress:
            progress(run)
    if run.stopped == "interrupted":
        raise KeyboardInterrupt
    if run.failure:
        raise EnvironmentFailed(run.failure)


class Resumable(Protocol):
    """A run, as far as taking it up again is concerned."""

    notice: str | None

    @property
    def source(self) -> Source:
        """Where its episodes come from."""
        ...

    @property
    def n_episodes(self) -> int:
        """How many it has."""
        ...


AnyResumable = TypeVar("AnyResumable", bound=Resumable)


def take_up(
    folder: RunFolder,
    begin: Callable[[], AnyResumable],
    restore: Callable[[AnyResumable, Arrays], None],
    recount: Callable[[AnyResumable, StepSource, RecordedEpisodes], None],
) -> AnyResumable:
    """A run where its folder leaves it.

    Simulated episodes that were not counted are played again. Those of other environments are all
    there is of them: if the counts are not those of the recorded episodes, these are counted anew.
    """
    run = begin()
    source = run.source
    if isinstance(source, SimulatedSource):
        arrays = folder.load_counts()
        if arrays is not None:
            restore(run, arrays)
        return run
    from covgame.store.episodes import RecordedEpisodes, recorded_episodes

    recorded = recorded_episodes(folder.episodes)
    if _restored(run, folder, restore) and run.n_episodes == recorded:
        return run
    run = begin()
    shape = Shape(source.horizon, source.states.size, source.shape.actions)
    recount(run, source, RecordedEpisodes(folder.episodes, shape))
    run.notice = (
        f"counts.npz was missing, damaged or not about the {recorded:,} episodes in {folder.path}, "
        "so they were counted again"
    )
    return run


def _restored(
    run: AnyResumable, folder: RunFolder, restore: Callable[[AnyResumable, Arrays], None]
) -> bool:
    """Whether what was saved of the counts is of any use."""
    try:
        arrays = folder.load_counts()
        if arrays is not None:
            restore(run, arrays)
    except BadInput:
        return False
    return True


def warn_of(run: Resumable) -> None:
    """Say in Python what the command line says on standard error."""
    if run.notice:
        warnings.warn(run.notice, stacklevel=4)


def check_common(seed: int, delta: float, max_episodes: int | None) -> None:
    """What every command asks of its numbers."""
    if not is_whole(seed) or not 0 <= seed < 2**63:
        raise BadInput(f"a seed is a whole number from 0 to 2^63 - 1, not {seed!r}")
    if not (isinstance(delta, int | float) and 1e-100 <= delta < 1):
        raise BadInput(f"delta is a probability between 0 and 1 (from 1e-100 on), not {delta!r}")
    if max_episodes is not None and (not is_whole(max_episodes) or max_episodes < 0):
        raise BadInput(f"a budget is a whole number of episodes, not {max_episodes!r}")


def is_whole(value: object) -> bool:
    """Whether it is a whole number (and not a truth value)."""
    return hasattr(value, "__index__") and not isinstance(value, bool)


def open_source(environment: Environment, seed: int, keys: list[str] | None = None) -> Source:
    """Where the episodes come from."""
    if environment.opener is None:
        return SimulatedSource(environment.require_model("covering"), seed)
    stepper, states = environment.opener()
    if keys is not None and states.discovered:
        states = DiscoveredStates(keys)
    return StepSource(stepper, states, environment.horizon, seed)


def environment_of(folder: RunFolder) -> Environment:
    """The environment of a run, made again by name or from the model kept with the run."""
    asked = folder.manifest
    if asked["model"] is None:
        return make(asked["environment"], asked["horizon"])
    again = make(folder.path / asked["model"])
    return Environment(asked["environment"], again.horizon, again.model, by_name=False)


def next_size(episodes: int, seconds: float) -> int:
    """Blocks of about a tenth of a second: long enough to be fast, short enough to watch."""
    wanted = episodes * SECONDS_PER_BLOCK / max(seconds, 1e-6)
    return max(1, math.floor(min(wanted, 2.0 * episodes)))


def versions() -> dict[str, str]:
    """What a run was made with."""
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("covgame", "numba", "numpy", "pyarrow")}
    return {"python": platform.python_version(), **libraries}
