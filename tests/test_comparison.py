"""The comparison: experiments as data, results that survive, tables that say what was measured."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from benchmarks.comparison import measures, running, summaries
from benchmarks.comparison.experiments import (
    CELLS,
    DENSE,
    FEW,
    LONG,
    PAIRS,
    PRICES,
    PROFILES,
    RIVER,
    SUITE,
    TOO_DEAR,
    TUNING_WORLDS,
    Experiment,
    Sweep,
    experiments_of,
    seeds_of,
)
from benchmarks.comparison.forms import CHOSEN, FORMS
from benchmarks.comparison.markdown import update_page
from benchmarks.comparison.measures import KINDS, measure, priced, world
from benchmarks.comparison.methods import MISSING, OURS, PEERS, method_named
from benchmarks.comparison.results import Journal, Result, Row, read_results, write_results
from benchmarks.comparison.running import run

from covgame.errors import BadInput
from covgame.flow.min_flow import min_flow

LOCK = Experiment("cover", "lock", ("uniform:2",), OURS, 0, 10.0)
EXPLORING = Experiment("cover", "lock", ("uniform:1", "uniform:2"), "RF-Express", 0, 10.0)


def covering(env: str, target: str, method: str, seed: int, tau: float, *, stopped: bool = False,
             phi: float = 10.0) -> list[Result]:  # fmt: skip
    about = ("cover", env, target, method, seed)
    measured = "stopped at" if stopped else "episodes"
    return [Result(*about, "phi", None, phi, "k"), Result(*about, measured, None, tau, "k")]


# ------------------------------------------------------------------------- experiments


@pytest.mark.parametrize("profile", PROFILES)
def test_profiles_hold_what_can_be_run(profile: str) -> None:
    listed = experiments_of(profile)
    assert len({one.key for one in listed}) == len(listed)
    for one in listed:
        assert one.kind in KINDS
        if one.kind in ("cover", "progress", "visits"):
            assert method_named(one.method).name == one.method


def test_the_full_profile_compares_all_peers_on_all_worlds() -> None:
    runs = [one for one in experiments_of("full") if one.kind == "cover" and one.env in SUITE]
    for method in (OURS, *PEERS):
        for env, target in product(SUITE, CELLS):
            seeds = {
                one.seed for one in runs
                if (one.method, one.env) == (method, env) and target in one.targets
            }  # fmt: skip
            assert seeds == set(range(seeds_of(env, target, method)))
            assert len(seeds) >= (0 if (env, target) in TOO_DEAR else FEW.get(method, 12))


@pytest.mark.parametrize("env", SUITE)
def test_the_prices_that_decide_on_seeds_are_right(env: str) -> None:
    cells = world(env).shape.cells
    for target, price in zip((*CELLS, *PAIRS), PRICES[env], strict=True):
        phi = priced(env, target)[1]
        assert price == pytest.approx(phi, rel=0.05)
        is_dear = phi * cells > 2e7 or (env in LONG and target in CELLS)
        assert is_dear == ((env, target) in TOO_DEAR)


def test_constants_are_chosen_on_other_worlds() -> None:
    assert not set(TUNING_WORLDS) & {*SUITE, RIVER}
    assert {len(forms) for forms in FORMS.values()} <= {4, 6, 8, 16}


def test_the_forms_that_are_shown_are_those_that_tuning_chose() -> None:
    """The fewest episodes over phi* on the tuning worlds, for cells and for pairs."""
    root = Path(__file__).parent.parent
    data = summaries.Covering(read_results(root / "benchmarks" / "results" / "tuning.parquet"))
    assert data.worlds == list(TUNING_WORLDS)
    for peer, kinds in CHOSEN.items():
        for kind, form in kinds.items():
            scores = summaries.tuned(data, peer, kind)
            assert len(scores) == len(FORMS[peer])
            assert form == min(scores, key=lambda name: scores[name].mean)


def test_a_peer_runs_once_for_the_targets_of_one_form() -> None:
    sweep = Sweep("cover", ("lock",), ("EntGame",), ("uniform:1", "uniform:2", "uniform:3/pair"))
    groups = [one.targets for one in sweep.experiments()]
    assert groups == [("uniform:1", "uniform:2"), ("uniform:3/pair",)]


def test_who_does_not_use_the_target_runs_once_for_all() -> None:
    sweep = Sweep("cover", ("lock",), (OURS, "RF-Express"), ("uniform:1", "uniform:2"), 3)
    by_method = [one.method for one in sweep.experiments()]
    assert by_method.count(OURS) == 6
    assert by_method.count("RF-Express") == 3


def test_an_unknown_profile_is_answered_with_the_known_ones() -> None:
    with pytest.raises(BadInput, match="quick"):
        experiments_of("fast")


# ---------------------------------------------------------------------------- measures


def test_covering_gives_episodes_and_the_bound_for_every_target() -> None:
    rows = {(row.measure, row.target): row.value for row in measure(EXPLORING)}
    assert rows["phi", "uniform:1"] == pytest.approx(rows["phi", "uniform:2"] / 2)
    assert rows["episodes", "uniform:1"] <= rows["episodes", "uniform:2"]


def test_a_run_that_is_stopped_says_so() -> None:
    never = Experiment("cover", "lock", ("uniform:50",), "UCBVI", 0, 1.0)
    rows = {row.measure: row.value for row in measure(never)}
    assert rows["stopped at"] == math.ceil(rows["phi"])
    assert "episodes" not in rows


def test_measuring_again_gives_the_same() -> None:
    def measured(experiment: Experiment) -> list[Row]:
        return measure(experiment)[:-1]  # the last one is the clock

    for one in (LOCK, EXPLORING):
        assert measured(one) == measured(one)


def test_unbalanced_targets_ask_for_one_to_so_many() -> None:
    target, phi = priced("lock", "unbalanced:100")
    assert target.counts.min() >= 1
    assert 50 < target.counts.max() <= 100
    assert phi == pytest.approx(min_flow(world("lock").transitions, target).min_episodes)


def test_a_share_of_visits_only_grows() -> None:
    one = Experiment("progress", "lock", ("uniform:4",), OURS, 0, 5.0)
    shares = [row.value for row in measure(one) if row.measure == "share"]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)


def test_visits_add_up() -> None:
    one = Experiment("visits", "lock", ("uniform:4",), OURS, 0, 5.0)
    rows = measure(one)
    played = next(row.value for row in rows if row.measure == "played")
    assert sum(row.value for row in rows if row.measure == "visits") == 8 * played


@pytest.mark.parametrize("method", [OURS, DENSE])
def test_a_slow_machine_still_measures_once(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all the time had passed before the first episode."""
    monkeypatch.setattr(measures, "SPEED_SECONDS", 0.0)
    rows = measure(Experiment("speed", "grid@800", (), method, 0, 0.0))
    assert [row.measure for row in rows] == ["microseconds", "seconds"]
    assert rows[0].value > 0


# ----------------------------------------------------------------------------- results


def test_results_come_back_as_they_were(tmp_path: Path) -> None:
    results = covering("lock", "uniform:1", OURS, 0, 26.0)
    write_results(tmp_path / "r.parquet", results)
    assert read_results(tmp_path / "r.parquet") == results


def test_a_file_that_is_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist"):
        read_results(tmp_path)
    (tmp_path / "results.parquet").write_text("no")
    with pytest.raises(BadInput, match="no file of results"):
        read_results(tmp_path)


def test_a_torn_line_is_as_if_it_was_never_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(LOCK, [Row("episodes", 3.0)])
    with journal.path.open("a") as file:
        file.write('{"experiment": "half')
    with journal.path.open("ab") as raw:
        raw.write(b"\x00\xff")
    journal.add(EXPLORING, [Row("episodes", 4.0)])
    assert set(journal.read()) == {LOCK.key, EXPLORING.key}


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    done: list[str] = []
    assert run([LOCK], tmp_path, workers=1, progress=lambda p: done.append(p.last))
    assert run([LOCK, EXPLORING], tmp_path, workers=1, progress=lambda p: done.append(p.last))
    assert done == [LOCK.key, EXPLORING.key]
    assert {result.experiment for result in read_results(tmp_path)} == {LOCK.key, EXPLORING.key}


def test_an_experiment_that_fails_does_not_take_the_others_along(tmp_path: Path) -> None:
    broken = Experiment("cover", "lock", ("uniform:2",), "nobody", 0, 10.0)
    with pytest.raises(BadInput, match="nobody"):
        run([LOCK, broken], tmp_path, workers=1)
    assert {result.experiment for result in read_results(tmp_path)} == {LOCK.key}


def test_workers_find_the_same(tmp_path: Path) -> None:
    wanted = [LOCK, EXPLORING]
    for workers in (1, 2):
        run(wanted, tmp_path / str(workers), workers=workers)
    alone, together = (
        [r for r in read_results(tmp_path / str(workers)) if r.measure != "seconds"]
        for workers in (1, 2)
    )
    assert alone == together


# ------------------------------------------------------------------------------ tables


def test_the_main_table_by_hand() -> None:
    results = [
        *covering("a", "uniform:1", OURS, 0, 10), *covering("a", "uniform:1", OURS, 1, 30),
        *covering("b", "uniform:1", OURS, 0, 80), *covering("a", "uniform:1", "GOSPRL", 0, 40),
        *covering("b", "uniform:1", "GOSPRL", 0, 100, stopped=True),
    ]  # fmt: skip
    made = summaries.peers(results)
    assert "| covgame | 4.00 |" in made  # sqrt(2 * 8); of one run no error is known
    assert "| GOSPRL | > 6.32 |" in made  # sqrt(4 * 10)


def test_errors_of_means_by_hand() -> None:
    one = summaries.Estimate.of(np.array([1.0, 3.0]))
    assert one.mean == 2.0
    assert one.error == pytest.approx(1.0)
    exact = summaries.Estimate(8.0, 0.0, at_least=True)
    both = summaries.Estimate.geometric_mean([one, exact])
    assert both.mean == pytest.approx(4.0)
    assert both.error == pytest.approx(4.0 * (1.0 / 2.0) / 2)
    assert str(both) == "> 4.00 ± 1.00"


def test_targets_with_more_seeds_weigh_no_more() -> None:
    results = []
    for seed in range(100):
        results += covering("a", "uniform:1", OURS, seed, 10)
        results += covering("a", "uniform:1", "GOSPRL", seed, 40)
    for seed in range(20):
        results += covering("a", "uniform:5", OURS, seed, 10)
        results += covering("a", "uniform:5", "GOSPRL", seed, 10)
    made = summaries.ahead(results)
    assert "| GOSPRL | 2.00 (2.00-2.00) | 2.00 (2.00-2.00) |" in made


def test_cases_are_counted_by_their_intervals() -> None:
    results = []
    for seed in range(30):
        for env, factor in (("a", 1.5), ("b", 1.0), ("c", 0.7)):
            results += covering(env, "uniform:1", OURS, seed, 10)
            luck = 1.1 if seed % 2 else 1 / 1.1
            results += covering(env, "uniform:1", "GOSPRL", seed, 10 * factor * luck)
    assert "| GOSPRL | 1 / 1 / 1 |" in summaries.cases(results)
    assert "| GOSPRL | c | `uniform:1` | 0." in summaries.wins(results)


def test_the_ablation_is_over_ours() -> None:
    results = []
    for seed in range(5):
        results += covering("a", "uniform:1", OURS, seed, 20)
        results += covering("a", "uniform:1", MISSING, seed, 30)
    made = summaries.ablation(results)
    assert "| covgame, over phi* | 2.00 ± 0.00 |" in made
    assert "reward) | 1.50 (1.50-1.50) |" in made


def test_ahead_compares_seed_by_seed() -> None:
    results = []
    for seed in range(20):
        results += covering("a", "uniform:1", OURS, seed, 10 + seed)
        results += covering("a", "uniform:1", "GOSPRL", seed, 2 * (10 + seed))
        results += covering("a", "uniform:1", "RF-UCRL", seed, (10 + seed) * (0.9 + 0.01 * seed))
    made = summaries.ahead(results)
    assert "| GOSPRL | 2.00 (2.00-2.00) | 2.00 (2.00-2.00) |" in made
    loser = next(line for line in made.splitlines() if "RF-UCRL" in line)
    assert "**0.99" in loser  # not ahead: emphasised


def test_intervals_hold_the_mean_as_often_as_they_say() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for _ in range(200):
        low, high = summaries.interval([rng.normal(size=20)])
        held += low <= 0 <= high
    assert held >= 175


def test_pages_are_renewed_between_their_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "a\n<!-- table: peers -->\nold\n<!-- end -->\n<!-- table: other -->\nx\n<!-- end -->"
    )
    assert update_page(page, {"peers": "| new |"})
    assert page.read_text() == (
        "a\n<!-- table: peers -->\n| new |\n<!-- end -->\n<!-- table: other -->\nx\n<!-- end -->"
    )
    assert not update_page(page, {"peers": "| new |"})


# ------------------------------------------------------------------------ command line


ROOT = Path(__file__).parent.parent
FROM_ANYWHERE = {**os.environ, "PYTHONPATH": str(ROOT)}


def bench(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", *words],
        capture_output=True, text=True, cwd=cwd, check=False, env=FROM_ANYWHERE,
    )  # fmt: skip


def test_the_quick_profile_from_the_command_line(tmp_path: Path) -> None:
    done = bench("--json", "--quiet", "--workers", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["done"] == answer["experiments"] == len(experiments_of("quick"))
    assert done.stderr == ""
    made = bench("report", "bench", "--out", "pages", "--json", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    written = json.loads(made.stdout)["written"]
    assert len(written) == 6
    assert all((tmp_path / name).stat().st_size > 500 for name in written)
    assert set(json.loads(made.stdout)["tables"]) == set(summaries.TABLES)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--profile", "fast"), "no profile 'fast'"),
        (("--only", "nothing*"), "no experiment matches"),
        (("--workers", "0"), "--workers"),
        (("report", "nowhere"), "does not exist"),
        (("report", "--page", "nowhere.md"), "does not exist"),
    ],
)
def test_bad_input_is_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    done = bench(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert sentence in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_only_some_experiments(tmp_path: Path) -> None:
    done = bench("--only", "cover|lock|*|covgame|0|*", "--json", "--workers", "1", cwd=tmp_path)
    assert json.loads(done.stdout)["experiments"] == 4


SOME = "cover|lock|*|covgame|*"

WHEN_ONE_IS_DONE = """
import os, signal, sys
from benchmarks import peers

def act():
    return lambda progress: {} if progress.done == 1 else None

if __name__ == "__main__":
    peers._progress_messages = act
    sys.exit(peers.main(sys.argv[1:]))
"""


def after_one_experiment(
    action: str, folder: Path
) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """A benchmark with two workers to which this happens: (how it ended, what was done).

    Its output ends only when the last of its processes is gone.
    """
    (folder / "script.py").write_text(WHEN_ONE_IS_DONE.format(action))
    done = subprocess.run(
        [sys.executable, "script.py", "--workers", "2", "--json", "--only", SOME],
        capture_output=True, text=True, cwd=folder, check=False, start_new_session=True,
        env=FROM_ANYWHERE,
    )  # fmt: skip
    return done, set(Journal(folder / "bench").read())


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_being_told_to_end_keeps_what_is_done(name: str, tmp_path: Path) -> None:
    """As timeout and service managers do it: to the process and its workers alike."""
    done, finished = after_one_experiment(f"os.killpg(0, signal.{name})", tmp_path)
    assert done.returncode == 130, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].endswith("the same command continues the comparison")
    answer = json.loads(done.stdout)
    assert 1 <= answer["done"] < answer["experiments"]
    kept = {result.experiment for result in read_results(tmp_path / "bench")}
    assert kept == finished
    assert len(kept) == answer["done"]


def test_a_killed_comparison_continues_and_leaves_no_workers(tmp_path: Path) -> None:
    done, finished = after_one_experiment("os.kill(os.getpid(), signal.SIGKILL)", tmp_path)
    assert done.returncode == -9
    assert len(finished) == 1
    journal = (tmp_path / "bench" / "journal.jsonl").read_text()
    again = bench("--json", "--quiet", "--workers", "1", "--only", SOME, cwd=tmp_path)
    answer = json.loads(again.stdout)
    assert answer["done"] == answer["experiments"] == 8
    lines = (tmp_path / "bench" / "journal.jsonl").read_text().splitlines()
    assert lines[0] == journal.rstrip("\n")
    assert len(lines) == 8


def test_a_worker_that_is_killed_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running out of memory looks like this."""
    monkeypatch.setattr(running, "_measure", _die)
    with pytest.raises(BadInput, match="fewer workers"):
        run([LOCK, EXPLORING], tmp_path, workers=2)
    assert read_results(tmp_path) == []


def _die(_experiment: Experiment) -> list[Row]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []
