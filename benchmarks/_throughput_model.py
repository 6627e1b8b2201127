"""How many episodes an hour: a model of who waits for whom, from what single things take.

Workers play, one process plans, tells and writes. Whichever is slower decides. It is written down
in docs/throughput.md, and ``dev.py bench throughput`` puts it beside measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from covgame.workers.player import Pace


@dataclass(frozen=True)
class Plant:
    """What there is to play with, in seconds and numbers."""

    step: float  # of the environment
    steps: float  # of an episode
    workers: int
    cells: int = 0  # of the world
    cores: int | None = None  # that workers share, if steps are computed and not waited for
    planning: float = 1e-3  # for a job, in a small world
    planning_per_cell: float = 0.0  # and more for every cell
    telling: float = 1e-4  # for an episode: counted, and written to the journal
    message: float = 1e-4  # there and back
    byte: float = 1e-9  # of a policy sent, which has one for every stage and state
    stage_states: int = 0  # of those
    overhead: float = 5e-6  # of ours, for a step in a worker
    each: int | None = None  # episodes of a job; None: as a run chooses

    @property
    def pace(self) -> Pace:
        """What a run would measure."""
        return Pace(
            episode=self.steps * (self.step + self.overhead),
            planning=self.planning + self.cells * self.planning_per_cell,
            telling=self.telling,
            message=self.message + self.stage_states * self.byte,
        )

    @property
    def episodes_each(self) -> int:
        """Of a job, when a run is long enough not to mind."""
        return self.each or self.pace.episodes_each(self.workers, 2**62)


@dataclass(frozen=True)
class Forecast:
    """Episodes a second that each part could do, and which is the narrowest."""

    playing: float
    planning: float

    @property
    def per_second(self) -> float:
        """Of the whole."""
        return min(self.playing, self.planning)

    @property
    def per_hour(self) -> float:
        """Of the whole."""
        return 3600 * self.per_second

    @property
    def limit(self) -> str:
        """What would have to be faster."""
        return "playing" if self.playing <= self.planning else "planning"


def forecast(plant: Plant) -> Forecast:
    """What to expect of a plant."""
    pace, each = plant.pace, plant.episodes_each
    hands = plant.workers if plant.cores is None else min(plant.workers, plant.cores)
    job = each * pace.episode + pace.message
    if not pace.jobs_ahead(each):
        job += pace.planning + each * pace.telling  # it waits for its next job
    playing = hands * each / job
    planning = each / (pace.planning + pace.message + each * pace.telling)
    return Forecast(playing, planning)


def workers_worth_having(plant: Plant) -> int:
    """So many that one more would find nothing to do."""
    one = forecast(replace(plant, workers=1, cores=None)).playing
    return max(1, int(forecast(plant).planning / one))
