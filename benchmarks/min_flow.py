"""phi* beside scipy's linprog on the same linear program.

    python3 dev.py bench min_flow [--quick] [--limit SECONDS]

Both get the program as sparse arrays; covgame's time contains its scaling and certification,
scipy's only the solve. Each measurement runs in a process of its own, one after the other. Worlds
with long episodes are solved by covgame alone.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import numpy as np
from tests import long_worlds

import covgame as cg
from benchmarks import _results
from covgame.flow.min_flow import min_flow
from covgame.flow.polytope import flow_polytope
from covgame.targets.requests import parse_request

QUICK = [
    ("garnet:states=50,actions=4,horizon=10", "uniform:50"),
    ("grid:rows=8,columns=8,horizon=16", "uniform:50/pair"),
]
FULL = [
    ("garnet:states=180,actions=4,horizon=10", "uniform:50"),
    ("garnet:states=330,actions=4,horizon=20", "uniform:50"),
    ("garnet:states=720,actions=4,horizon=10", "uniform:50/pair"),
    ("garnet:states=1600,actions=4,horizon=20", "uniform:50"),
    ("grid:rows=20,columns=20,horizon=30", "uniform:50"),
    ("grid:rows=30,columns=30,horizon=50", "uniform:50"),
]
LONG_QUICK = ["corridor 20 150 0.3"]
LONG = [
    "corridor 100 200 0",
    "corridor 40 400 0.3",
    "corridor 100 200 0.3",
    "maze 11 140 0",
    "maze 9 250 0.05",
    "digraph 300 120 0",
    "digraph 144 80 0.1",
    "lock 100 120 0",
    "lock 100 120 0.5",
]
"""Function of ``tests.long_worlds``, states (or the side of a maze), stages, slip."""

SOLVERS = {"covgame": None, "scipy default": "highs", "scipy interior point": "highs-ipm"}


def main() -> None:
    """Measure every instance with every solver and save the table."""
    arguments = _arguments()
    rows = []
    for env, target in QUICK if arguments.quick else FULL:
        row: dict[str, Any] = {"env": env, "target": target}
        for solver, method in SOLVERS.items():
            measured = _results.in_own_process(
                "benchmarks.min_flow", "--one", solver, env, target, str(arguments.limit),
                seconds=600.0 if method is None else 20 + 1.2 * arguments.limit,
            ) or {"phi": None}  # fmt: skip
            row |= {f"{solver} {key}": value for key, value in measured.items()}
        rows.append(row)
        print(json.dumps(row), flush=True)
    long_rows = []
    for env in LONG_QUICK if arguments.quick else LONG:
        for target in ("uniform:1", "uniform:1/pair"):
            alone = _results.in_own_process(
                "benchmarks.min_flow", "--one", "covgame", env, target, "0", seconds=600.0
            )
            long_rows.append({"env": env, "target": target, **(alone or {"phi": None})})
            print(json.dumps(long_rows[-1]), flush=True)
    if not arguments.quick:
        _results.write("min_flow", rows, limit=arguments.limit, long=long_rows)


def measure(solver: str, env: str, target: str, limit: float) -> dict[str, Any]:
    """Seconds, memory and answer of one solver on one instance."""
    model = world(env)
    wanted = parse_request(target).resolve(model.transitions)
    size = {
        "variables": len(flow_polytope(model.transitions).cells),
        "transitions": len(model.transitions.next_state),
    }
    method = SOLVERS[solver]
    if method is None:
        return size | measure_covgame(model, wanted)
    return size | measure_scipy(model, wanted, method, limit)


def world(env: str) -> cg.TabularMDP:
    """A family by its name, or a world with long episodes by its function and numbers."""
    name, *numbers = env.split()
    if not numbers:
        return cg.make(env).require_model("a benchmark")
    states, horizon, slip = numbers
    made: cg.TabularMDP = getattr(long_worlds, name)(int(states), int(horizon), float(slip))
    return made


def measure_covgame(model: cg.TabularMDP, target: cg.Target) -> dict[str, Any]:
    """covgame, with everything it does from the kernel to the certificate."""
    before = _results.peak_memory()
    start = time.perf_counter()
    result = min_flow(model.transitions, target)
    return {
        "seconds": time.perf_counter() - start,
        "MB": _results.peak_memory() - before,
        "phi": result.min_episodes,
        "gap": result.dual_gap,
    }


def measure_scipy(
    model: cg.TabularMDP, target: cg.Target, method: str, limit: float
) -> dict[str, Any]:
    """scipy on the program as the paper writes it, over the reachable cells; phi None if late."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array, csr_array

    polytope = flow_polytope(model.transitions)
    matrix, columns = polytope.matrix, 1 + len(polytope.cells)
    conserve = csc_array((matrix.value, matrix.index, matrix.start), (matrix.rows, columns))
    column = polytope.column_of_cell()[target.members.cell]
    used = (column > 0) & ~target.per_cell[target.members.row]
    collect = csr_array(
        (np.ones(used.sum()), (target.members.row[used], column[used])), (len(target), columns)
    )[~target.per_cell]
    lower = np.zeros(columns)
    lower[1:] = target.cell_counts().ravel()[polytope.cells]
    before = _results.peak_memory()
    start = time.perf_counter()
    answer = linprog(
        np.eye(1, columns)[0],
        A_eq=conserve,
        b_eq=np.zeros(matrix.rows),
        A_ub=-collect if collect.shape[0] else None,
        b_ub=-target.counts[~target.per_cell] if collect.shape[0] else None,
        bounds=np.column_stack([lower, np.full(columns, np.inf)]),
        method=method,
        options={"time_limit": limit},
    )
    return {
        "seconds": time.perf_counter() - start,
        "MB": _results.peak_memory() - before,
        "phi": float(answer.fun) if answer.status == 0 else None,
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two small instances, not saved")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds that scipy may take")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], sys.argv[3], sys.argv[4], float(sys.argv[5]))))
    else:
        main()
