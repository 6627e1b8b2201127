"""Audits: gaps agree with exact counts, prices with programs by hand, certificates with runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import covgame as cg
from covgame.cli.main import main
from covgame.cli.options import parse_columns
from covgame.data import audit as audit_module
from covgame.data import steps as steps_module
from covgame.errors import BadInput, UnreachableTarget
from covgame.flow.measures import concentrability, thinnest
from covgame.flow.min_flow import min_flow
from covgame.mdp import dp
from covgame.pac.error_bounds import Range, best_policy, reward_free
from covgame.pac.homogeneity import SHARE
from covgame.pac.mixtures import Structure
from covgame.storage.folder import RunFolder
from covgame.storage.reading import RecordedEpisodes
from covgame.types import Policy
from tests.pages import check_page, data_in
from tests.steps import SMALL, changed, episodes_of, write

FORK = """{"format": "covgame-mdp/1", "horizon": 2, "states": 3, "actions": 2, "initial": 0,
 "transitions": [[null, 0, 0, 1, 1.0], [null, 0, 1, 2, 0.25], [null, 0, 1, 1, 0.75],
                 [null, 1, 0, 1, 1.0], [null, 1, 1, 1, 1.0],
                 [null, 2, 0, 2, 1.0], [null, 2, 1, 2, 1.0]]}"""


@pytest.fixture
def fork(tmp_path: Path) -> str:
    path = tmp_path / "fork.json"
    path.write_text(FORK)
    return str(path)


def played(path: Path, episodes: list[list[tuple[int, int, int]]]) -> Path:
    """Steps (state, action, next state), none of which terminates."""
    columns: dict[str, list[Any]] = {
        name: [] for name in ("episode", "state", "action", "next_state", "reward")
    }
    for number, steps in enumerate(episodes):
        for step in steps:
            values = (number, *step, 0.5)
            for name, value in zip(columns, values, strict=True):
                columns[name].append(value)
    return write(path, columns)


# --------------------------------------------------------------------------------- gaps


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    seed=st.integers(0, 10_000),
    count=st.sampled_from([1.0, 2.0, 3.5]),
    per=st.sampled_from(["cell", "pair", "state"]),
    size=st.integers(1, 20),
)
def test_what_is_missing_agrees_with_the_exact_count(
    tmp_path_factory: pytest.TempPathFactory,
    lengths: list[int],
    seed: int,
    count: float,
    per: Any,
    size: int,
) -> None:
    columns = episodes_of(lengths, seed)
    path = write(tmp_path_factory.mktemp("d") / "s.parquet", columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps_module, "BATCH", size)
        found = cg.audit(path, cg.uniform(count, per))
    steps = list(zip(*(columns[n] for n in ("stage", "state", "action")), strict=True))
    seen = {(h, s) for h, s, _ in steps}
    wanted: set[Any]
    had: list[Any]
    if per == "cell":
        wanted = {(h, s, a) for h, s in seen for a in range(found.shape.actions)}
        had = [(h, s, a) for h, s, a in steps]
    elif per == "pair":
        wanted = {(None, s, a) for _, s in seen for a in range(found.shape.actions)}
        had = [(None, s, a) for _, s, a in steps]
    else:
        wanted = {(None, s, None) for _, s in seen}
        had = [(None, s, None) for _, s, _ in steps]
    missing = {row: max(0.0, count - had.count(row)) for row in wanted}
    expected = {row: n for row, n in missing.items() if n > 0}
    if not is_cut(columns, found.shape.horizon):
        assert dict(found.uncovered) == expected
    else:  # states that were shown where an episode was cut short are wanted as well
        assert expected.items() <= dict(found.uncovered).items()
    assert sum(gap.missing for gap in found.gaps) == pytest.approx(
        sum(n for _, n in found.uncovered)
    )
    assert sum(gap.rows for gap in found.gaps) == len(found.uncovered)
    assert found.covered == (not found.uncovered)
    assert [n for _, n in found.uncovered] == sorted((n for _, n in found.uncovered), reverse=True)


def is_cut(columns: dict[str, Any], horizon: int) -> bool:
    rows = zip(columns["stage"], columns["truncated"], strict=True)
    return any(truncated and stage + 1 < horizon for stage, truncated in rows)


def test_gaps_in_words(tmp_path: Path) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 0, 1), (1, 0, 1)]] * 3 + [[(0, 0, 1), (1, 1, 1)]])
    rows = [(None, 0, 1, 2), (None, 1, 1, 4), (None, 7, 0, 5), (None, 1, 0, 4), (None, 1, None, 9)]
    found = cg.audit(path, cg.cells(rows))
    assert [str(gap) for gap in found.gaps] == [
        "state 1: visited 4 of 9 times",
        "state 7: never reached",
        "state 1: tried fewer than 4 times: action 0 (3) and action 1 (1)",
        "state 0: action 1 never tried",
    ]
    assert [gap.missing for gap in found.gaps] == [5.0, 5.0, 4.0, 2.0]
    by_stage = cg.audit(path, cg.cells([(0, 0, 0, 6), (1, 0, 0, 2), (1, 1, 0, 5), (0, 1, 0, 1)]))
    assert {str(gap) for gap in by_stage.gaps} == {
        "state 0: action 0 tried 4 of 6 times at stage 0",
        "state 0: never there at stage 1",
        "state 1: action 0 tried 3 of 5 times at stage 1",
        "state 1: never there at stage 0",
    }


def test_stages_in_words(tmp_path: Path) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 0, 0)] * 9])
    rows = [(h, 0, 0, 3) for h in (0, 2, 3, 4, 8)]
    (gap,) = cg.audit(path, cg.cells(rows)).gaps
    assert str(gap) == "state 0: action 0 tried 5 of 15 times at stages 0, 2 to 4 and 8"


def test_transitions(tmp_path: Path, fork: str) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 1, 1), (1, 0, 1)]] * 3 + [[(0, 1, 2), (2, 0, 2)]])
    found = cg.audit(path, "uniform:2/transition")
    lacking = {tuple(row[:3]): row[3] for row in found.to_dict()["uncovered_transitions"]}
    assert lacking == {(0, 1, 2): 1.0, (2, 0, 2): 1.0}
    never = {row for row, _ in found.uncovered}
    assert {(None, 0, 0), (None, 1, 1), (None, 2, 1), (None, 0, 1), (None, 2, 0)} == never
    assert "state 0: action 1 led to state 2: 1 of 2 times" in map(str, found.gaps)
    exact = cg.audit(path, "uniform:2/transition", env=fork).to_dict()
    moves = {tuple(row[:3]): row[3] for row in exact["uncovered_transitions"]}
    assert moves == {(0, 1, 2): 1.0, (0, 0, 1): 2.0}  # the last step shows nothing on a model
    # One more outcome of probability 1/4 takes 4 visits of its pair, the other pair takes 2.
    assert exact["missing_episodes"] == pytest.approx(6.0)


def test_a_transition_that_nobody_saw_is_a_hole(tmp_path: Path) -> None:
    """Without next states, the last steps of episodes show no transition."""
    columns = {"episode": [0, 0, 1, 1], "state": [1, 2, 1, 3], "action": [0, 1, 1, 0]}
    found = cg.audit(write(tmp_path / "s.parquet", columns), "uniform:2/transition")
    assert "state 2: action 1 tried, and where it led never shown" in map(str, found.gaps)
    assert sum(gap.missing for gap in found.gaps) == sum(n for _, n in found.uncovered) == 10.0


# -------------------------------------------------------------------------------- prices


def test_what_is_missing_costs_what_its_program_says(tmp_path: Path, fork: str) -> None:
    """State 2 is reached with probability 1/4, so that three more visits take 12 episodes."""
    path = played(tmp_path / "s.parquet", [[(0, 1, 2), (2, 0, 2)]] * 2 + [[(0, 0, 1), (1, 0, 1)]])
    target = cg.cells([(1, 2, None, 5), (1, 1, None, 1)])
    found = cg.audit(path, target, env=fork)
    assert found.uncovered == [((1, 2, None), 3.0)]
    assert found.missing_episodes == pytest.approx(12.0)
    assert found.min_episodes == pytest.approx(20.0)  # the other row comes along
    assert found.at_least <= 12.0 + 1e-9
    assert found.episodes == 3
    # The data show state 2 two times of two: on what they show, three episodes do.
    learnt = cg.audit(path, target)
    assert learnt.missing_episodes == pytest.approx(3.0)


def test_prices_are_those_of_the_remainder(tmp_path: Path) -> None:
    env = "riverswim:states=4,horizon=6"
    cg.cover(env, "uniform:2", out=tmp_path / "run")
    found = cg.audit(tmp_path / "run", "uniform:9", env=env)
    kernel = cg.make(env).model.transitions  # type: ignore[union-attr]
    visits = cg.load(tmp_path / "run").counts.visits
    wanted = cg.uniform(9).resolve(kernel).cell_counts()
    rest = cg.cells(np.maximum(wanted - visits, 0.0)).resolve(kernel)
    assert found.missing_episodes == pytest.approx(min_flow(kernel, rest).min_episodes)
    assert found.min_episodes == pytest.approx(cg.plan(env, "uniform:9").min_episodes)


def test_nobody_knows_what_was_never_reached(tmp_path: Path) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 0, 1), (1, 0, 1)]])
    found = cg.audit(path, cg.cells([(None, 9, 0, 3), (None, 1, 0, 4)]))
    assert found.missing_episodes is None
    assert found.told_episodes == pytest.approx(3.0)  # an episode can be in state 1 only at stage 1
    assert found.untold.rows == [(None, 9, 0)]
    assert found.to_dict()["missing_episodes"] is None
    assert "how to reach state 9 / action 0" in found.to_text()


def test_labels_that_no_data_show_are_gaps_too(tmp_path: Path) -> None:
    columns = SMALL | {"state": [f"room {s}" for s in SMALL["state"]]}
    columns = {name: columns[name] for name in ("episode", "state", "action")}
    path = write(tmp_path / "s.parquet", columns)
    found = cg.audit(path, cg.cells([(None, "cellar", None, 2), (None, "room 1", None, 1)]))
    assert found.to_dict()["uncovered_named"][0][1:] == ["cellar", None, 2.0]
    assert str(found.gaps[0]) == "cellar: never reached"


def test_pairs_that_were_never_tried(tmp_path: Path) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 0, 1), (1, 1, 2)]])
    assert cg.audit(path).untold.pairs == [(0, 1), (1, 0)]


def test_a_target_that_nobody_reaches_is_refused(tmp_path: Path, fork: str) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 0, 1), (1, 0, 1)]])
    with pytest.raises(UnreachableTarget):
        cg.audit(path, cg.cells([(0, 2, 0, 1)]), env=fork)


def test_large_worlds_are_not_solved_unasked(
    tmp_path: Path, fork: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 0, 1), (1, 0, 1)]])
    target = cg.cells([(1, 2, None, 5)])
    monkeypatch.setattr(audit_module, "LARGE", 1)
    found = cg.audit(path, target, env=fork)
    assert found.at_least == pytest.approx(20.0)
    assert "at least 20 more episodes" in found.to_text()
    assert "missing_episodes" not in vars(found)
    assert "told_episodes" not in vars(found)
    answer = found.to_dict()  # what is missing is always told; the rest if one asks for it
    assert answer["missing_episodes"] == pytest.approx(20.0)
    assert answer["min_episodes"] is answer["concentrability"] is None
    assert found.min_episodes == pytest.approx(20.0)
    assert cg.audit(path, target, env=fork, at_any_price=True).missing_episodes == pytest.approx(20)


# ----------------------------------------------------------------------- concentrability


def test_concentrability_of_an_occupancy_is_that_of_its_policy() -> None:
    model = cg.make("garnet:states=5,actions=3,horizon=4").model
    assert model is not None
    kernel, policy = model.transitions, Policy.uniform(model.shape)
    had = dp.occupancy(kernel, policy)
    assert thinnest(kernel, had)[0] == pytest.approx(concentrability(kernel, policy))
    worst = thinnest(kernel, had)[1]
    best = dp.reachability(kernel)
    assert best[worst[:2]] / had[worst] == pytest.approx(concentrability(kernel, policy))


def test_concentrability_of_data(tmp_path: Path, fork: str) -> None:
    """Three of four episodes go right, half of these with each outcome; at state 2 always 0."""
    there, back = [(0, 1, 2), (2, 0, 2)], [(0, 1, 1), (1, 0, 1)]
    down = [[(0, 0, 1), (1, 1, 1)], [(0, 1, 2), (2, 1, 2)]]
    found = cg.audit(played(tmp_path / "s.parquet", [there, back, *down]), "uniform:1", env=fork)
    # max_pi p of (1, state 1) is 1 and each of its actions was played once in four episodes.
    assert found.concentrability == pytest.approx(4.0)
    best = cg.plan(fork, "proportional:1").min_episodes
    assert found.best_concentrability == pytest.approx(best)
    assert found.unvisited == (0, 6)
    missed = cg.audit(played(tmp_path / "m.parquet", [there]), "uniform:1", env=fork)
    assert missed.concentrability == np.inf
    assert missed.to_dict()["concentrability"] is None
    assert missed.unvisited == (4, 6)


# ------------------------------------------------------------------------------- stages


def test_stages_are_pooled_unless_the_data_say_otherwise(tmp_path: Path) -> None:
    path = played(tmp_path / "a.parquet", [[(0, 0, 0), (0, 0, 1)]] * 30)
    assert "depends on the stage" in cg.audit(path).combined.stages[2]
    mixed = [[(0, 0, 0), (0, 0, 0)], [(0, 0, 1), (1, 0, 1)], [(0, 0, 0), (0, 0, 1)]] * 10
    pooled = cg.audit(played(tmp_path / "b.parquet", mixed))
    assert pooled.combined.stages[:2] == ("tested", True)
    assert cg.audit(tmp_path / "b.parquet", stage_dependent=True).combined.stages[1] is False
    short = cg.audit(played(tmp_path / "c.parquet", [*mixed, [(0, 0, 0)]]))
    assert short.combined.stages[1] is False
    assert "cut short before the last stage" in short.to_text()


# -------------------------------------------------------------------------- certificates


def test_certificates_are_those_of_the_same_counts(tmp_path: Path) -> None:
    env = "riverswim:states=3,horizon=3"
    run = cg.cover(env, "uniform:200", out=tmp_path / "run")
    found = cg.audit(tmp_path / "run", "uniform:200", env=env, epsilon=3.0).certificates
    assert found is not None
    assert found.identify is not None
    model = cg.make(env).model
    assert model is not None
    structure = Structure(known_start=model.initial)
    counts = RecordedEpisodes(RunFolder.open(tmp_path / "run"), run.counts.shape).counts(
        pooled=True, paid=True
    )
    assert (counts.visits == run.counts.visits).all()
    assert found.explore.bound == pytest.approx(reward_free(counts, structure, 0.1).error)
    gap = best_policy(counts, structure, 0.1, Range()).gap
    assert found.identify.bound == pytest.approx(gap)
    assert found.value_lower is not None
    assert found.value_upper is not None
    assert found.value_upper - found.value_lower == pytest.approx(gap)
    assert "no episode was left out because of its outcome" in found.assumptions[-1]


def test_how_much_more_it_takes(tmp_path: Path) -> None:
    env = "riverswim:states=3,horizon=3"
    cg.cover(env, "uniform:50", out=tmp_path / "run")
    found = cg.audit(tmp_path / "run", "uniform:1", env=env, epsilon=0.4).certificates
    assert found is not None
    assert found.explore.times_more is not None
    times = int(found.explore.times_more)
    steps = cg.load(tmp_path / "run").steps().to_pydict()
    episodes = max(steps["episode"]) + 1
    for number, enough in ((1, False), (int(times * 0.9) - 1, False), (times, True)):
        copies = {name: column * number for name, column in steps.items()}
        copies["episode"] = [
            episode + copy * episodes for copy in range(number) for episode in steps["episode"]
        ]
        path = write(tmp_path / f"{number}.parquet", copies)
        again = cg.audit(path, "uniform:1", env=env, epsilon=0.4).certificates
        assert again is not None
        assert again.explore.holds == enough


def test_certificates_need_to_know_how_many_states_there_are(tmp_path: Path) -> None:
    path = played(tmp_path / "s.parquet", [[(0, 0, 1), (1, 0, 0)]] * 50)
    with pytest.raises(BadInput, match=r"those that were met \(2\); say most_states"):
        cg.audit(path, epsilon=1.0)
    few = cg.audit(path, epsilon=1.0, most_states=2).certificates
    many = cg.audit(path, epsilon=1.0, most_states=200).certificates
    assert few is not None
    assert many is not None
    assert few.explore.bound < many.explore.bound
    with pytest.raises(BadInput, match="show 2 states, more than the 1 given"):
        cg.audit(path, epsilon=1.0, most_states=1)
    with pytest.raises(BadInput, match=r"rewards from 0.5 to 0.5, outside \[0, 0.25\]"):
        cg.audit(path, epsilon=1.0, most_states=2, reward_range=(0, 0.25))


def test_stages_that_were_taken_apart_get_their_share_of_delta(tmp_path: Path) -> None:
    path = played(tmp_path / "a.parquet", [[(0, 0, 0), (0, 0, 1)]] * 400)
    found = cg.audit(path, epsilon=1.0, most_states=2)
    assert found.combined.stages[0] == "parted"
    assert found.certificates is not None
    error = reward_free(found.combined.apart, Structure(), SHARE * 0.1).error
    assert found.certificates.explore.bound == pytest.approx(error)


# -------------------------------------------------------------------------------- adding


def test_several_datasets_add_up(tmp_path: Path) -> None:
    whole = episodes_of([3, 4, 2, 4, 1])
    cut = next(i for i, episode in enumerate(whole["episode"]) if episode == 2)
    parts = [write(tmp_path / "all.parquet", whole)]
    for name, rows in (("a", slice(None, cut)), ("b", slice(cut, None))):
        parts.append(
            write(tmp_path / f"{name}.parquet", {key: col[rows] for key, col in whole.items()})
        )
    one, two = cg.audit(parts[0], "uniform:2/pair"), cg.audit(parts[1:], "uniform:2/pair")
    assert one.uncovered == two.uncovered
    assert one.episodes == two.episodes == 5
    assert (one.combined.apart.visits == two.combined.apart.visits).all()


def test_numbers_and_observations_do_not_mix(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", SMALL)
    words = {name: SMALL[name] for name in ("episode", "action")}
    write(tmp_path / "b.parquet", words | {"state": [f"s{s}" for s in SMALL["state"]]})
    with pytest.raises(BadInput, match="numbers and of others observations"):
        cg.audit([tmp_path / "a.parquet", tmp_path / "b.parquet"])


# ----------------------------------------------------------------------- pages and commands


def called(*words: str) -> Any:
    return CliRunner().invoke(main, ["audit", *words])


def test_the_command_prints_one_json_object(tmp_path: Path) -> None:
    path = write(tmp_path / "s.parquet", SMALL)
    done = called(str(path), "--target", "uniform:2/pair", "--json", "--quiet")
    assert done.exit_code == 0
    answer = json.loads(done.stdout)
    assert {"episodes", "covered", "uncovered", "missing_episodes"} <= answer.keys()
    assert answer["episodes"] == 4
    assert answer == cg.audit(path, "uniform:2/pair").to_dict()
    text = called(str(path), "--quiet", "--top", "1").stdout
    assert "\nGaps\n  visits" in text
    assert re.search(r"and \d+ more", text)


def test_bad_data_exit_with_2_and_write_nothing(tmp_path: Path) -> None:
    path = write(tmp_path / "s.parquet", changed("reward", 4, float("nan")))
    done = called(str(path), "--json", "--report", str(tmp_path / "a.html"))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert "s.parquet, row 4, column reward: nan is no finite number" in done.stderr
    assert sorted(one.name for one in tmp_path.iterdir()) == ["s.parquet"]
    assert called(str(tmp_path / "nothing"), "--json").exit_code == 2
    assert called(str(path), "--report", str(tmp_path / "no" / "a.html")).exit_code == 2


def test_columns_are_read() -> None:
    assert parse_columns("state=x+y, action=a") == {"state": "x+y", "action": "a"}
    assert parse_columns(None) is None
    for wrong in ("state", "state=", "state=a,state=b"):
        with pytest.raises(BadInput, match="columns"):
            parse_columns(wrong)


def test_an_unknown_name_of_ours_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "s.parquet", SMALL)
    with pytest.raises(BadInput, match=r"'sate' is no column of ours; did you mean 'state'"):
        cg.audit(path, columns={"sate": "state"})


def test_the_page_is_one_file_and_escapes_everything(tmp_path: Path) -> None:
    evil = "<script>alert('x')</script>"
    columns = {name: SMALL[name] for name in ("episode", "action")}
    states = [evil if s == 1 else f"s{s}" for s in SMALL["state"]]
    path = write(tmp_path / "s.parquet", columns | {"state": states})
    found = cg.audit(path, "uniform:5/pair")
    page = found.to_html()
    assert evil not in page
    data = check_page(page)
    assert evil in data["state_map"]["labels"]
    listed = data["tables"][0]["rows"]
    assert [row[1] for row in listed] == [gap.where for gap in found.gaps]
    assert "<script" not in found._repr_html_()
    found.save_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text() == page
    assert len(data["sentences"]) == 3
    assert all(sentence.endswith(".") for sentence in data["sentences"])


def test_grids_are_drawn_as_grids(tmp_path: Path) -> None:
    cg.cover("grid:rows=3,columns=4,horizon=8", "uniform:1/pair", out=tmp_path / "run")
    found = cg.audit(tmp_path / "run", "uniform:3/pair")
    assert found.shape.states == 12
    drawn = data_in(found.to_html())["state_map"]
    assert (drawn["layout"]["kind"], drawn["layout"]["columns"]) == ("grid", 4)
    assert drawn["labels"][5] == "row 1, column 1"
    assert drawn["layout"]["marks"][0] == "start"
    overall = drawn["overall"]
    assert sum(overall["visits"]) == found.steps
    assert sum(overall["wanted"]) == found.target.counts.sum()
    assert sum(overall["missing"]) == pytest.approx(sum(n for _, n in found.uncovered))


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = write(tmp_path / "s.parquet", SMALL)
    cg.audit(path).plot(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert cg.audit(path).plot() is not None


def test_the_size_of_batches_makes_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.parquet"
    pq.write_table(pa.table(episodes_of([2, 5, 1, 5, 4, 3, 5], 3)), path)
    expected = cg.audit(path, "uniform:3").to_dict()
    for size in (1, 3, 8):
        monkeypatch.setattr(steps_module, "BATCH", size)
        assert cg.audit(path, "uniform:3").to_dict() == expected
