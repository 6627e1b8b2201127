"""A run in three sentences, and the numbers that sum it up."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from covgame.errors import Row
from covgame.planning import episodes, number
from covgame.report.content import Figure, Tone
from covgame.types import ANY

if TYPE_CHECKING:
    from covgame.runs.coverage import Coverage
    from covgame.runs.learning_run import LearningRun
    from covgame.runs.run import Run
    from covgame.targets.target import Target

UNIFORM = re.compile(r"uniform:([0-9.e+]+)(?:/(\w+))?")
PROPORTIONAL = re.compile(r"proportional:([0-9.e+]+)")
EACH = {
    "": "every action in every state at every stage",
    "cell": "every action in every state at every stage",
    "pair": "every action in every state, at whatever stage,",
    "state": "every state, at whatever stage,",
    "transition": "every transition (a state, an action and what follows)",
}


Lacking = Sequence[tuple[Row, float]]
"""Rows of a target and the visits that they lack."""


@dataclass(frozen=True)
class Ending:
    """How a run ended, as far as it did."""

    reason: str | None  # as ``run.stopped``; None while it is played, or if it was killed
    failure: str | None
    running: bool = False  # right now, in this process

    @classmethod
    def of(cls, run: Run, *, running: bool = False) -> Ending:
        """From the run itself, or else from the answer in its folder."""
        saved: dict[str, Any] = {}
        if run.stopped is None and run.folder is not None and not running:
            saved = run.folder.load_result()
        reason = run.stopped or saved.get("stopped") or saved.get("stopped_by")
        failure = run.failure or saved.get("failure")
        return cls(reason and str(reason), failure and str(failure), running)

    @property
    def words(self) -> str:
        """Why it is not done, as a sentence."""
        if self.running:
            return "It is being played now."
        if self.failure:
            return f"It stopped: {self.failure}."
        return {
            "budget": "It stopped when its budget of episodes was spent.",
            "interrupted": "It was interrupted, and can go on.",
            "unseen": "It stopped because a state of the target never appeared.",
            None: "It has not ended: it is being played elsewhere, or was killed and can go on.",
        }.get(self.reason, "It stopped before it was done.")


def status(run: Run, ending: Ending) -> tuple[str, Tone]:
    """A word or two for the top of the page."""
    if ending.running and not run.done:
        return "running", "running"
    if ending.failure:
        return "failed", "bad"
    if run.done and ending.reason != "unseen":
        return ("covered" if run.FINISHED == "covered" else "certified"), "good"
    return {
        "budget": "budget spent", "interrupted": "interrupted", "unseen": "state never seen",
    }.get(ending.reason or "", "not finished"), "open"  # fmt: skip


def _world(run: Run) -> str:
    H, _, A = run.counts.shape.hsa
    states = f"{run.n_states:,} states"
    if run.source.discovers_states and run.states_possible is not None:
        states = f"{run.n_states:,} of {run.states_possible:,} possible states seen"
    elif run.source.discovers_states:
        states += " seen"
    return f"{run.environment.name}: at most {H:,} steps an episode, {states}, {A:,} actions"


# --------------------------------------------------------------------------------- cover


def asked_in_words(request: str, rows: int) -> str:
    """What a target asks for: ``visit every state, at whatever stage, 50 times``."""
    uniform, proportional = UNIFORM.fullmatch(request), PROPORTIONAL.fullmatch(request)
    if uniform is not None and (uniform[2] or "") in EACH:
        return f"visit {EACH[uniform[2] or '']} {times(float(uniform[1]))}"
    if proportional is not None:
        often = number(float(proportional[1]))
        return f"visit everything {often} times as often as the best policy for it does per episode"
    if request.endswith(".json"):
        return f"visit what {request} lists, {rows:,} requirements in all"
    return f"meet {rows:,} requirements on visits"


def times(count: float) -> str:
    """``once``, ``20 times``."""
    return "once" if count == 1 else f"{number(count)} times"


def kind_of_rows(target: Target) -> str:
    """What the rows of a target are called."""
    rows = target.rows
    if len(rows) and target.of_group.all():
        return "groups"
    if target.of_group.any():
        return "requirements"
    stage, action = rows[:, 0] == ANY, rows[:, 2] == ANY
    if not (stage.any() or action.any()):
        return "cells (stage, state, action)"
    if stage.all() and not action.any():
        return "state-action pairs"
    return "states" if stage.all() and action.all() else "requirements"


def cover_sentences(
    run: Coverage, ending: Ending, bound: float | None, lacking: Lacking
) -> list[str]:
    """What was asked, what came of it, and how good that is."""
    asked = asked_in_words(run.request, len(run.target))
    return [
        f"The task was to {asked} in {_world(run)}.",
        _outcome(run, ending, lacking),
        _judgement(run, bound),
    ]


def _outcome(run: Coverage, ending: Ending, uncovered: Lacking) -> str:
    played = f"After {episodes(run.n_episodes)}"
    if run.transitions is not None:
        done = len(run.transitions) - len(run.uncovered_transitions)
        what, total = "transitions", len(run.transitions)
    else:
        what, total = kind_of_rows(run.target), len(run.target)
        done = total - len(uncovered)
    if run.covered:
        return f"{played}, all {total:,} {what} have the visits that were asked for."
    lacking = "" if run.transitions is not None else f" {_missing(uncovered)}."
    return (
        f"{played}, {max(done, 0):,} of {total:,} {what} have their visits.{lacking} {ending.words}"
    )


def _missing(uncovered: Lacking) -> str:
    visits = sum(missing for _, missing in uncovered)
    return "One visit is missing" if visits == 1 else f"{number(visits)} visits are missing"


def _judgement(run: Coverage, bound: float | None) -> str:
    if bound is None:
        if run.environment.model is None:
            return (
                "How many episodes it takes at best nobody can say, because this environment shows "
                "no table of its transitions."
            )
        why = " in a world this large" if run.is_large else ""
        return f"The fewest episodes possible (phi*) were not computed{why}."
    least = f"No method that always gets there needs fewer than {number(bound)} episodes on average"
    rest = " for what the data given lack" if run.given else ""
    name = bound_name(run)
    if not run.covered or not bound:
        return f"{least}{rest} ({name})."
    ratio = run.n_episodes / bound
    if not run.has_exact_bound:
        return (
            f"{least}{rest} ({name}); this run took at most {ratio:.2f} times the least possible."
        )
    below = ", as a single run may by luck" if ratio < 1 else ""
    return f"{least}{rest} ({name}); this run took {ratio:.2f} times that{below}."


def bound_name(run: Coverage) -> str:
    """What the number is: phi*, or a bound below it where phi* takes long or is too hard."""
    return "phi*" if run.has_exact_bound else "a proved lower bound"


def cover_figures(run: Coverage, bound: float | None, lacking: Lacking) -> list[Figure]:
    """Episodes, coverage, the bound, and what is particular to this run."""
    total = len(run.target)
    done = total - len(lacking)
    share = done / total if total else 0.0
    figures = [
        Figure("episodes", number(run.n_episodes), f"{number(int(run.counts.visits.sum()))} steps"),
        Figure("covered", percent(share), f"{max(done, 0):,} of {total:,}"),
    ]
    if bound is not None:
        note = f"this run: {run.n_episodes / bound:.2f} times that" if bound and run.covered else ""
        figures.append(Figure("fewest on average", number(bound), note or bound_name(run)))
    possible = run.states_possible
    if run.environment.model is None and (run.source.discovers_states or possible is not None):
        note = "more may exist" if possible is None else f"of {possible:,} possible"
        figures.append(Figure("states seen", f"{run.states_seen:,}", note))
    if run.masked_pairs is not None:
        excluded, pairs = run.masked_pairs
        figures.append(Figure("masked pairs", f"{excluded:,}", f"of {pairs:,}, by the action mask"))
    if run.n_looks:
        figures.append(Figure("second look", number(run.n_looks), "episodes looking for states"))
    if run.given:
        figures.append(Figure("episodes given", number(run.n_given), "from data"))
    return figures + _failures(run)


def percent(share: float) -> str:
    """Whole percent; 100 only if it is all, 0 only if it is nothing."""
    if 0 < share < 0.01:
        return "<1%"
    return "99%" if 0.99 <= share < 1 else f"{share:.0%}"


def _failures(run: Run) -> list[Figure]:
    if not len(run.failures):
        return []
    kinds = len(run.failures.distinct())
    said = "of one kind" if kinds == 1 else f"of {kinds:,} kinds"
    return [Figure("failures", f"{len(run.failures):,}", said)]


# ------------------------------------------------------------------- explore and identify


def learning_sentences(run: LearningRun, ending: Ending) -> list[str]:
    """What was asked, what is proved, and what that rests on."""
    epsilon, delta = run.settings.epsilon, run.settings.delta
    asked = f"The task was to learn {run.TITLE} (epsilon {epsilon:g}) in {_world(run)}."
    if ending.running:
        return [asked, f"{episodes(run.n_episodes)} were played so far.", _so_far(run)]
    found = f"After {episodes(run.n_episodes)}, {_proved(run)}."
    if not run.done:
        found += f" {ending.words}"
    guarantee = run.guarantee
    if guarantee.startswith("certified"):
        rests = f"That is wrong with probability {delta:g} at most, whatever the environment is."
    else:
        rests = f"Its guarantee: {guarantee}."
    return [asked, found, rests if run.bounded else "So there is no guarantee yet."]


def last_bound(run: LearningRun) -> float | None:
    """What was proved when the last part was finished."""
    bounds = [phase.bound for phase in run.phases if phase.bound is not None]
    return bounds[-1] if bounds and math.isfinite(bounds[-1]) else None


def _so_far(run: LearningRun) -> str:
    bound = last_bound(run)
    if bound is None:
        return "Nothing is proved yet."
    return f"What is proved so far: at most {number(bound)} is lost."


def _proved(run: LearningRun) -> str:
    if not run.bounded:
        return "nothing is proved yet"
    if run.settings.command == "explore":
        error = run.findings()["certified_error"]
        return f"a policy planned on it loses at most {number(error)}, for any reward in [0, 1]"
    found = run.findings()
    return (
        f"the policy found earns at least {number(found['value_lower'])} an episode, and no policy "
        f"more than {number(found['value_upper'])}: it loses at most "
        f"{number(found['certified_gap'])}"
    )


def learning_figures(run: LearningRun, ending: Ending) -> list[Figure]:
    """Episodes, and what is proved."""
    epsilon = f"asked for: {run.settings.epsilon:g}"
    figures = [
        Figure("episodes", number(run.n_episodes), f"{number(int(run.counts.visits.sum()))} steps")
    ]
    found: dict[str, Any] = run.findings() if not ending.running else {}
    found = found or {"certified_gap": last_bound(run)}
    bound = found.get("certified_error", found.get("certified_gap"))
    label = "certified error" if run.settings.command == "explore" else "certified gap"
    figures.append(Figure(label, "none yet" if bound is None else number(bound), epsilon))
    if found.get("value_lower") is not None:
        figures.append(Figure("earns at least", number(found["value_lower"]), "per episode"))
        figures.append(Figure("best at most", number(found["value_upper"]), "any policy"))
    if not ending.running and run.floor:
        times = run.times_floor
        note = "any method with a proof" if times is None else f"this run: {number(times)} times"
        figures.append(Figure("floor", number(run.floor), note))
    may_fail = f"{run.settings.delta:g}"
    figures.append(Figure("may be wrong", may_fail, "probability (delta)"))
    return figures + _failures(run)
