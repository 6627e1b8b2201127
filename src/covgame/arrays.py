"""Two sums that NumPy has no good name for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from covgame.types import FloatArray, IntArray


def sum_by_index(index: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """result[i] is the sum of the weights whose index is i."""
    sums = np.bincount(index, weights, minlength=size)
    return sums.astype(np.float64, copy=False)  # NumPy's sum of nothing is a whole number


def of_each_kind(function: Callable[[float], float], values: FloatArray) -> FloatArray:
    """A function of Python's, of every value; asked once for each that is different.

    NumPy's own logarithms and exponentials may differ in the last bit.
    """
    if len(values) and values.min() == values.max():
        return np.full(len(values), function(float(values[0])))
    different, place = np.unique(values, return_inverse=True)
    results = np.array([function(value) for value in different.tolist()], dtype=np.float64)
    return results[place.reshape(-1)]


def sum_by_segment(values: FloatArray, start: IntArray) -> FloatArray:
    """result[i] is the sum of values[start[i]:start[i+1]], 0 for an empty segment."""
    result = np.zeros((len(start) - 1, *values.shape[1:]))
    filled = np.flatnonzero(np.diff(start))
    if filled.size:
        result[filled] = np.add.reduceat(values, start[filled], axis=0)
    return result
