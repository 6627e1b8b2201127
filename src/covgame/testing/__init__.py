"""For testers: every transition of a state machine, as often as you ask for."""

from covgame.testing.checking import CoverWarning, NotCovered, check_transitions
from covgame.testing.options import TestOptions, cover_transitions
from covgame.testing.outcome import Failed, Outcome, Seen
from covgame.testing.page import write_report
from covgame.testing.plain_machines import action, always
from covgame.testing.world import environment

__all__ = [
    "CoverWarning",
    "Failed",
    "NotCovered",
    "Outcome",
    "Seen",
    "TestOptions",
    "action",
    "always",
    "check_transitions",
    "cover_transitions",
    "environment",
    "write_report",
]
