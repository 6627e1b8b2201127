"""Data that a run starts from: counted before its first episode, and kept in its folder.

Where they came from may be gone when the run is resumed or checked, so the steps are copied, in the
columns and with the state numbers of the run itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.jsonfile import check_content
from covgame.store.folder import GIVEN, MANIFEST, RunFolder
from covgame.types import IntArray, Shape

if TYPE_CHECKING:
    from covgame.data.dataset import Dataset
    from covgame.data.steps import Steps
    from covgame.runs.run import Source
    from covgame.sources.environments import Environment
    from covgame.store.manifest import GivenFile

AnyData = str | Path | Sequence[str | Path]
"""A dataset, or several that add up."""


@dataclass(frozen=True, eq=False)
class Given:
    """One dataset, as far as it counts for a run."""

    name: str
    steps: int
    counts: Counts  # stages apart
    left_out: int = 0  # steps of episodes that go on beyond the last stage
    rewards: tuple[float, float] = (0.0, 0.0)  # the least and the most that a step has paid
    highest_return: float = 0.0
    dataset: Dataset | None = None  # until its steps are in the run's folder

    @property
    def episodes(self) -> int:
        """How many there are."""
        return self.counts.n_episodes

    @property
    def visits(self) -> IntArray:
        """(H, S, A)."""
        return self.counts.visits

    def to_dict(self) -> dict[str, Any]:
        """As the answer of a run says it."""
        return {"data": self.name, "episodes": self.episodes, "steps": self.steps}


def read_given(data: AnyData | None, environment: Environment, source: Source) -> list[Given]:
    """Datasets for a run that is about to begin; states that are new to its source get numbers."""
    if data is None:
        return []
    from covgame.data.dataset import Numbering, check_different, open_data
    from covgame.data.fitting import check_fits

    paths = [data] if isinstance(data, str | Path) else list(data)
    numbering = Numbering.of_source(source)
    horizon = environment.horizon
    check_different(paths)
    opened = [open_data(path, numbering=numbering, horizon=horizon) for path in paths]
    given = [
        Given(
            one.name,
            one.n_steps,
            one.counts(source.shape, pooled=False),
            one.left_out,
            one.reward_range,
            one.highest_return,
            one,
        )
        for one in opened
    ]
    model = environment.model
    if model is not None:
        for one in given:
            check_fits(one.name, one.counts, model.transitions, model.names)
    return given


def write_given(path: Path, given: Sequence[Given]) -> None:
    """Copy the steps into the folder of a run, each dataset to a folder of its own."""
    shutil.rmtree(path / GIVEN, ignore_errors=True)
    for number, one in enumerate(given):
        if one.dataset is not None:
            _write(_place(path, number), one.dataset.batches())


def _write(place: Path, batches: Iterator[Steps]) -> None:
    from covgame.store.episodes import table_of_columns, write_shard

    place.mkdir(parents=True)
    for number, steps in enumerate(batches):
        write_shard(place, number, table_of_columns(vars(steps)))


def load_given(folder: RunFolder, shape: Shape) -> list[Given]:
    """The datasets that a run has started from, counted once more."""
    from covgame.store.manifest import GivenFile

    listed = folder.manifest.get("given") or []
    said = [check_content(GivenFile, one, folder.path / MANIFEST) for one in listed]
    return [_counted(_place(folder.path, number), one, shape) for number, one in enumerate(said)]


def _counted(place: Path, said: GivenFile, shape: Shape) -> Given:
    from covgame.store.reading import RecordedEpisodes

    recorded, counts, steps = RecordedEpisodes(place, shape), Counts(shape, pooled=False), 0
    for columns in recorded.steps():
        # Where somebody else broke an episode off, the last step has still shown a state.
        counts.add_steps(columns, columns["terminated"])
        steps += len(columns["stage"])
    if (counts.n_episodes, steps) != (said.episodes, said.steps):
        raise BadInput(
            f"{place} holds {counts.n_episodes:,} episodes of {steps:,} steps, and the run started "
            f"from {said.episodes:,} of {said.steps:,}; put it back from a copy"
        )
    earned = recorded.reward_range(), recorded.highest_return()
    return Given(said.data, steps, counts, said.left_out, *earned)


def _place(path: Path, number: int) -> Path:
    return path / GIVEN / f"{number:02d}"
