"""A run: what was asked, what to play next, what was collected, and how it ended.

``cover``, ``explore`` and ``identify`` hand out tasks, one after the other, and use the counts of
each. Covering has a single task. ``loop`` plays them with the engine for the source.
"""

from __future__ import annotations

import hashlib
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy.typing as npt

from covgame.config import RunConfig
from covgame.episodes import Block, Episode
from covgame.errors import BadInput, CovgameError, EnvironmentFailed
from covgame.failures import Failure, Failures
from covgame.game.counts import Counts
from covgame.names import Names
from covgame.pac.tasks import Task
from covgame.rng import episode_seed
from covgame.runs.prior_data import PriorData, write_prior_data
from covgame.sources.counted import MOST_EPISODES
from covgame.sources.environments import Environment
from covgame.sources.source import Source
from covgame.sources.stepped import FailurePolicy
from covgame.storage.folder import MODEL, NAMES, REPORT, RunFolder, fresh_folder, names_text
from covgame.storage.trust import resume_command
from covgame.types import BoolArray, Shape

if TYPE_CHECKING:
    from covgame.storage.reading import RecordedEpisodes
    from covgame.storage.recorder import Recorder

Arrays = Mapping[str, npt.NDArray[Any]]
StopReason = Literal["covered", "rule", "unseen", "budget", "interrupted", "failed"]

GIVEN_STREAM = 5
"""The stream of random numbers that gives every set of given data its own seed."""


@dataclass(eq=False)
class Run(ABC):
    """What all runs have in common: their episodes, counts, model and answer."""

    environment: Environment
    settings: RunConfig
    source: Source = field(repr=False)
    n_tasks: int = field(default=0, kw_only=True)  # finished
    n_before: int = field(default=0, kw_only=True)  # their episodes
    task: Task | None = field(default=None, kw_only=True, repr=False)
    given: list[PriorData] = field(default_factory=list, kw_only=True, repr=False)
    folder: RunFolder | None = field(default=None, kw_only=True, repr=False)
    stopped: StopReason | None = field(default=None, kw_only=True)
    failure: str | None = field(default=None, kw_only=True)  # what the environment did, or the disk
    failed_by: type[CovgameError] = field(default=EnvironmentFailed, kw_only=True, repr=False)
    notice: str | None = field(default=None, kw_only=True)  # what had to be repaired on loading

    FINISHED: ClassVar[StopReason]  # the reason to stop when all is done
    ONE_TASK: ClassVar[bool] = False  # whatever was recorded belongs to it

    # ------------------------------------------------------------ what a kind of run has to say

    @property
    @abstractmethod
    def counts(self) -> Counts:
        """What was seen: ``counts.visits`` is (H, S, A)."""

    @property
    @abstractmethod
    def done(self) -> bool:
        """Whether nothing is left to play."""

    @property
    @abstractmethod
    def by_counts(self) -> bool:
        """Whether a model is played by its visits, so that there are no episodes."""

    @property
    @abstractmethod
    def task_seed(self) -> int:
        """The seed of the task being played, which counts its episodes from 0."""

    @abstractmethod
    def next_task(self) -> Task | None:
        """What to play next, None when there is nothing."""

    @abstractmethod
    def tell(self, task: Task) -> bool:
        """Take what a task has brought; False if more of the same is wanted."""

    @abstractmethod
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All that is needed to go on, as named arrays."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> None:
        """Bring a run that has not begun to where its arrays were saved."""

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What was asked for, for the table ``config``."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The JSON answer."""

    # ------------------------------------------------------------ what some of them have to say

    @property
    def needs_episodes(self) -> bool:
        """Whether a task's episodes are looked at again when it is over."""
        return False

    @property
    def warning(self) -> str | None:
        """A warning while it is played."""
        return None

    def keep(self, block: Block) -> None:
        """Look at episodes that were just played."""
        return

    def documents(self) -> dict[str, str]:
        """Further JSON documents that the run is stored with, by name."""
        return {}

    def conclude(self) -> None:
        """Write down what the data prove, when playing has ended for now."""
        return

    # -------------------------------------------------------------------------- what all have

    @property
    def states_possible(self) -> int | None:
        """How many states the model, the observation space or the state map has; None if unknown.

        Not all of them need be reachable.
        """
        model = self.environment.model
        return model.shape.states if model is not None else self.source.states.possible

    @property
    def stream(self) -> int:
        """The seed of all random numbers: the one in the settings, mixed with the given data.

        A run that starts from the episodes of an earlier one must not repeat their draws.
        """
        if not self.given:
            return self.settings.seed
        digests = "".join(str(one.draws.digest) for one in self.given)
        digest = hashlib.sha256(digests.encode()).digest()
        return episode_seed(self.settings.seed, GIVEN_STREAM, int.from_bytes(digest[:8], "big"))

    @property
    def stream_name(self) -> str | None:
        """Names the random numbers of a simulated run; environments record a seed per episode."""
        if self.source.model is None:
            return None
        kind = "cover" if self.ONE_TASK else "tasks"
        about = (self.environment.name, self.source.shape.hsa, kind, self.stream)
        return hashlib.sha256(repr(about).encode()).hexdigest()

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the run.

        With a ``path`` a file is written, whose ending says the format (svg, png, pdf); without one
        the matplotlib figure is returned, which a notebook shows.
        """
        from covgame.report.figures import shown_or_saved, view_figure
        from covgame.report.runs import figure_view

        return shown_or_saved(lambda run: view_figure(figure_view(run)), self, path)

    def report(self, path: str | Path | None = None) -> Path:
        """Write the run as one HTML page, which needs no network and no other file.

        Args:
            path: The file; left out, ``report.html`` in the run's folder.

        Returns:
            Where it was written.

        Raises:
            BadInput: There is no such folder, or the run has none and no ``path`` is given.

        Example:
            >>> import tempfile, covgame as cg
            >>> run = cg.cover("chain:states=4,horizon=6", "uniform:2/pair", out=tempfile.mkdtemp())
            >>> run.report().name
            'report.html'
        """
        from covgame.report.html import write_page
        from covgame.report.runs import page_of

        return write_page(page_of(self), self.report_path if path is None else Path(path))

    @property
    def report_path(self) -> Path:
        """Where the page of the run is written if no other place is named."""
        if self.folder is None:
            raise BadInput("this run has no folder; say where to write it: run.report(path)")
        return self.folder.path / REPORT

    def to_text(self) -> str:
        """The run as text for a terminal."""
        from covgame.report.runs import summary_of
        from covgame.report.text import as_text

        return as_text(summary_of(self))

    def _repr_html_(self) -> str:
        from covgame.report.runs import summary_of
        from covgame.report.text import as_notebook

        return as_notebook(summary_of(self))

    def episodes(self) -> Iterator[Episode]:
        """The recorded episodes, one at a time; no more than a file of them is in memory.

        These are the episodes that the run itself has played, without data it started from.

        Returns:
            An iterator over episodes with ``state``, ``action``, ``reward``, ``next_state``
            (arrays, a number per step), ``states`` and ``actions`` (the same as names),
            ``terminated``, ``truncated`` and ``seed``. If observations were kept, ``observations``
            has one more entry than there are steps: the last is what the episode ended in.

        Raises:
            BadInput: No episodes were recorded.

        Example:
            >>> import tempfile, covgame as cg
            >>> run = cg.cover("chain:states=3,horizon=4", "uniform:1/pair", out=tempfile.mkdtemp())
            >>> first = next(run.episodes())
            >>> first.number, len(first), first.truncated
            (0, 4, True)
        """
        return self._recorded().recorded()

    def steps(self, columns: Sequence[str] | None = None) -> Any:
        """All recorded steps as an Arrow table; pandas and polars take it as it is.

        Try ``run.steps().to_pandas()`` or ``polars.from_arrow(run.steps())``. The whole table is in
        memory; where that is too much, go through ``run.episodes()``.

        Args:
            columns: Which columns, all if left out.

        Returns:
            A ``pyarrow.Table`` with a row per step.

        Raises:
            BadInput: No episodes were recorded, or there is no such column.

        Example:
            >>> import tempfile, covgame as cg
            >>> run = cg.cover("chain:states=3,horizon=4", "uniform:1/pair", out=tempfile.mkdtemp())
            >>> run.steps(["state", "action"]).num_rows == run.counts.visits.sum()
            True
        """
        return self._recorded().table(columns)

    def _recorded(self) -> RecordedEpisodes:
        from covgame.storage.reading import RecordedEpisodes, StepTables

        if self.folder is None:
            raise BadInput(
                "the episodes of a run are kept in its folder, and it has none: say out="
            )
        if self.by_counts:
            raise BadInput(f"{self.folder.path} was made by --play counts, so it has no episodes")
        shape = Shape(self.source.shape.horizon, self.n_states, self.source.shape.actions)
        space = self.folder.config.get("observation_space")
        steps = StepTables(self.folder, most=self.n_episodes)
        return RecordedEpisodes(steps, shape, self.names, space)

    @property
    def n_episodes(self) -> int:
        """Episodes played so far."""
        return self.n_before + (self.task.played if self.task else 0)

    @property
    def path(self) -> Path | None:
        """The folder of the run, if it has one."""
        return self.folder.path if self.folder else None

    @property
    def resume_command(self) -> str | None:
        """What to type to go on with it, if it has a folder."""
        return resume_command(self.folder) if self.folder else None

    @property
    def allowed(self) -> BoolArray | None:
        """Which actions states have, (S, A), if that is known beforehand and not all."""
        model = self.environment.model
        return model.transitions.allowed if model else None

    @property
    def names(self) -> Names:
        """States and actions in the user's words."""
        model = self.environment.model
        return model.names if model is not None else self.source.names

    @property
    def failures(self) -> Failures:
        """Episodes in which the environment failed."""
        return self.source.failures

    @property
    def n_states(self) -> int:
        """How many states there are, or have been seen so far."""
        return self.source.states.size

    @property
    def records(self) -> bool:
        """Whether single episodes are recorded or needed."""
        return self.folder is not None or self.needs_episodes

    @property
    def budget_left(self) -> int:
        """Episodes that may still be played; 64-bit counts end at 2^62 in any case."""
        budget = self.settings.max_episodes
        most = MOST_EPISODES if budget is None else min(budget, MOST_EPISODES)
        return max(0, most - self.n_episodes)

    @property
    def stop_reason(self) -> StopReason:
        """Why it has stopped, if it plays no more."""
        if self.failure:
            return "failed"
        if self.done:
            return self.FINISHED
        return "budget" if self.budget_left == 0 else "interrupted"

    @property
    def n_given(self) -> int:
        """Episodes of others that it started from."""
        return sum(one.episodes for one in self.given)

    def fail(self, error: CovgameError) -> None:
        """Note why it cannot go on; what came first is what a person should hear."""
        if self.failure is None:
            self.failure, self.failed_by = str(error), type(error)

    def number_of(self, episode: int) -> int:
        """The number in this run of a task's episode."""
        return self.n_before + episode

    def current_task(self) -> Task | None:
        """The task being played, or the next one."""
        self.task = self.task or self.next_task()
        return self.task

    def finish_task(self, task: Task) -> None:
        """Hear that a task is over; if more of the same is wanted, it goes on."""
        if self.tell(task):
            self.n_tasks += 1
            self.n_before += task.played
            self.task = None


def create_folder(run: Run, out: str | Path | None = None) -> RunFolder:
    """Create the folder of a run, with all that is needed to resume it."""
    from covgame.mdp.files import model_text

    environment, source, documents = run.environment, run.source, run.documents()
    if environment.model is not None and not environment.by_name:
        documents[MODEL] = model_text(environment.model)
    names = run.names
    if source.discovers_states:
        names = replace(names, states=None)  # the table of states has them
    if names.known:
        documents[NAMES] = names_text(names)
    about: dict[str, Any] = {
        "environment": environment.name,
        "horizon": environment.horizon,
        "model": None if environment.by_name or environment.model is None else MODEL,
        "by_name": environment.by_name,
        **environment.spec.texts(),
    }
    if source.model is None:
        about["size"] = {  # enough to read the data where the environment is not at hand
            "states": None if source.discovers_states else source.states.size,
            "actions": len(source.actions),
            "plays": not source.is_driven,
            "possible": source.states.possible,
        }
        about |= source.spaces() if source.keeps_observations else {}
    given = [one.to_file() for one in run.given]
    about |= {**run.config(), "stream": run.stream_name, "given": given}
    config = {**about, "versions": versions()}
    if out is not None and not str(out):
        raise BadInput("--out names the folder of a run, and is empty; leave it out, or name one")
    path = Path(out) if out is not None else fresh_folder(environment.name)
    keys, states = source.state_keys, None
    if run.given and keys is not None:
        states = keys, source.state_labels
    fill = partial(write_prior_data, given=run.given)
    run.folder = RunFolder.create(path, config, documents, states, fill)
    return run.folder


def failure_policy_of(settings: RunConfig, folder: RunFolder | None = None) -> FailurePolicy:
    """What to do when the environment fails, and the failures in the folder of the run."""
    failures: list[Failure] = []
    if folder is not None and (failures := folder.load_failures()):
        from covgame.storage.reading import StepTables

        failures = folder.load_failures(StepTables(folder).n_episodes)
    return FailurePolicy(
        settings.on_failure, settings.step_timeout, settings.isolate, Failures(failures)
    )


def recorder_for(run: Run) -> Recorder | None:
    """What records a run, None if it has no folder."""
    if run.folder is None:
        return None
    from covgame.storage.recorder import EpisodeRecorder, Recorder, SimulatedRecorder

    if run.by_counts:
        return Recorder(run.folder, run.arrays)
    horizon = run.source.shape.horizon
    if run.source.observation_space != run.folder.config.get("observation_space"):
        raise BadInput(
            f"{run.folder.path} keeps observations of another space than those that "
            f"{run.environment.name} shows now"
        )
    if run.source.is_replayable:
        return SimulatedRecorder(run.folder, horizon, run.n_episodes, run.arrays)
    return EpisodeRecorder(run.folder, horizon, run.n_episodes, run.source, run.arrays)


def versions() -> dict[str, str]:
    """What a run was made with."""
    from importlib.metadata import version

    libraries = {name: version(name) for name in ("covgame", "numba", "numpy", "pyarrow")}
    return {"python": platform.python_version(), **libraries}
