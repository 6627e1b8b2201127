"""Data that a run starts from: counted before its first episode, and copied to its folder.

The copy has the columns and the state numbers of the run, so that the run can be resumed and
checked when the original is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covgame.data.draws import Draws
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.jsonfile import check_content
from covgame.storage.files import inside, make_folder, remove
from covgame.storage.folder import GIVEN, RunFolder
from covgame.types import IntArray, Shape

if TYPE_CHECKING:
    from covgame.data.dataset import Dataset
    from covgame.data.steps import Steps
    from covgame.sources.environments import Environment
    from covgame.sources.source import Source
    from covgame.storage.config import GivenFile

AnyData = str | Path | Sequence[str | Path]
"""A dataset, or several that add up."""


@dataclass(frozen=True)
class DataSource:
    """Where data to start from are, and what their columns are called."""

    paths: tuple[str | Path, ...]
    columns: Mapping[str, str] | None = None  # our names -> theirs

    @classmethod
    def of(
        cls, data: AnyData | None, columns: Mapping[str, str] | None = None
    ) -> DataSource | None:
        """As a user says it: one dataset, several, or none."""
        paths = (data,) if isinstance(data, str | Path) else tuple(data or ())
        if not paths and columns:
            raise BadInput("--columns is about the tables of --from, and there are none")
        return cls(paths, columns) if paths else None


@dataclass(frozen=True, eq=False)
class PriorData:
    """A dataset that a run starts from."""

    name: str
    steps: int
    counts: Counts  # stages apart, or as little as the run that starts from them
    left_out: int = 0  # steps of episodes that go on beyond the last stage
    rewards: tuple[float, float] = (0.0, 0.0)  # the least and the most that a step has paid
    highest_return: float = 0.0
    cut_short: bool = False  # whether the environment truncated an episode before the last stage
    workers: int = 1  # that played them at once
    set_aside: int = 0  # attempts at episodes that failed and do not count
    has_ends: bool = True  # whether all episodes say how they went on where they stop
    draws: Draws = field(default_factory=lambda: Draws("no data"))
    dataset: Dataset | None = None  # until its steps are in the run's folder

    @property
    def episodes(self) -> int:
        """How many there are."""
        return self.counts.n_episodes

    @property
    def visits(self) -> IntArray:
        """(H, S, A), or with stages added up, (1, S, A)."""
        return self.counts.visits

    def is_cut_before(self, horizon: int) -> bool:
        """Whether the environment truncated an episode before the last stage."""
        del horizon
        return self.cut_short

    def to_dict(self) -> dict[str, Any]:
        """As the answer of a run says it."""
        return {"data": self.name, "episodes": self.episodes, "steps": self.steps}

    def to_file(self) -> dict[str, Any]:
        """As the configuration of a run stores it."""
        return {
            **self.to_dict(),
            "left_out": self.left_out,
            "digest": self.draws.digest,
            "stream": self.draws.stream,
            "workers": self.workers,
            "set_aside": self.set_aside,
        }


def open_prior_data(
    data: DataSource | None, environment: Environment, source: Source
) -> list[Dataset]:
    """Datasets for a new run; states that are new to its source get numbers."""
    if data is None:
        return []
    from covgame.data.dataset import Numbering, check_different, open_data

    numbering = Numbering.of_source(source, environment)
    check_different(data.paths)
    return [
        open_data(path, numbering=numbering, horizon=environment.horizon, columns=data.columns)
        for path in data.paths
    ]


def count_prior_data(
    opened: Sequence[Dataset],
    environment: Environment,
    shape: Shape,
    *,
    stage_free: bool = False,
    paid: bool = False,
) -> list[PriorData]:
    """Count the datasets; ``stage_free`` if the run does not distinguish stages.

    ``paid`` also adds up rewards by transition.
    """
    if not opened:
        return []
    from covgame.data.model_check import check_fits

    given = [_given(one, shape, stage_free=stage_free, paid=paid) for one in opened]
    model = environment.model
    if model is not None:
        for one in given:
            check_fits(one.name, one.counts, model.transitions, model.names)
    return given


def _given(data: Dataset, shape: Shape, *, stage_free: bool, paid: bool) -> PriorData:
    counts = data.counts(shape, pooled=stage_free, stage_free=stage_free, paid=paid)
    _check_unchanged(data, int(counts.visits.sum()))
    return PriorData(
        data.name,
        data.n_steps,
        counts,
        data.left_out,
        data.reward_range,
        data.highest_return,
        data.is_cut_before(shape.horizon),
        data.workers,
        data.set_aside,
        data.has_ends(shape.horizon),
        data.draws,
        data,
    )


def _check_unchanged(data: Dataset, steps: int) -> None:
    """Data are read several times, and another process may be writing them."""
    if steps != data.n_steps:
        raise BadInput(
            f"{data.name} has changed while it was read; wait until it is complete, or make a copy"
        )


def write_prior_data(folder: RunFolder, given: Sequence[PriorData]) -> None:
    """Copy the steps into the folder of a run, each dataset to a folder of its own."""
    from covgame.data.dataset import place_of

    copies = inside(folder.place, GIVEN)
    for one in given:
        if place_of(one.name).is_relative_to(place_of(copies)):
            raise BadInput(f"{one.name} is where copies of the data go; choose another --out")
    _remove_copies(copies)
    for number, one in enumerate(given):
        if one.dataset is not None:
            place = _place(folder.place, number)
            _check_unchanged(one.dataset, _write(place, one.dataset.batches()))


def _remove_copies(folder: Path) -> None:
    """Remove the copies of a run that never began, and no other files."""
    for place in folder.glob("[0-9][0-9]*"):
        for copy in (*place.glob("part-*.parquet"), *place.glob(".part-*.draft")):
            remove(copy)


def _write(place: Path, batches: Iterator[Steps]) -> int:
    """Returns how many steps there were."""
    from covgame.storage.episodes import table_of_columns, write_shard

    make_folder(place)
    total = 0
    for number, steps in enumerate(batches):
        write_shard(place, number, table_of_columns(vars(steps)))
        total += len(steps)
    return total


def load_prior_data(
    folder: RunFolder, shape: Shape, *, stage_free: bool = False, paid: bool = False
) -> list[PriorData]:
    """The datasets that a run started from, counted again."""
    from covgame.storage.config import GivenFile

    listed = folder.config.get("given") or []
    said = [check_content(GivenFile, one, folder.database) for one in listed]
    return [
        _counted(_place(folder.place, number), one, shape, stage_free=stage_free, paid=paid)
        for number, one in enumerate(said)
    ]


def _counted(
    place: Path, said: GivenFile, shape: Shape, *, stage_free: bool, paid: bool
) -> PriorData:
    from covgame.storage.reading import RecordedEpisodes

    recorded, steps = RecordedEpisodes(place, shape, open_ends=True), 0
    counts = Counts(shape, pooled=stage_free, stage_free=stage_free, paid=paid)
    for columns in recorded.steps():
        counts.add_steps(columns)
        steps += len(columns["stage"])
    if (counts.n_episodes, steps) != (said.episodes, said.steps):
        raise BadInput(
            f"{place} holds {counts.n_episodes:,} episodes of {steps:,} steps, and the run started "
            f"from {said.episodes:,} of {said.steps:,}; put it back from a copy"
        )
    return PriorData(
        said.data,
        steps,
        counts,
        said.left_out,
        recorded.reward_range(),
        recorded.highest_return(),
        recorded.is_cut_short(),
        said.workers,
        said.set_aside,
        recorded.has_ends(),
        Draws(said.data, recorded.seeds(), said.stream, said.digest),
    )


def _place(path: Path, number: int) -> Path:
    return inside(path, Path(GIVEN) / f"{number:02d}")
