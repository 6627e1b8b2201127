"""A small text adventure: rooms, items, doors and a troll. Deterministic."""

from __future__ import annotations

from typing import Any

ROOMS: dict[str, dict[str, str]] = {
    "hall": {"north": "library", "south": "garden", "east": "kitchen", "west": "study"},
    "library": {"south": "hall", "east": "attic"},
    "study": {"east": "hall", "north": "library"},
    "kitchen": {"west": "hall", "south": "cellar"},
    "garden": {"north": "hall", "east": "shed", "south": "bridge"},
    "shed": {"west": "garden"},
    "attic": {"west": "library"},
    "cellar": {"north": "kitchen", "east": "tunnel"},
    "tunnel": {"west": "cellar", "south": "cave"},
    "cave": {"north": "tunnel", "west": "bridge", "south": "vault"},
    "bridge": {"north": "garden", "east": "cave"},
    "vault": {"north": "cave"},
}
ITEMS = {"lamp": "attic", "key": "shed", "sword": "study", "coin": "vault", "rope": "cave"}
LOCKED = ("cave", "vault")
DARK = ("cellar", "tunnel")
GUARDED = ("bridge", "cave")
ACTIONS = ("north", "east", "south", "west", "take", "use", "wait")


class Adventure:
    """Take what lies about, light the lamp, unlock the vault, drive the troll off the bridge.

    An observation shows the room, the items carried, whether the lamp is lit, the vault open and
    the troll gone. Episodes end when the coin is brought to the hall.
    """

    actions = ACTIONS
    horizon = 100

    def reset(self) -> Any:
        """Start in the hall."""
        self.room, self.carried = "hall", frozenset[str]()
        self.is_lit = self.is_open = self.is_safe = False
        return self._seen()

    def step(self, action: str) -> tuple[Any, float, bool]:
        """Walk, take or use something."""
        if action in ("north", "east", "south", "west"):
            self._walk(action)
        elif action == "take":
            here = [item for item, room in ITEMS.items() if room == self.room]
            self.carried |= set(here)
        elif action == "use":
            if self.room in ("kitchen", "cave") and "lamp" in self.carried:
                self.is_lit = not self.is_lit
            elif self.room == "bridge" and "sword" in self.carried:
                self.is_safe = True
            if self.room == "cave" and "key" in self.carried:
                self.is_open = True
        won = self.room == "hall" and "coin" in self.carried
        return self._seen(), float(won), won

    def _walk(self, direction: str) -> None:
        way = (self.room, ROOMS[self.room].get(direction, self.room))
        is_blocked = (
            (set(way) == set(LOCKED) and not self.is_open)
            or (way[1] in DARK and not self.is_lit)
            or (set(way) == set(GUARDED) and not self.is_safe)
        )
        if not is_blocked:
            self.room = way[1]

    def _seen(self) -> Any:
        return self.room, tuple(sorted(self.carried)), self.is_lit, self.is_open, self.is_safe
