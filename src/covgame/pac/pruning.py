"""PruneDataset (Algorithm 4), as written.

It keeps an episode because of its *later* states, so the successors that it keeps are not draws
from p any more, and whatever is estimated from them is biased (docs/pruning.md shows by how much).
It stands here to be looked at; nothing else in covgame uses it unless told to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from covgame.episodes import Episode
from covgame.types import FloatHSA, Shape


def prune(episodes: Iterable[Episode], target: FloatHSA) -> Iterator[Episode]:
    """The episodes that it keeps: each meets a cell that has fewer visits than it should have.

    Ends as soon as every cell has its visits. At most sum c episodes are kept, each c rounded up.
    """
    shape = Shape(*target.shape)
    visits = np.zeros(shape.cells)
    wanted = target.ravel()
    still_open = int((wanted > 0).sum())
    for episode in episodes:
        cells = list(episode.cells(shape))
        if not any(visits[cell] < wanted[cell] for cell in cells):
            continue
        for cell in cells:
            visits[cell] += 1
            still_open -= int(visits[cell] - 1 < wanted[cell] <= visits[cell])
        yield episode
        if still_open == 0:
            return
