"""Datasets: runs, tables and Minari's, read a batch at a time and counted."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from covgame.data.draws import Draws, require_independent
from covgame.data.numbering import ActionNumbers, KnownStates, StateNumbers, numbered
from covgame.data.steps import COLUMNS, NO_SEED, Assembler, Chunk, Steps
from covgame.errors import BadInput
from covgame.failures import Failures
from covgame.game.counts import Counts
from covgame.jsonfile import check_content, is_file, is_folder
from covgame.memory import require_room
from covgame.names import Names, closest
from covgame.sources.environments import Environment
from covgame.sources.maps import AnyMap, MappedStates, state_map
from covgame.sources.source import Source
from covgame.sources.states import DiscoveredStates, States
from covgame.storage.folder import DATABASE, EPISODES, RunFolder
from covgame.types import Shape

MINARI = "minari:"
KINDS = (
    "a run of covgame, a Parquet, CSV or Feather file or a folder of them, or a Minari dataset "
    "(minari:ID, or its folder)"
)


class Reader(Protocol):
    """Reads files; each call of ``chunks`` starts from the beginning."""

    @property
    def raw(self) -> bool:
        """Whether states are observations as an environment shows them."""
        ...

    def chunks(self) -> Iterator[Chunk]:
        """All rows, a batch at a time."""
        ...


@dataclass(frozen=True)
class Origin:
    """Files, and their own metadata."""

    reader: Reader
    names: Names = field(default_factory=Names)
    horizon: int | None = None
    keys: KnownStates | None = None  # of a run that found its states
    states: int | None = None  # how many there are, where the files say so
    stream: str | None = None  # names the random numbers of a simulated run
    workers: int = 1  # that played the episodes of a run at once
    set_aside: int = 0  # attempts at episodes of a run that failed and do not count
    actions: int | None = None
    first_state: int = 0
    first_action: int = 0
    space: Any = None  # of observations, as state maps want it


@dataclass(frozen=True)
class Numbering:
    """The world that a dataset's states and actions belong to."""

    states: States | None = None  # None: whatever numbers the data have
    n_actions: int | None = None
    first_action: int = 0  # in raw data: what the environment calls its first action
    names: Names = field(default_factory=Names)
    truncation_ends: bool = True  # whether the environment itself may cut episodes short

    @classmethod
    def of(cls, environment: Environment) -> Numbering:
        """That of an environment."""
        return cls.of_source(environment.open(0), environment)

    @classmethod
    def of_source(cls, source: Source, environment: Environment) -> Numbering:
        """That of a source that is being played: what is new to it gets its next numbers."""
        # A table shows no cuts, and an environment with one is not played beyond its time limit.
        cuts = environment.model is None
        actions = source.actions
        first = actions.values[0] if isinstance(actions.values, range) else 0
        names = source.names if environment.model is None else environment.model.names
        return cls(source.states, len(actions), first, names, cuts)


class Dataset:
    """Episodes on disk. Opening it has read and checked all of them once."""

    def __init__(
        self, name: str, origin: Origin, numbering: Numbering, horizon: int | None = None
    ) -> None:
        self.name = name
        self._reader = origin.reader
        self._limit = origin.horizon if horizon is None else horizon
        self._truncation_ends = numbering.truncation_ends
        self._recorded_horizon = origin.horizon
        self.workers, self.set_aside = origin.workers, origin.set_aside
        self._states = _state_numbers(origin, numbering)
        self._actions = _action_numbers(origin, numbering)
        self._origin_names, self._world_names = origin.names, numbering.names
        self.n_episodes = self.n_steps = self.left_out = 0
        self.longest = 0
        self.has_rewards = False
        self.reward_range = (np.inf, -np.inf)
        self.highest_return = -np.inf
        self._survey(origin.stream)

    @property
    def horizon(self) -> int:
        """Steps of an episode at most: as given, or of the longest one."""
        return self.longest if self._limit is None else self._limit

    @property
    def n_states(self) -> int:
        """How many states there are: as the world or the files say, or as many as appear."""
        return self._states.size

    @property
    def n_actions(self) -> int:
        """How many actions there are."""
        return self._actions.size

    @property
    def knows_states(self) -> bool:
        """Whether it is known how many states there are, seen or not."""
        return self._states.limit is not None and self._states.keys is None

    def is_cut_before(self, horizon: int) -> bool:
        """Whether the environment truncated an episode before this many steps."""
        return self._shortest_cut < horizon

    def has_ends(self, horizon: int) -> bool:
        """Whether every episode that stops before this many steps says how it went on."""
        return self._shortest_unsaid >= horizon

    def require_ends(self, horizon: int) -> None:
        """Refuse data that do not say how an episode went on that stops before the last stage.

        What is left when the outcome of some steps is missing depends on these outcomes, so that
        no certificate follows from it.
        """
        if not self.has_ends(horizon):
            steps = self._shortest_unsaid
            raise BadInput(
                f"{self.name} has an episode of {steps} of {horizon} steps that does not say how "
                "it ended, and a certificate needs that: add the columns terminated and "
                "truncated (or done), and next_state where an episode was not over; or use "
                f"--horizon {steps}"
            )
        if self._truncation_ends and self._longest_timed == self.longest < horizon:
            raise BadInput(
                f"the longest episodes of {self.name} stop after {self.longest} of {horizon} "
                "steps, which may be a time limit of the collector and not the environment's; a "
                f"certificate needs to know how they went on: use --horizon {self.longest}"
            )

    @property
    def shape(self) -> Shape:
        """Stages, states and actions."""
        return Shape(self.horizon, self.n_states, self.n_actions)

    @property
    def names(self) -> Names:
        """What states and actions are called."""
        own, world = self._origin_names, self._world_names
        states = self._states.labels or world.states or own.states
        known = world if world.grid else own
        return Names(states, self._actions.names, known.grid, known.places)

    def __repr__(self) -> str:
        return f"Dataset({self.name!r}, {self.n_episodes:,} episodes, {self.n_steps:,} steps)"

    def batches(self) -> Iterator[Steps]:
        """All steps in order, at most about 500,000 at a time, whole episodes each time."""
        return self._assembled(self._assembler())

    def counts(
        self, shape: Shape, *, pooled: bool, stage_free: bool = False, paid: bool = False
    ) -> Counts:
        """What a learner counts of these episodes; ``stage_free`` if it tells no stages apart.

        ``paid`` also adds up rewards by transition.

        A step that terminated the episode, or after which the environment truncated it before the
        last stage, counts as a transition to the end. Where the next state was not recorded, no
        transition is counted.
        """
        require_room(Shape(1, *shape.hsa[1:]) if stage_free else shape, 0, "counting")
        counts = Counts(shape, pooled=pooled, stage_free=stage_free, paid=paid)
        for steps in self.batches():
            counts.add_steps(vars(steps))
        return counts

    def _assembler(self) -> Assembler:
        return Assembler(self._limit, self._truncation_ends, self._recorded_horizon)

    def _assembled(self, assembler: Assembler) -> Iterator[Steps]:
        return assembler.episodes(
            numbered(chunk, self._states, self._actions) for chunk in self._reader.chunks()
        )

    def _survey(self, stream: str | None) -> None:
        """Read everything once: that checks it, and says how large it is."""
        assembler, seeds, digest = self._assembler(), [], hashlib.sha256()
        for steps in self._assembled(assembler):
            self.n_steps += len(steps)
            self.longest = max(self.longest, int(steps.stage.max()) + 1)
            low, high = self.reward_range
            self.reward_range = (
                min(low, float(steps.reward.min())),
                max(high, float(steps.reward.max())),
            )
            begins = np.flatnonzero(steps.stage == 0)
            paid = np.add.reduceat(steps.reward, begins)
            self.highest_return = max(self.highest_return, float(paid.max()))
            seeds.append(steps.seed[begins])
            digest.update(steps.tobytes())
        if not self.n_steps:
            raise BadInput(f"{self.name} holds no steps")
        self.n_episodes, self.left_out = assembler.n_episodes, assembler.left_out
        self.has_rewards = assembler.has_rewards
        self._shortest_cut = assembler.shortest_cut
        self._shortest_unsaid = assembler.shortest_unsaid
        self._longest_timed = assembler.longest_timed
        known = np.unique(np.concatenate(seeds))
        if 2 * len(known) <= self.n_episodes:  # one seed for many episodes: not what reset them
            known = known[:0]
        self.draws = Draws(self.name, known[known != NO_SEED], stream, digest.hexdigest())


def _state_numbers(origin: Origin, world: Numbering) -> StateNumbers:
    return StateNumbers(
        world.states,
        origin.keys,
        raw=origin.reader.raw,
        names=world.names if world.names.states else origin.names,
        first=origin.first_state if world.states is None else 0,
        limit=origin.states if world.states is None else None,
    )


def _action_numbers(origin: Origin, world: Numbering) -> ActionNumbers:
    first = world.first_action if origin.reader.raw else 0
    if world.n_actions is None:
        first = origin.first_action
    limit = origin.actions if world.n_actions is None else world.n_actions
    return ActionNumbers(world.names.actions or origin.names.actions, first, limit)


# ----------------------------------------------------------------------------- opening


def open_data(
    path: str | Path,
    *,
    environment: Environment | None = None,
    horizon: int | None = None,
    states: AnyMap | None = None,
    columns: Mapping[str, str] | None = None,
    numbering: Numbering | None = None,
) -> Dataset:
    """Open a dataset, which reads and checks it once.

    Args:
        path: A run, a Parquet, CSV or Feather file or a folder of them, ``minari:ID``, or the
            folder of a Minari dataset.
        environment: The world that the data are from; its numbers of states and actions are used.
        horizon: Steps of an episode that count. Left out, those of the run, or of the longest.
        states: What counts as a state, where the data hold observations and there is no
            environment that says so.
        columns: Our names of columns -> the table's; ``x+y`` for a state made of two columns.
        numbering: Instead of an environment, ``Numbering.of_source`` of one that is played: states
            that it has not seen get its next numbers.

    Returns:
        The dataset.

    Raises:
        BadInput: The data are not what they should be; the sentence names file, row and column.
    """
    return open_all(
        [path],
        environment=environment,
        horizon=horizon,
        states=states,
        columns=columns,
        numbering=numbering,
    )[0]


def horizon_of_runs(paths: Sequence[str | Path]) -> int | None:
    """The stages that all data have, where all of them are of runs and agree."""
    stages = set()
    for path in paths:
        folder = RunFolder.around(path)
        if folder is None:
            return None
        stages.add(folder.config.get("horizon"))
    return stages.pop() if len(stages) == 1 else None


def check_different(paths: Sequence[str | Path]) -> None:
    """Refuse data that are named twice, by any path: their visits would count twice."""
    places = set()
    for path in map(str, paths):
        place = place_of(path)
        if place in places:
            raise BadInput(f"{path} is named twice, and its visits would count twice")
        places.add(place)


def require_evidence(found: Sequence[Dataset], horizon: int, *, rewards: bool = False) -> None:
    """Refuse data that a certificate must not rest on (docs/certified.md, section 7)."""
    for one in found:
        if one.workers > 1:
            raise BadInput(
                f"{one.name} was played by {one.workers} workers, and lacks episodes that were "
                "still under way when it ended; a certificate needs all of them"
            )
        one.require_ends(horizon)
        if rewards and not one.has_rewards:
            raise BadInput(
                f"{one.name} has no column reward, which a certificate of identify needs; name it "
                "with --columns reward=NAME, or leave these data out"
            )
    require_independent([one.draws for one in found])


def place_of(data: str | Path) -> Path:
    """The real path of data, the same for all names of it."""
    name = str(data)
    if not name.startswith(MINARI):
        place = Path(os.path.realpath(name))
        is_part = place.name == EPISODES and is_file(str(place.parent / DATABASE))
        return place.parent if is_part else place
    from covgame.data.minari import datasets_root

    return Path(os.path.realpath(datasets_root() / name.removeprefix(MINARI)))


def open_all(
    paths: Sequence[str | Path],
    *,
    environment: Environment | None = None,
    horizon: int | None = None,
    states: AnyMap | None = None,
    columns: Mapping[str, str] | None = None,
    numbering: Numbering | None = None,
) -> list[Dataset]:
    """Several datasets whose states have the same numbers."""
    if not paths:
        raise BadInput(f"name the data: {KINDS}")
    check_different(paths)
    if horizon is not None and horizon < 1:
        raise BadInput(f"the horizon must be at least 1, not {horizon}")
    for ours in columns or {}:
        if ours not in COLUMNS:
            raise BadInput(f"{ours!r} is no column of ours; {closest(ours, COLUMNS)}")
    origins = [_origin(str(path), columns or {}) for path in paths]
    if numbering is None:
        numbering = _numbering(origins, environment, states)
    elif states is not None:
        raise BadInput("these states have numbers already; leave out --states")
    if environment is not None and horizon is None:
        horizon = environment.horizon
    found = [
        Dataset(str(path), origin, numbering, horizon)
        for path, origin in zip(paths, origins, strict=True)
    ]
    _check_alike(found)
    return found


def _check_alike(found: Sequence[Dataset]) -> None:
    """Numbers of states and actions must not mean one thing here and another there."""
    kinds = {one._states.states is None for one in found}
    if len(kinds) > 1:
        raise BadInput(
            "the states of some of these data are numbers and of others observations; say --env, "
            "which knows both"
        )
    for what, sizes in (
        ("states", [(one, one.n_states, one.knows_states) for one in found]),
        ("actions", [(one, one.n_actions, one._actions.limit is not None) for one in found]),
    ):
        for known, size, _ in (entry for entry in sizes if entry[2]):
            for other, shown, is_limit in sizes:
                if shown > size or (is_limit and shown != size):
                    raise BadInput(
                        f"{known.name} has {size:,} {what} and {other.name} has {shown:,}; these "
                        "are not data of one environment, or number its "
                        f"{what} differently: name it with --env"
                    )


def _numbering(
    origins: Sequence[Origin], environment: Environment | None, states: AnyMap | None
) -> Numbering:
    if environment is not None:
        if states is not None:
            raise BadInput("the environment has its states already; say --states where it is made")
        return Numbering.of(environment)
    if states is not None:
        space = next((one.space for one in origins if one.space is not None), None)
        return Numbering(MappedStates(state_map(states, space), None))
    if len(origins) > 1 and any(one.keys is not None for one in origins):
        return Numbering(DiscoveredStates())
    return Numbering()


def _origin(name: str, columns: Mapping[str, str]) -> Origin:
    """Open a file or folder with the matching reader."""
    try:
        return _reader_of(name, columns)
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror or error}") from error


def _reader_of(name: str, columns: Mapping[str, str]) -> Origin:
    """Heavy libraries are imported when a reader needs them."""
    if name.startswith(MINARI):
        from covgame.data.minari import minari_by_id

        return minari_by_id(name.removeprefix(MINARI))
    path = Path(name)
    if is_folder(name):
        return _of_folder(path, columns)
    if is_file(name):
        from covgame.data.tables import TableReader

        return Origin(TableReader([path], columns))
    from covgame.data.minari import find_minari

    found = find_minari(name)
    if found is None:
        raise BadInput(f"there is no {name}; DATA is {KINDS}")
    return found


def _states_of(folder: RunFolder, names: Names) -> int | None:
    """How many states the world of a run has, where it was known to the run."""
    if names.states is not None:
        return len(names.states)
    if names.grid is not None:
        return names.grid[0] * names.grid[1]
    size = folder.load_size()
    return None if size is None else size.states


def _about_run(folder: RunFolder, path: Path) -> dict[str, Any]:
    """How a run was played, or the data that it started from, as far as certificates need it."""
    about = folder.config
    if (path / DATABASE).is_file():
        set_aside = Failures(folder.load_failures()).set_aside
    else:
        try:
            listed = about["given"][int(path.name)]
        except (KeyError, ValueError, LookupError, TypeError):
            return {}
        from covgame.storage.config import GivenFile

        about = check_content(GivenFile, listed, folder.database).model_dump()
        set_aside = about["set_aside"]
    workers = about.get("workers", 1)
    return {
        "stream": about.get("stream"),
        "workers": workers if isinstance(workers, int) else 1,
        "set_aside": set_aside,
    }


def _of_folder(path: Path, columns: Mapping[str, str]) -> Origin:
    from covgame.data.tables import RunReader, TableReader, files_in

    folder = RunFolder.around(path)
    if folder is not None:
        reader = RunReader.of(folder, path)
        names, keys = folder.load_names(), folder.load_states()  # after the steps that mention them
        return Origin(
            reader,
            names,
            folder.horizon,
            keys,
            states=_states_of(folder, names) if keys is None else None,
            **_about_run(folder, path),
        )
    from covgame.data.minari import is_minari, minari_folder

    if is_minari(path):
        return minari_folder(path)
    files = files_in(path) or (files_in(path / "episodes") if (path / "episodes").is_dir() else [])
    if not files:
        raise BadInput(f"{path} holds no data; DATA is {KINDS}")
    return Origin(TableReader(files, columns))
