"""A world of one's own, as a plain object: the tests of a vending machine's protocol.

    covgame cover py:examples.vending_machine:machine --target uniform:20/pair

States are whatever ``reset`` and ``step`` show, here (credit, door); they get their numbers as they
appear. ``actions`` is the number of actions, ``horizon`` the length of an episode.
"""

from __future__ import annotations

import random

COIN, BUY, REFUND, OPEN = range(4)


class VendingMachine:
    """Takes up to three coins; sometimes the coin falls through, seldom the door jams."""

    actions = 4
    horizon = 12

    def reset(self, seed: int) -> tuple[int, str]:
        """Start an episode; the seed makes it repeatable."""
        self.random = random.Random(seed)
        self.credit, self.door = 0, "shut"
        return self.credit, self.door

    def step(self, action: int) -> tuple[tuple[int, str], float, bool]:
        """(what is seen, reward, whether the machine has stopped)."""
        bought = False
        if action == COIN and self.random.random() < 0.9:
            self.credit = min(3, self.credit + 1)
        elif action == BUY and self.credit >= 2:
            self.credit -= 2
            self.door = "jammed" if self.random.random() < 0.05 else "open"
            bought = True
        elif action == REFUND:
            self.credit = 0
        elif action == OPEN and self.door == "open":
            self.door = "shut"
        return (self.credit, self.door), float(bought), False


def machine() -> VendingMachine:
    """What ``py:examples.vending_machine:machine`` calls."""
    return VendingMachine()
