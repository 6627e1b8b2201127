"""A protocol under test, python -m examples.protocol: every transition at least 20 times."""

import random

import covgame as cg

MOVES = {
    ("CLOSED", "send SYN"): "SYN SENT", ("SYN SENT", "send ACK"): "OPEN",
    ("SYN SENT", "wait"): "CLOSED", ("OPEN", "send FIN"): "CLOSING", ("CLOSING", "wait"): "CLOSED",
}  # fmt: skip


class Connection:
    """A handshake over a line that loses one packet in ten."""

    actions, horizon = ("send SYN", "send ACK", "send FIN", "wait"), 10

    def reset(self, seed: int) -> str:
        """Nobody has said anything yet."""
        self.rng, self.state = random.Random(seed), "CLOSED"
        return self.state

    def step(self, action: str) -> tuple[str, float, bool]:
        """What is not in the table changes nothing."""
        if self.rng.random() < 0.9:
            self.state = MOVES.get((self.state, action), self.state)
        return self.state, 0.0, False


if __name__ == "__main__":
    print(cg.cover(Connection, "uniform:20/transition").to_text())
