"""Does what follows a state depend on how it was reached? A test that may be looked at any time.

A map from observations to states may make different states one. Then the successors of a pair (s,
a) depend on more than (s, a), and the step before tells. The hypothesis of a pair: whatever came
before, its successors are draws from one distribution p. The test bets against it, and its wealth
is what it calls evidence.

Number the successors of the pair in the order in which they first appear; R is what has appeared so
far. A first appearance is not betted on. Any other draw j, given that it lies in R, has probability
p(j)/p(R), which with theta_k = p(k)/p(1..k) is theta_j prod_{k in R, k > j} (1 - theta_k): a chain
of yes-or-no questions, "is it k, or one before k?". The test predicts every answer by those that
the same context (the state and action before) has had, and leans on all contexts where that has
few: (yes + m)/(yes + no + 1) with m = (all yes + 1/2)/(all yes + all no + 1). Wealth E is the
product of its predictions over the *largest* likelihood of all answers under the hypothesis, prod_k
max_theta theta^yes (1 - theta)^no.

Validity: context, R and prediction are known before the successor is drawn, and a prediction is a
distribution on R. So the product of prediction over p(j)/p(R) is a martingale with mean 1 under any
p, whatever the policy does and whoever chose it; E, with the supremum in the denominator, is at
most that. By Ville's inequality E ever reaches 1/a with probability at most a. The i-th pair to
show a second successor (a stopping time; before it E = 1) is held to a = alpha/(i(i+1)), which add
up to alpha: in a world that is Markov in its states, and in which stages are alike, *no* state is
named, ever, with probability 1 - alpha.

What it does not see: a past that the step before does not tell apart, differences that are small
for the visits there are, and states that nobody came to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, log
from typing import Any

import numpy as np
import numpy.typing as npt

from covgame.episodes import LAST, Block
from covgame.types import END

ALPHA = 0.01
"""In a world that is Markov a run names any state with at most this probability."""

BEGINNING = -1
"""The context of a first step."""

Contexts = dict[int, tuple[list[int], list[int]]]


class _Pair:
    """The answers that a pair has given, in all and by context; of question 0 there is no doubt."""

    def __init__(self) -> None:
        self.number = 0  # among the pairs with more than one successor, from 1 on
        self.ranks: dict[int, int] = {}
        self.yes: list[int] = []
        self.no: list[int] = []
        self.contexts: Contexts = {}
        self.predicted = 0.0  # the log of all predictions

    def appear(self, successor: int) -> None:
        """Take up a successor that was never seen here."""
        self.ranks[successor] = len(self.ranks)
        self.yes.append(0)
        self.no.append(0)

    def answer(self, context: int, rank: int) -> None:
        """Predict the answers of a draw, then count them."""
        size = len(self.yes)
        yes, no = self.contexts.setdefault(context, ([], []))
        if len(yes) < size:
            more = [0] * (size - len(yes))
            yes += more
            no += more
        for k in range(max(rank, 1), size):
            lean = (self.yes[k] + 0.5) / (self.yes[k] + self.no[k] + 1.0)
            chance = (yes[k] + lean) / (yes[k] + no[k] + 1.0)
            if k == rank:
                self.predicted += log(chance)
                yes[k] += 1
                self.yes[k] += 1
            else:
                self.predicted += log(1.0 - chance)
                no[k] += 1
                self.no[k] += 1

    @property
    def log_wealth(self) -> float:
        return self.predicted - sum(map(_most_likely, self.yes, self.no))


def _most_likely(yes: int, no: int) -> float:
    """The log of the largest likelihood of so many answers."""
    if not yes or not no:
        return 0.0
    return yes * log(yes / (yes + no)) + no * log(no / (yes + no))


class Ways:
    """What followed every pair, by the step before it."""

    def __init__(self, actions: int) -> None:
        self.actions = actions
        self.single: dict[int, int] = {}  # the successor of pairs that have shown only one
        self.pairs: dict[int, _Pair] = {}  # the others
        self.doubtful = 0  # how many these are

    def tell(self, block: Block) -> None:
        """Count episodes; where one was cut short, the state that was shown is what followed."""
        rows = (block.state * self.actions + block.action).tolist()
        followed, last = block.next_state.copy(), block.last
        unseen = np.where(followed[last] < 0, LAST, followed[last])
        followed[last] = np.where(block.has_terminated, END, unseen)
        successors, step = followed.tolist(), 0
        for length in block.lengths.tolist():
            context = BEGINNING
            for row, successor in zip(
                rows[step : step + length], successors[step : step + length], strict=True
            ):
                if successor != LAST:
                    self._hear(row, context, successor)
                context = row
            step += length

    def _hear(self, row: int, context: int, successor: int) -> None:
        pair = self.pairs.get(row)
        if pair is None:  # with a single successor there is nothing to predict
            first = self.single.setdefault(row, successor)
            if first == successor:
                return
            pair = self.pairs[row] = _Pair()
            pair.appear(self.single.pop(row))
            self.doubtful += 1
            pair.number = self.doubtful
        rank = pair.ranks.get(successor)
        if rank is None:
            pair.appear(successor)
        else:
            pair.answer(context, rank)

    def evidence(self) -> dict[int, float]:
        """Per state with a doubtful pair: log10 of E/(i(i+1)), of its most telling action."""
        found: dict[int, float] = {}
        for row, pair in self.pairs.items():
            state = row // self.actions
            log_weighed = pair.log_wealth - log(pair.number * (pair.number + 1))
            found[state] = max(found.get(state, -inf), log_weighed / log(10))
        return found

    def aliased(self, alpha: float = ALPHA) -> list[tuple[int, float]]:
        """(state, log10 of the evidence) of states to split, the clearest first."""
        least = -log(alpha) / log(10)
        named = [(state, value) for state, value in self.evidence().items() if value >= least]
        return sorted(named, key=lambda pair: (-pair[1], pair[0]))

    # ------------------------------------------------------------------- to be saved

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All of it as named arrays."""
        pairs = self.pairs.items()
        ranks = list(self.single.items())
        ranks += [(row, successor) for row, pair in pairs for successor in pair.ranks]
        answers = [
            (row, context, k, yes[k], no[k])
            for row, pair in pairs
            for context, (yes, no) in pair.contexts.items()
            for k in range(len(yes))
        ]
        return {
            "ways_pairs": _table(
                [(row, 0) for row in self.single] + [(row, pair.number) for row, pair in pairs], 2
            ),
            "ways_predicted": np.array(
                [0.0] * len(self.single) + [pair.predicted for _, pair in pairs], dtype=np.float64
            ),
            "ways_ranks": _table(ranks, 2),
            "ways_answers": _table(answers, 5),
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from such arrays."""
        self.single, self.pairs, self.doubtful = {}, {}, 0
        known = zip(arrays["ways_pairs"].tolist(), arrays["ways_predicted"].tolist(), strict=True)
        for (row, number), predicted in known:
            if not number:
                continue
            pair = self.pairs[row] = _Pair()
            pair.number, pair.predicted = number, predicted
            self.doubtful = max(self.doubtful, number)
        for row, successor in arrays["ways_ranks"].tolist():
            if row in self.pairs:
                self.pairs[row].appear(successor)
            else:
                self.single[row] = successor
        for row, context, k, yes, no in arrays["ways_answers"].tolist():
            pair = self.pairs[row]
            own = pair.contexts.setdefault(context, ([], []))
            own[0].append(yes)
            own[1].append(no)
            pair.yes[k] += yes
            pair.no[k] += no


def _table(rows: Sequence[tuple[int, ...]], columns: int) -> npt.NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, columns)
