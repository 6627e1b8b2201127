"""HiGHS: a linear program in, an answer with multipliers out, or an error by name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from covgame.errors import SolverFailed
from covgame.flow.polytope import SparseColumns
from covgame.types import FloatArray


class Method(Enum):
    """How to solve; ``docs/decisions`` has the measurements behind the choice."""

    VERTEX = "interior point, then crossover to a vertex"
    SIMPLEX = "dual simplex"
    INTERIOR = "interior point"
    FIRST_ORDER = "primal-dual first-order method"
    FIRST_ORDER_TIGHT = "primal-dual first-order method, tighter"


def _first_order(tolerance: float) -> dict[str, Any]:
    return {
        "solver": "pdlp",
        "presolve": "off",
        "pdlp_optimality_tolerance": tolerance,
        "primal_feasibility_tolerance": tolerance,
        "dual_feasibility_tolerance": tolerance,
    }


OPTIONS: dict[Method, dict[str, Any]] = {
    Method.VERTEX: {"solver": "ipm", "run_crossover": "on"},
    Method.SIMPLEX: {"solver": "simplex"},
    Method.INTERIOR: {"solver": "ipm", "run_crossover": "off"},
    Method.FIRST_ORDER: _first_order(1e-6),
    Method.FIRST_ORDER_TIGHT: _first_order(1e-8),
}


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Minimise cost x subject to x >= lower and row_lower <= matrix x <= row_upper."""

    cost: FloatArray
    lower: FloatArray
    matrix: SparseColumns
    row_lower: FloatArray
    row_upper: FloatArray


@dataclass(frozen=True, eq=False)
class Answer:
    """A solution with the multipliers of the rows and of the bounds x >= lower."""

    value: float
    x: FloatArray
    row_multipliers: FloatArray
    bound_multipliers: FloatArray


def solve(program: LinearProgram, method: Method, seconds: float = np.inf) -> Answer:
    """Solve, or raise ``SolverFailed`` with the solver's own verdict."""
    import highspy

    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    options = {"output_flag": False, "time_limit": seconds, **OPTIONS[method]}
    for name, value in options.items():
        _require_ok(solver.setOptionValue(name, value), f"option {name}")
    _require_ok(solver.passModel(_to_highs(program)), "passing the program")
    solver.run()
    status = solver.getModelStatus()
    if status != highspy.HighsModelStatus.kOptimal:
        raise SolverFailed(
            f"HiGHS ended with {solver.modelStatusToString(status)!r} ({method.value}) on a "
            f"program of {len(program.cost):,} variables"
        )
    solution = solver.getSolution()
    return Answer(
        solver.getInfo().objective_function_value,
        np.array(solution.col_value),
        np.array(solution.row_dual),
        np.array(solution.col_dual),
    )


def _to_highs(program: LinearProgram) -> Any:
    import highspy

    model = highspy.HighsLp()
    model.num_col_ = len(program.cost)
    model.num_row_ = program.matrix.rows
    model.col_cost_ = program.cost
    model.col_lower_ = program.lower
    model.col_upper_ = np.full(len(program.cost), highspy.kHighsInf)
    model.row_lower_ = program.row_lower
    model.row_upper_ = program.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = program.matrix.start
    model.a_matrix_.index_ = program.matrix.index
    model.a_matrix_.value_ = program.matrix.value
    return model


def _require_ok(status: Any, what: str) -> None:
    import highspy

    if status == highspy.HighsStatus.kError:
        raise SolverFailed(f"HiGHS refused {what}")
