"""A shop that orders by hand: python -m examples.inventory."""

import random

import covgame as cg


class Shop:
    """Up to five pieces in stock; on Fridays people buy more."""

    actions = ("order nothing", "order 1", "order 3")
    horizon = 5

    def reset(self, seed: int) -> str:
        """Monday, two in stock."""
        self.rng, self.day, self.stock = random.Random(seed), 0, 2
        return f"day {self.day}, {self.stock} in stock"

    def step(self, action: str) -> tuple[str, float, bool]:
        """Orders arrive at once; the day's profit is paid."""
        self.stock = min(5, self.stock + {"order 1": 1, "order 3": 3}.get(action, 0))
        sold = min(self.stock, self.rng.randint(0, 3 if self.day == 4 else 2))
        self.day, self.stock = self.day + 1, self.stock - sold
        return f"day {self.day}, {self.stock} in stock", float(sold), self.day == 5


if __name__ == "__main__":
    print(cg.cover(Shop, "uniform:10").to_text())
