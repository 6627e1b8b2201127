"""A text adventure, python -m examples.text_adventure: rooms are words, and so is what we say."""

import covgame as cg

DOORS = {("hall", "north"): "library", ("library", "south"): "hall", ("hall", "east"): "cellar"}


class Adventure:
    """The cellar is dark; with a lamp there is a way out."""

    actions = ("north", "south", "east", "take lamp", "climb")
    horizon = 8

    def reset(self) -> str:
        """In the hall, with empty hands."""
        self.room, self.lamp = "hall", False
        return "hall, without the lamp"

    def step(self, action: str) -> tuple[str, float, bool]:
        """Whatever makes no sense here does nothing."""
        self.room = DOORS.get((self.room, action), self.room)
        self.lamp |= (self.room, action) == ("library", "take lamp")
        out = (self.room, action) == ("cellar", "climb") and self.lamp
        return f"{self.room}, {'with' if self.lamp else 'without'} the lamp", float(out), out


if __name__ == "__main__":
    print(cg.cover(Adventure, "uniform:5/pair").to_text())
