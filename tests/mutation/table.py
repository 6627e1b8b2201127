"""Which tests cover which module, which changes are tried in CI, and which need no test."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

from tests.mutation.changes import Change

PLACES = ("confidence.py", "pac/*.py", "game/*.py", "flow/*.py", "kernels/*.py")
EXCEPT = ("kernels/jit.py", "game/growth.py")
"""What is mutated, and what not: plain Python never gets to the compiler, and targets that grow are
tested by whole runs, which take minutes without it."""

CERTIFICATES = ("test_certificates_by_hand.py", "test_recursions.py")
SETS = (*CERTIFICATES, "test_confidence_sets.py")
BUDGET = ("test_budget.py", "test_optimism.py")
PAPER = ("test_pac_by_hand.py", "test_principle_by_hand.py")
TESTS: dict[str, tuple[str, ...]] = {
    "confidence.py": ("test_confidence.py",),
    "kernels/confidence.py": SETS,
    "kernels/budget.py": BUDGET,
    "kernels/by_counts.py": (
        "test_tiny_games.py::test_rounds_by_counts",
        "test_batches.py::test_more_than_int64_can_hold_is_refused",
    ),
    "kernels/planner.py": (
        "test_tiny_games.py::test_asked_and_told",
        "test_tiny_games.py::test_peers",
    ),
    "kernels/curiosity.py": ("test_tiny_games.py::test_peers",),
    "kernels/shortest_path.py": ("test_tiny_games.py::test_shortest_paths",),
    "kernels/expected_steps.py": ("test_nearest_untried.py",),
    "kernels/policies.py": (
        "test_tiny_games.py::test_peers",
        "test_tiny_games.py::test_shortest_paths",
        "test_certified.py::test_compiled_episodes_of_a_policy_are_the_simulated_ones",
    ),
    "kernels/*": ("test_tiny_games.py",),
    "pac/mixtures.py": SETS,
    "pac/error_bounds.py": (*CERTIFICATES, *BUDGET, "test_certified_by_hand.py"),
    "pac/certified.py": ("test_certified_by_hand.py",),
    "pac/tasks.py": (*PAPER, "test_certified_by_hand.py"),
    "pac/*": PAPER,
    "game/presets.py": ("test_planner.py",),
    "game/planner.py": (
        "test_planner.py",
        "test_lookahead.py::test_bonuses_along_a_path_are_bounded",
    ),
    "game/adversary.py": ("test_adversary.py", "test_tiny_games.py::test_asked_and_told"),
    "game/counts.py": ("test_counts.py", "test_tiny_games.py::test_asked_and_told"),
    "game/successors.py": ("test_counts.py", "test_tiny_games.py::test_asked_and_told"),
    "game/lookahead.py": (
        "test_lookahead.py::test_depths",
        "test_lookahead.py::test_the_depth_by_hand",
    ),
    "game/progress.py": ("test_progress.py",),
    "game/in_flight.py": ("test_progress.py",),
    "game/*": (
        "test_tiny_games.py::test_asked_and_told",
        "test_tiny_games.py::test_rounds_by_counts",
        "test_adversary.py",
        "test_counts.py",
    ),
    "flow/functionals.py": ("test_functionals.py",),
    "flow/floor.py": ("test_floor.py",),
    "flow/alternatives.py": ("test_floor.py",),
    "flow/pedel.py": ("test_functionals.py",),
    "flow/near_optimal.py": ("test_near_optimal.py", "test_functionals.py"),
    "flow/active.py": ("test_near_optimal.py", *PAPER),
    "flow/measures.py": ("test_flow_by_hand.py", "test_measures.py", "test_functionals.py"),
    "flow/*": (
        "test_flow_by_hand.py",
        "test_min_flow.py",
        "test_measures.py",
        "test_functionals.py",
    ),
}
"""The first pattern that fits a module names the files of tests to run, in this order."""

TOO_LONG = {
    "test_means_stay_inside_at_all_times",
    "test_transitions_stay_inside_at_all_times",
    "test_stages_borrow_as_far_as_they_agree",
    "test_borrowing_saves_episodes_where_stages_agree",
    "test_the_best_of_a_ball_against_a_general_minimiser",
    "test_what_cannot_be_counted_is_an_error_by_name",
    "test_by_counts_from_the_command_line",
    "test_a_game_by_counts_ends_covered",
    "test_lazy_play_covers",
    "test_a_batch_of_one_is_exact_play",
    "test_the_command",
    "test_pooled_floors_of_a_command",
    "test_rewards_outside_the_unit_interval",
    "test_what_is_refused",
    "test_runs_take_more_than_the_floor",
    "test_no_floor_beside_what_it_is_not_about",
    "test_floors_of_the_table",
    "test_the_joint_budget_fails_rarely",
    "test_bounds_on_the_best_value_hold",
    "test_the_search_keeps_what_it_finds",
    "test_the_upper_bound_holds_where_pay_tells_the_successor",
}
"""Tests that take seconds without the compiler, or start processes."""

GROUPS = ("confidence.py", "kernels/confidence.py", "kernels/*", "pac/*", "game/*", "flow/*")
"""Samples take the same number of each, as far as there are so many."""


def tests(place: str) -> tuple[str, ...]:
    """The files of tests that cover a module."""
    return next(files for pattern, files in TESTS.items() if fnmatch(place, pattern))


def group(place: str) -> str:
    return next(pattern for pattern in GROUPS if fnmatch(place, pattern))


QUICK = [
    ("confidence.py", "S * log(8 * e * (n + 1))", "S * log(4 * e * (n + 1))"),
    ("confidence.py", "24 * S * H**3", "24 * S * H**2"),
    ("confidence.py", "16 * H**2 * log(2 / delta)", "16 * H**2 * log(1 / delta)"),
    ("confidence.py", "needed <= precision * episodes / 4", "needed <= precision * episodes"),
    ("kernels/*.py", "left = float(H - 1 - h)", "left = float(H - 2 - h)"),
    ("kernels/*.py", "alpha = 1.0 / symbols", "alpha = 0.5"),
    ("kernels/*.py", "constant = math.log(math.pi)", "constant = 0.0"),
    ("kernels/*.py", "cost = min(cost, radii[i] / theta)", "cost = min(cost, radii[i])"),
    (
        "kernels/confidence.py",
        "if entry.size < most_successors:",
        "if entry.size <= most_successors:",
    ),
    ("kernels/*.py", "b = 8 * beta", "b = 2 * beta"),
    ("kernels/*.py", "min(fastest, RATE * math.sqrt", "min(fastest, 0.5 * math.sqrt"),
    ("pac/error_bounds.py", "theta * (H - 1) ** 2 / 8", "theta * (H - 1) ** 2 / 16"),
    ("pac/error_bounds.py", "= 1 / 8, 1 / 4, 1 / 4, 3 / 8", "= 1 / 8, 1 / 2, 1 / 4, 3 / 8"),
    ("pac/error_bounds.py", "delta / 2), delta / 2)", "delta / 2), delta)"),
    ("pac/error_bounds.py", "log(len(WEIGHTS) * len(CENTRES) / self.risk)", "log(1 / self.risk)"),
    ("pac/error_bounds.py", "log(H) if counts.pooled else 0.0", "0.0"),
    ("kernels/budget.py", "LEAST_COUNT = 6", "LEAST_COUNT = 5"),
    ("kernels/budget.py", "WIDEST_CAP = 0.69", "WIDEST_CAP = 0.8"),
    ("kernels/budget.py", "rate = 0.5 * math.exp(-cap)", "rate = 0.5 * math.exp(cap)"),
    ("kernels/budget.py", "most = 1.0 - (0.5 * c + 1.0) / n", "most = 1.0 - 0.5 * c / n"),
    ("kernels/budget.py", "pull += times / n * ((1.0", "pull -= times / n * ((1.0"),
    ("kernels/budget.py", "base -= start", "base += start"),
    ("kernels/budget.py", "price = mu / max(reach[i], 1e-9)", "price = mu * max(reach[i], 1e-9)"),
    ("kernels/budget.py", "lost = regret(float(n)) + mixed", "lost = regret(float(n))"),
    (
        "kernels/budget.py",
        "n, beyond, size = visits[pair], high, 0",
        "n, beyond, size = visits[pair], low, 0",
    ),
    ("kernels/budget.py", "last = horizon - 2 if pooled", "last = horizon - 3 if pooled"),
    ("kernels/budget.py", "last = horizon - 1 if pooled", "last = horizon - 2 if pooled"),
    ("pac/error_bounds.py", "self.attempt * (self.attempt + 1)", "self.attempt * self.attempt"),
    ("pac/mixtures.py", "rows = S * A if self.counts.pooled else S * A * (H - 1)", "rows = S * A"),
    ("pac/mixtures.py", "functions = S * A * H", "functions = S * A"),
    ("pac/mixtures.py", "level = log(len(n) / self.delta)", "level = log(1 / self.delta)"),
    ("pac/principle.py", "- 2 * self.width(self.k - 1", "- self.width(self.k - 1"),
    ("pac/principle.py", "sqrt(beta * unsure)", "sqrt(beta * unsure) / 2"),
    ("pac/principle.py", "self.delta / (4 * (self.k + 1) ** 2)", "self.delta / 4"),
    ("pac/pce.py", "self.delta / (6 * (self.k + 1) ** 2)", "self.delta / (6 * (self.k + 1))"),
    ("pac/visitations.py", "share / 2 - precision / 16", "share / 2 - precision / 32"),
    ("game/planner.py", "8 * self.beta(observed)", "2 * self.beta(observed)"),
    ("game/adversary.py", "(math.sqrt(2) - 1) / (math.e - 2)", "(math.sqrt(2) + 1) / (math.e - 2)"),
    ("game/presets.py", "delta / 2, scale", "delta, scale"),
    ("game/planner.py", "self.path_bonus / stages_left)", "self.path_bonus)"),
    ("flow/polytope.py", "value.append(-probability)", "value.append(probability)"),
    ("flow/floor.py", "(1 - 2 * delta) * log((1 - delta) / delta)", "log((1 - delta) / delta)"),
    ("flow/floor.py", "(1 - ROUNDING) * total / most", "2 * total / most"),
    ("flow/floor.py", "difference > epsilon and", "difference > epsilon / 2 and"),
    ("flow/floor.py", "family.stationary else shape.horizon - 1", "False else shape.horizon - 1"),
    ("flow/floor.py", "(1 - family.rewards, 1 - rewards)", "(family.rewards, rewards)"),
]
"""(files, old text, new text): what a guarantee rests on, in half a minute."""

_LISTED = (Path(__file__).parent / "argued.txt").read_text().splitlines()
ARGUED = [tuple(line.split(" :: ")) for line in _LISTED if not line.startswith("#")]
"""(module, function, old, new, why): patterns of changes that no test can or need notice."""


def argued(place: str, change: Change) -> str | None:
    """The argument for a change, if there is one."""
    is_ = (place, change.function, change.old, change.new)
    for *patterns, why in ARGUED:
        if all(fnmatch(one, pattern) for one, pattern in zip(is_, patterns, strict=True)):
            return why
    return None
