"""Hours of play, watched: memory, open files and time per episode must not creep up."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from torture.cases import Attack, Case, Verdict
from torture.forking import family
from torture.invariants import problems
from torture.processes import ended, start
from torture.scenarios import OWN, RUN

ENDLESS = {
    "own": ["cover", OWN, "--target", "uniform:1e9/pair"],
    "lake": ["cover", "gym:FrozenLake-v1", "--horizon", "20", "--target", "uniform:1e9/pair"],
}
SAMPLES = 600
WARM = 0.2
"""The first part of the time, in which caches fill and code is compiled, does not count."""

MOST_GROWTH = 0.05  # of the memory, from the line's beginning to its end
MOST_SLOWDOWN = 1.25
PAGE, TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """All processes of a run together."""

    seconds: float
    episodes: int
    memory: float  # MB
    handles: int
    cpu: float  # seconds


def one(case: Case) -> Verdict:
    """Watch, interrupt, and judge."""
    name = list(ENDLESS)[case.number]
    process = start([*ENDLESS[name], "--out", RUN, "--json", "--quiet"], case.folder)
    samples, began = [], time.monotonic()
    until = began + case.workshop.soak
    while time.monotonic() < until and process.poll() is None:
        time.sleep(max(0.5, case.workshop.soak / SAMPLES))
        samples.append(_sample(process.pid, case.folder / RUN, time.monotonic() - began))
    process.send_signal(signal.SIGINT)
    ending = ended(process, case.folder)
    kept = [one for one in samples if one.seconds > WARM * case.workshop.soak and one.episodes]
    if ending.code != 130 or len(kept) < 4:
        return Verdict("other exit", f"{name}: {ending}, {len(kept)} samples")
    said, problem = judged(kept)
    found = problem or next(iter(problems(case.folder / RUN)), None)
    return Verdict(f"{name}: {said}", None if found is None else f"{name}: {found} ({said})")


def _sample(session: int, run: Path, seconds: float) -> Sample:
    memory, handles, ticks = 0, 0, 0
    for pid in family(session):
        with suppress(OSError, IndexError):
            place = Path(f"/proc/{pid}")
            memory += int((place / "statm").read_text().split()[1])
            handles += len(os.listdir(place / "fd"))
            fields = (place / "stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return Sample(seconds, _episodes(run), memory * PAGE / 2**20, handles, ticks / TICK)


def _episodes(run: Path) -> int:
    """As far as the shards go."""
    shards = sorted((run / "episodes").glob("part-*.parquet"))
    with suppress(OSError, pa.ArrowException, IndexError):
        last = pq.read_table(shards[-1], columns=["episode"])["episode"][-1].as_py()
        return int(last) + 1
    return 0


def judged(samples: list[Sample]) -> tuple[str, str | None]:
    """(what was measured, what is wrong with it)."""
    episodes = np.array([one.episodes for one in samples], dtype=np.float64)
    memory = np.array([one.memory for one in samples])
    slope, start_at = np.polyfit(episodes, memory, 1)
    begin, end = (start_at + slope * episodes[place] for place in (0, -1))
    per_episode = [_time_per_episode(half) for half in _halves(samples)]
    handles = [max(one.handles for one in half) for half in _halves(samples)]
    said = (
        f"{int(episodes[-1]):,} episodes, {begin:.0f} to {end:.0f} MB "
        f"({1e5 * slope:+.2f} MB per 100,000), {handles[0]} and {handles[1]} files open, "
        f"{1e6 * per_episode[0]:.0f} and {1e6 * per_episode[1]:.0f} us an episode"
    )
    if end > (1 + MOST_GROWTH) * begin:
        return said, "memory grows"
    if handles[1] > handles[0] + 2:
        return said, "files are left open"
    if per_episode[1] > MOST_SLOWDOWN * per_episode[0]:
        return said, "episodes take longer and longer"
    return said, None


def _halves(samples: list[Sample]) -> tuple[list[Sample], list[Sample]]:
    middle = len(samples) // 2
    return samples[: middle + 1], samples[middle:]


def _time_per_episode(samples: list[Sample]) -> float:
    first, last = samples[0], samples[-1]
    return (last.cpu - first.cpu) / max(1, last.episodes - first.episodes)


SOAK = Attack(
    "soak",
    "endless runs, watched: memory, open files and CPU time per episode, first and second half",
    one,
    lambda workshop: len(ENDLESS) if workshop.soak else 0,
    jobs=len(ENDLESS),
)
