"""Why the program is solved in units of reachability: methods and units side by side.

    python3 dev.py bench units [--quick] [--limit SECONDS]

Seconds to solve the minimum-flow program of a uniform target, and the certified gap of the
answer. "As written" are the paper's units (visits), "uniform" measures flow in multiples of the
uniform policy's occupancy, "reach" in multiples of a bound on the chance to get there, as covgame
does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.flow.highs import Method, solve
from covgame.flow.min_flow import ScaledProgram, certify
from covgame.flow.polytope import flow_polytope
from covgame.mdp import dp
from covgame.mdp.transitions import Transitions
from covgame.types import FloatHS, Policy

QUICK = ["garnet:states=30,actions=4,horizon=10"]
FULL = [
    "garnet:states=700,actions=4,horizon=10",
    "grid:rows=35,columns=35,horizon=25",
    "riverswim:states=16,horizon=400",
]


def as_written(transitions: Transitions) -> FloatHS:
    """Flow counted in visits."""
    return np.ones(transitions.shape.hs)


def uniform_policy(transitions: Transitions) -> FloatHS:
    """Flow in multiples of what the uniform policy visits."""
    spread: FloatHS = dp.occupancy(transitions, Policy.uniform(transitions.shape)).sum(axis=2)
    return spread


VARIANTS: dict[str, tuple[Method, Callable[[Transitions], FloatHS]]] = {
    "interior point, as written": (Method.INTERIOR, as_written),
    "interior point, reach": (Method.INTERIOR, dp.reach_bound),
    "PDLP, as written": (Method.FIRST_ORDER, as_written),
    "PDLP, uniform": (Method.FIRST_ORDER, uniform_policy),
    "PDLP, reach": (Method.FIRST_ORDER, dp.reach_bound),
}


def main() -> None:
    """Measure every world in every variant."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one small world, not saved")
    parser.add_argument("--limit", type=float, default=15.0, help="seconds that a solve may take")
    arguments = parser.parse_args()
    rows = [measure(env, arguments.limit) for env in (QUICK if arguments.quick else FULL)]
    if not arguments.quick:
        _results.write("units", rows, limit=arguments.limit)


def measure(env: str, limit: float) -> dict[str, Any]:
    """Seconds and gap of every variant on one world."""
    model = cg.make(env).require_model("a benchmark")
    target = cg.uniform(50).resolve(model.transitions)
    polytope = flow_polytope(model.transitions)
    row: dict[str, Any] = {"env": env, "variables": len(polytope.cells)}
    for name, (method, units) in VARIANTS.items():
        program = ScaledProgram(target, polytope, units(model.transitions))
        start = time.perf_counter()
        try:
            answer = solve(program.program, method, limit)
        except cg.SolverFailed:
            row[name] = None
            continue
        seconds = time.perf_counter() - start
        flow, prices = program.flow(answer), program.prices(answer)
        certified = certify(model.transitions, target, flow, prices)
        gap = certified.dual_gap if np.isfinite(certified.upper) else None
        row[name] = {"seconds": seconds, "gap": gap}
    print(row, flush=True)
    return row


if __name__ == "__main__":
    main()
