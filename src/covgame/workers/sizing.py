"""How many episodes a message carries, from what messages, plans and episodes take."""

from __future__ import annotations

import math
from dataclasses import dataclass

MESSAGE = 1e-4
"""Seconds that a job and its report cost over a pipe, both sides together."""

OVERHEAD = 0.05
"""What messages may cost of a worker's time."""

PLANNING_SHARE = 0.4
"""Of the planner's time plans may take so much; what is left is for telling."""

MOST_EACH = 64
SHARE_UNDER_WAY = 0.05
"""Of the episodes so far, so many may be under way: those of one policy teach less than others."""

WEIGHT = 0.1
"""Of the latest measurement in a running mean."""


@dataclass
class Pace:
    """Seconds that things take, as they were measured: running means."""

    episode: float = 0.0  # of a worker, playing
    planning: float = 0.0  # of who plans, for a job
    telling: float = 0.0  # for an episode
    message: float = MESSAGE

    def measure(self, name: str, seconds: float) -> None:
        """Hear of one more."""
        before = getattr(self, name)
        mean = seconds if not before else before + WEIGHT * (seconds - before)
        setattr(self, name, mean)

    def episodes_each(self, workers: int, played: int) -> int:
        """Of a job: so many that neither messages nor plans hold the workers up."""
        if self.episode <= 0:
            return 1
        for_messages = self.message / (OVERHEAD * self.episode)
        for_plans = workers * self.planning / (PLANNING_SHARE * self.episode)
        wanted = math.ceil(max(for_messages, for_plans) - 1e-9)
        most = min(MOST_EACH, math.floor(SHARE_UNDER_WAY * played / workers))
        return max(1, min(wanted, most))

    def jobs_ahead(self, each: int) -> int:
        """How many jobs wait beside the one being played, so that no worker does."""
        turnaround = self.planning + each * self.telling + self.message
        return 1 if turnaround > OVERHEAD * each * self.episode else 0
