"""An interior-point method for programs whose rows are ordered by stage.

A column of the minimum-flow program meets the rows of one stage, of the next one, and those of
its groups. The normal matrix A D A' is therefore block tridiagonal with a border, and a block
Cholesky factorisation costs H S^2 (S + G) + H S G^2 operations for S states per stage and G
groups. General solvers do not see that order: on slippery worlds with groups over a hundred
stages, HiGHS takes minutes to factorise what takes less than a second here (decision record 3).

The method is Mehrotra's predictor-corrector. It yields its iterates, and the caller decides by
its certificate which one is good enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from covgame import signals
from covgame.arrays import sum_by_index, sum_by_segment
from covgame.errors import SolverFailed
from covgame.flow.blas import one_thread
from covgame.flow.highs import Answer, LinearProgram
from covgame.flow.polytope import SparseColumns
from covgame.types import FloatArray, IntArray

MOST_ITERATIONS = 80
PROMISING_GAP = 1e-4
"""Iterates are yielded from this relative gap on, besides the last."""

SMALLEST_GAP = 1e-10
"""Further iterations would lose digits again."""

START = 1000.0
STEP_TO_BOUNDARY = 0.9995
SHORTEST_STEP = 1e-4
REGULARISATION = 1e-14
"""Relative to the diagonal of the normal matrix, so that rounding cannot make it indefinite."""


def work(matrix: SparseColumns, blocks: IntArray) -> float:
    """Multiplications of one iteration, roughly; ``blocks`` as for ``iterates``."""
    sizes = np.diff(blocks).astype(np.float64)
    states, groups = sizes[:-1], sizes[-1]
    products = (np.diff(matrix.start).astype(np.float64) ** 2).sum()
    factors = (2 * states**3 + 2 * states**2 * groups + states * groups**2).sum()
    return float(factors + groups**3 + 10 * products)


def iterates(program: LinearProgram, blocks: IntArray) -> Iterator[Answer]:
    """Iterates of the interior-point method, from the first promising one on.

    ``blocks`` are the first rows of the stages, the first group row and the number of rows. Rows
    are equations, except that those of groups have a lower side only.
    """
    columns = len(program.cost)
    groups = np.arange(blocks[-2], blocks[-1])
    # x = lower + shifted, and matrix x - surplus = row_lower on the rows of groups
    matrix = SparseColumns(
        program.matrix.rows,
        np.concatenate([program.matrix.start, program.matrix.start[-1] + 1 + groups - blocks[-2]]),
        np.concatenate([program.matrix.index, groups]),
        np.concatenate([program.matrix.value, -np.ones(len(groups))]),
    )
    cost = np.concatenate([program.cost, np.zeros(len(groups))])
    lower = np.concatenate([program.lower, np.zeros(len(groups))])
    newton = _NormalEquations(matrix, blocks)
    wanted = program.row_lower - newton.times(lower)
    fixed_cost = float(program.cost @ program.lower)

    # Far inside: an infeasible start close to a bound takes many short steps.
    x, y, z = np.full(len(cost), START), np.zeros(len(wanted)), np.ones(len(cost))
    for iteration in range(MOST_ITERATIONS):
        signals.check()
        primal_error = wanted - newton.times(x)
        dual_error = cost - newton.transposed_times(y) - z
        value, bound = fixed_cost + cost @ x, fixed_cost + wanted @ y
        answer = Answer(float(value), (lower + x)[:columns], y, z[:columns])
        gap = abs(value - bound) / abs(value)
        if gap <= PROMISING_GAP or iteration + 1 == MOST_ITERATIONS:
            yield answer
        if gap <= SMALLEST_GAP:
            return
        centre = float(x @ z) / len(x)
        try:
            with one_thread():
                newton.factorise(x / z)
                dx, dy, dz = newton.direction(x, z, primal_error, dual_error, -x * z)
                ahead = (x + _step(x, dx) * dx) @ (z + _step(z, dz) * dz) / len(x)
                products = (ahead / centre) ** 3 * centre - x * z - dx * dz
                dx, dy, dz = newton.direction(x, z, primal_error, dual_error, products)
        except np.linalg.LinAlgError as error:
            raise SolverFailed(f"no Cholesky factor after {iteration} iterations") from error
        primal_step = min(1.0, STEP_TO_BOUNDARY * _step(x, dx, np.inf))
        dual_step = min(1.0, STEP_TO_BOUNDARY * _step(z, dz, np.inf))
        if not max(primal_step, dual_step) > SHORTEST_STEP:
            if gap > PROMISING_GAP:
                yield answer
            return
        x, y, z = x + primal_step * dx, y + dual_step * dy, z + dual_step * dz


def _step(at: FloatArray, direction: FloatArray, most: float = 1.0) -> float:
    """The longest step, ``most`` at most, that keeps all coordinates nonnegative."""
    falling = direction < 0
    return float(np.min(at[falling] / -direction[falling], initial=most))


@dataclass(eq=False)
class _Factor:
    """The Cholesky factor's blocks of one stage."""

    inverse: FloatArray  # of the diagonal block
    previous: FloatArray  # the block to the left, (S_h, S_{h-1})
    border: FloatArray  # transposed, (S_h, G)


class _NormalEquations:
    """A D A' y = r for one A and many D."""

    def __init__(self, matrix: SparseColumns, blocks: IntArray) -> None:
        self.matrix, self.blocks = matrix, blocks
        self.column = matrix.column
        self._prepare_products()

    def times(self, x: FloatArray) -> FloatArray:
        return sum_by_index(self.matrix.index, self.matrix.value * x[self.column], self.matrix.rows)

    def transposed_times(self, y: FloatArray) -> FloatArray:
        return sum_by_segment(self.matrix.value * y[self.matrix.index], self.matrix.start)

    def direction(
        self,
        x: FloatArray,
        z: FloatArray,
        primal_error: FloatArray,
        dual_error: FloatArray,
        products: FloatArray,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Newton's step towards feasibility and products x z that change by ``products``."""
        scale = x / z
        missing = dual_error - products / x
        dy = self.solve(primal_error + self.times(scale * missing))
        dx = scale * (self.transposed_times(dy) - missing)
        return dx, dy, (products - z * dx) / x

    def _prepare_products(self) -> None:
        """Which products of two entries of a column add up to which entry of the lower half."""
        start, index, value = self.matrix.start, self.matrix.index, self.matrix.value
        left, right = [], []
        lengths = np.diff(start)
        for length in np.unique(lengths):
            first = start[:-1][lengths == length]
            one, other = np.tril_indices(length)  # rows ascend within a column
            left.append((first[:, None] + one).ravel())
            right.append((first[:, None] + other).ravel())
        entry, partner = np.concatenate(left), np.concatenate(right)
        key = index[entry] * np.int64(self.matrix.rows) + index[partner]
        order = np.argsort(key, kind="stable")
        entry, partner, key = entry[order], partner[order], key[order]
        first = np.flatnonzero(np.concatenate([[True], np.diff(key) != 0]))
        self.product_start = np.concatenate([first, [len(key)]])
        self.product = value[entry] * value[partner]
        self.product_column = self.column[entry]
        self.row, self.partner = np.divmod(key[first], self.matrix.rows)
        block = np.searchsorted(self.blocks, self.row, side="right") - 1
        self.row_start = np.searchsorted(block, np.arange(len(self.blocks)))

    def factorise(self, scale: FloatArray) -> None:
        self.scale = scale
        entries = sum_by_segment(self.product * scale[self.product_column], self.product_start)
        diagonal = self.row == self.partner
        entries[diagonal] *= 1 + REGULARISATION
        stages, first_group = len(self.blocks) - 2, self.blocks[-2]
        groups = self.blocks[-1] - first_group
        border = slice(self.row_start[stages], self.row_start[stages + 1])
        group, state, value = self.row[border], self.partner[border], entries[border]
        corner = np.zeros((groups, groups))
        own = state >= first_group
        corner[group[own] - first_group, state[own] - first_group] = value[own]
        corner = np.tril(corner) + np.tril(corner, -1).T
        order = np.argsort(state, kind="stable")
        group, state, value = group[order] - first_group, state[order], value[order]
        limits = np.searchsorted(state, self.blocks)

        self.factors: list[_Factor] = []
        for h in range(stages):
            signals.check()
            low, high = self.blocks[h], self.blocks[h + 1]
            before = self.blocks[max(h - 1, 0)]
            rows = slice(self.row_start[h], self.row_start[h + 1])
            block = np.zeros((high - low, high - before))
            block[self.row[rows] - low, self.partner[rows] - before] = entries[rows]
            own_block, previous = block[:, low - before :], block[:, : low - before]
            own_block = np.tril(own_block) + np.tril(own_block, -1).T
            edge = np.zeros((high - low, groups))
            part = slice(limits[h], limits[h + 1])
            edge[state[part] - low, group[part]] = value[part]
            if h > 0:
                last = self.factors[-1]
                previous = previous @ last.inverse.T
                own_block = own_block - previous @ previous.T
                edge = edge - previous @ last.border
            inverse = np.linalg.inv(np.linalg.cholesky(own_block))
            edge = inverse @ edge
            corner -= edge.T @ edge
            self.factors.append(_Factor(inverse, previous, edge))
        self.corner = np.linalg.inv(np.linalg.cholesky(corner)) if groups else corner

    def solve(self, right: FloatArray) -> FloatArray:
        """With refinement: rounding grows as x / z spreads."""
        y = self._solve_once(right)
        for _ in range(2):
            residual = right - self.times(self.scale * self.transposed_times(y))
            y = y + self._solve_once(residual)
        return y

    def _solve_once(self, right: FloatArray) -> FloatArray:
        stages = len(self.factors)
        parts = np.split(right, self.blocks[1:-1])
        groups = parts.pop()
        for h, factor in enumerate(self.factors):
            if h > 0:
                parts[h] = parts[h] - factor.previous @ parts[h - 1]
            parts[h] = factor.inverse @ parts[h]
            groups = groups - factor.border.T @ parts[h]
        groups = self.corner.T @ (self.corner @ groups)
        for h in reversed(range(stages)):
            factor = self.factors[h]
            part = parts[h] - factor.border @ groups
            if h + 1 < stages:
                part = part - self.factors[h + 1].previous.T @ parts[h + 1]
            parts[h] = factor.inverse.T @ part
        return np.concatenate([*parts, groups])
