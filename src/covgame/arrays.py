"""Two sums that NumPy has no good name for."""

from __future__ import annotations

import numpy as np

from covgame.types import FloatArray, IntArray


def sum_by_index(index: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """result[i] is the sum of the weights whose index is i."""
    sums = np.bincount(index, weights, minlength=size)
    return sums.astype(np.float64, copy=False)  # NumPy's sum of nothing is a whole number


def sum_by_segment(values: FloatArray, start: IntArray) -> FloatArray:
    """result[i] is the sum of values[start[i]:start[i+1]], 0 for an empty segment."""
    result = np.zeros((len(start) - 1, *values.shape[1:]))
    filled = np.flatnonzero(np.diff(start))
    if filled.size:
        result[filled] = np.add.reduceat(values, start[filled], axis=0)
    return result
