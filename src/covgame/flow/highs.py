"""HiGHS: a linear program in, an answer with multipliers out, or an error by name."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from covgame import signals
from covgame.errors import Infeasible, SolverFailed
from covgame.flow.polytope import SparseColumns
from covgame.types import FloatArray, IntArray


class Method(Enum):
    """How to solve; ``docs/decisions`` has the measurements behind the choice."""

    VERTEX = "interior point, then crossover to a vertex"
    SIMPLEX = "dual simplex"
    PRIMAL = "primal simplex, from where the last answer was"
    INTERIOR = "interior point"
    FIRST_ORDER = "primal-dual first-order method"
    FIRST_ORDER_TIGHT = "primal-dual first-order method, tighter"
    STAGEWISE = "interior point on blocks of stages, without HiGHS (flow/stagewise.py)"


MOST_ITERATIONS = 500_000
"""Of the first-order method, a hundred times what it takes; hopeless numbers have no other end."""


def _first_order(tolerance: float) -> dict[str, Any]:
    return {
        "solver": "pdlp",
        "presolve": "off",
        "pdlp_iteration_limit": MOST_ITERATIONS,
        "pdlp_optimality_tolerance": tolerance,
        "primal_feasibility_tolerance": tolerance,
        "dual_feasibility_tolerance": tolerance,
    }


OPTIONS: dict[Method, dict[str, Any]] = {
    Method.VERTEX: {"solver": "ipm", "run_crossover": "on"},
    Method.SIMPLEX: {"solver": "simplex"},
    Method.PRIMAL: {"solver": "simplex", "simplex_strategy": 4},
    Method.INTERIOR: {"solver": "ipm", "run_crossover": "off", "ipm_iteration_limit": 300},
    Method.FIRST_ORDER: _first_order(1e-6),
    Method.FIRST_ORDER_TIGHT: _first_order(1e-8),
}


LARGE = 2_000
"""Programs with at least this many columns run in a thread, so that they can be cancelled."""

SLICE = 0.05
SECONDS_TO_CANCEL = 0.5


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Minimise cost x subject to lower <= x <= upper and row_lower <= matrix x <= row_upper."""

    cost: FloatArray
    lower: FloatArray
    matrix: SparseColumns
    row_lower: FloatArray
    row_upper: FloatArray
    upper: FloatArray | None = None  # None: no bounds above


@dataclass(frozen=True, eq=False)
class Answer:
    """A solution with the multipliers of the rows and of the bounds x >= lower."""

    value: float
    x: FloatArray
    row_multipliers: FloatArray
    bound_multipliers: FloatArray


def solve(program: LinearProgram, method: Method, seconds: float = np.inf) -> Answer:
    """Solve, or raise ``SolverFailed`` with the solver's own verdict."""
    return Solver(program, method, seconds).solve()


class Solver:
    """A program that may be solved again for other costs: the constraints are handed over once."""

    def __init__(self, program: LinearProgram, method: Method, seconds: float = np.inf) -> None:
        import highspy

        self.program, self.method = program, method
        self.highs: Any = highspy.Highs()  # type: ignore[no-untyped-call]
        options = {"output_flag": False, **OPTIONS[method]}
        for name, value in options.items():
            _require_ok(self.highs.setOptionValue(name, value), f"option {name}")
        _require_ok(self.highs.passModel(_to_highs(program)), "passing the program")
        self.seconds = seconds

    def solve(self) -> Answer:
        """Solve, from where the last answer was if the method can start anywhere."""
        import highspy

        signals.check()
        left = signals.seconds_left()
        _require_ok(self.highs.setOptionValue("time_limit", min(self.seconds, left)), "time_limit")
        if len(self.program.cost) < LARGE or not (_hears_signals() or left < np.inf):
            self.highs.run()
        else:
            self._run_watched()
        status = self.highs.getModelStatus()
        if status == highspy.HighsModelStatus.kTimeLimit:
            signals.check()
        if status in (
            highspy.HighsModelStatus.kInfeasible,
            highspy.HighsModelStatus.kUnboundedOrInfeasible,
        ):
            raise Infeasible(f"a program of {len(self.program.cost):,} variables has no solution")
        if status != highspy.HighsModelStatus.kOptimal:
            raise SolverFailed(
                f"HiGHS ended with {self.highs.modelStatusToString(status)!r} "
                f"({self.method.value}) on a program of {len(self.program.cost):,} variables"
            )
        solution = self.highs.getSolution()
        return Answer(
            self.highs.getInfo().objective_function_value,
            np.array(solution.col_value),
            np.array(solution.row_dual),
            np.array(solution.col_dual),
        )

    def _run_watched(self) -> None:
        """Solve in a thread, while this one handles signals and the time limit.

        Simplex and interior point can be cancelled. Presolve, crossover and the first-order method
        cannot: their thread is left behind and ends with the process or its own time limit.
        """
        if not self.highs.HandleUserInterrupt:
            self.highs.HandleUserInterrupt = True
        # Not startSolve, whose lock all solvers share: a thread left behind would hold it.
        thread = threading.Thread(target=self._run_in_thread, daemon=True)
        try:
            thread.start()
            while thread.is_alive():
                signals.check()
                thread.join(SLICE)
        except BaseException:
            self.highs.cancelSolve()
            thread.join(SECONDS_TO_CANCEL)
            if thread.is_alive():
                signals.leave_behind()
            raise

    def _run_in_thread(self) -> None:
        self.highs.run()
        self.highs.resetGlobalScheduler(False)  # the thread ends, and its scheduler with it

    def change_costs(self, columns: IntArray, costs: FloatArray) -> None:
        """Other costs for some columns."""
        status = self.highs.changeColsCost(len(columns), columns.astype(np.int32), costs)
        _require_ok(status, "other costs")

    def change_lower(self, columns: IntArray, lower: FloatArray) -> None:
        """Other lower bounds for some columns that have no upper ones."""
        no_upper = np.full(len(columns), np.inf)
        status = self.highs.changeColsBounds(
            len(columns), columns.astype(np.int32), lower, no_upper
        )
        _require_ok(status, "other bounds")

    def change_row_lower(self, first: int, lower: FloatArray) -> None:
        """Other lower bounds for the rows from ``first`` on, which have no upper ones."""
        for row, least in enumerate(lower.tolist(), start=first):
            _require_ok(self.highs.changeRowBounds(row, least, np.inf), "other bounds of rows")


def _hears_signals() -> bool:
    return threading.current_thread() is threading.main_thread()


def _to_highs(program: LinearProgram) -> Any:
    import highspy

    model = highspy.HighsLp()
    model.num_col_ = len(program.cost)
    model.num_row_ = program.matrix.rows
    model.col_cost_ = program.cost
    model.col_lower_ = program.lower
    no_upper = np.full(len(program.cost), highspy.kHighsInf)
    model.col_upper_ = no_upper if program.upper is None else program.upper
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
