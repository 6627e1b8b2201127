"""Gaps in words: what lacks visits, grouped so that a person reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from covgame.data.combined_counts import CombinedCounts
from covgame.data.shortfall import Shortfall
from covgame.names import Names
from covgame.planning import number
from covgame.report.view import listed
from covgame.types import ANY, IntArray


@dataclass(frozen=True)
class Gap:
    """One thing that is missing."""

    where: str  # a state, or a group
    what: str
    missing: float  # visits
    rows: int  # of the target

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def find_gaps(combined: CombinedCounts, shortfall: Shortfall) -> list[Gap]:
    """All of them, most missing first."""
    found = (
        _of_transitions(combined, shortfall)
        if shortfall.moves is not None
        else _of_rows(combined, shortfall)
    )
    return sorted(found, key=lambda gap: -gap.missing)


def _of_rows(combined: CombinedCounts, shortfall: Shortfall) -> list[Gap]:
    target = shortfall.target
    collected = target.counts - shortfall.missing
    rows = shortfall.open_rows()
    states = target.rows[rows, 1]
    found = [
        Gap(
            str(target.as_rows([row])[0][1]),
            _share(collected[row], target.counts[row]),
            float(shortfall.missing[row]),
            1,
        )
        for row in rows[states < ANY].tolist()
    ]
    rows, states = rows[states >= 0], states[states >= 0]
    order = np.argsort(states, kind="stable")
    rows, states = rows[order], states[order]
    borders = np.flatnonzero(np.diff(states)) + 1
    for part in np.split(rows, borders):
        if len(part):
            found += _of_state(combined, shortfall, part)
    return found


def _of_state(combined: CombinedCounts, shortfall: Shortfall, rows: IntArray) -> list[Gap]:
    """The gaps of one state."""
    target, visits = shortfall.target, combined.apart.visits
    state = int(target.rows[rows[0], 1])
    where, missing = combined.names.state(state), shortfall.missing
    there = visits[:, state].sum(axis=1)
    if not there.any():
        entered = bool(combined.seen[:, state].any())
        what = "reached, and nothing was tried there" if entered else "never reached"
        return [Gap(where, what, float(missing[rows].sum()), len(rows))]
    stage = target.rows[rows, 0]
    away = (stage != ANY) & (there[stage] == 0)
    found = []
    if away.any():
        when = _stages(stage[away])
        found.append(
            Gap(where, f"never there at {when}", float(missing[rows[away]].sum()), int(away.sum()))
        )
    untried: list[int] = []
    rest = rows[~away]
    alike: dict[float, list[IntArray]] = {}
    for action in np.unique(target.rows[rest, 2]).tolist():
        part = rest[target.rows[rest, 2] == action]
        if action != ANY and not visits[:, state, action].any():
            untried += part.tolist()
        elif action != ANY and target.rows[part[0], 0] == ANY:
            alike.setdefault(float(target.counts[part[0]]), []).append(part)
        else:
            found.append(_short(combined.names, shortfall, part, where))
    found += [_too_rarely(combined.names, shortfall, parts, where) for parts in alike.values()]
    if untried:
        actions = dict.fromkeys(target.rows[untried, 2].tolist())
        tried = "never tried" if len(actions) == 1 else "were never tried"
        what = f"{listed([_called(combined.names, a) for a in actions])} {tried}"
        found.append(Gap(where, what, float(missing[untried].sum()), len(untried)))
    return found


def _too_rarely(names: Names, shortfall: Shortfall, parts: list[IntArray], where: str) -> Gap:
    """Actions of a state that are wanted equally often, at whatever stage."""
    if len(parts) == 1:
        return _short(names, shortfall, parts[0], where)
    target, rows = shortfall.target, np.concatenate(parts)
    wanted, missing = target.counts[rows], shortfall.missing[rows]
    had = zip(target.rows[rows, 2].tolist(), (wanted - missing).tolist(), strict=True)
    each = listed([f"{_called(names, action)} ({number(tried)})" for action, tried in had])
    what = f"tried fewer than {number(float(wanted[0]))} times: {each}"
    return Gap(where, what, float(missing.sum()), len(rows))


def _short(names: Names, shortfall: Shortfall, rows: IntArray, where: str) -> Gap:
    """An action (or any) that was tried, and not often enough."""
    target = shortfall.target
    wanted, missing = float(target.counts[rows].sum()), float(shortfall.missing[rows].sum())
    share = _share(wanted - missing, wanted)
    action, stages = int(target.rows[rows[0], 2]), target.rows[rows, 0]
    what = f"visited {share}" if action == ANY else f"{_called(names, action)} tried {share}"
    if stages[0] != ANY:
        what += f" at {_stages(stages)}"
    return Gap(where, what, missing, len(rows))


def _of_transitions(combined: CombinedCounts, shortfall: Shortfall) -> list[Gap]:
    moves, lacking, names = shortfall.moves, shortfall.lacking, combined.names
    if moves is None or lacking is None:
        return []
    found, actions = [], combined.shape.actions
    tried = combined.apart.visits.sum(axis=0).reshape(-1) > 0
    for i in np.flatnonzero((lacking > 0) & tried[moves.pair]).tolist():
        state, action = divmod(int(moves.pair[i]), actions)
        successor = int(moves.successor[i])
        led_to = "the end" if successor < 0 else names.state(successor)
        share = _share(float(moves.times[i]), float(moves.times[i] + lacking[i]))
        what = f"{_called(names, action)} led to {led_to}: {share}"
        found.append(Gap(names.state(state), what, float(lacking[i]), 1))
    shown = set(moves.pair.tolist())
    by_state: dict[int, list[int]] = {}
    for row in shortfall.open_rows().tolist():
        state, action = (int(part) for part in shortfall.target.rows[row, 1:])
        pair = state * actions + action
        if not tried[pair]:
            by_state.setdefault(state, []).append(row)
        elif pair not in shown:  # at the end of episodes alone, with no next state
            what = f"{_called(names, action)} tried, and where it led never shown"
            found.append(Gap(names.state(state), what, float(shortfall.missing[row]), 1))
    for rows in by_state.values():
        found += _of_state(combined, shortfall, np.array(rows))
    return found


def _share(had: float, wanted: float) -> str:
    times = "time" if wanted == 1 else "times"
    return f"{number(float(had))} of {number(float(wanted))} {times}"


def _called(names: Names, action: int) -> str:
    """An action in a sentence."""
    return f"{names.action(action)!r}" if names.actions is not None else names.action(action)


def _stages(stages: IntArray | Sequence[int]) -> str:
    """``stage 3``, ``stages 2 to 5 and 9``."""
    numbers = sorted(set(np.asarray(stages).tolist()))
    spans: list[list[int]] = []
    for one in numbers:
        if spans and one == spans[-1][1] + 1:
            spans[-1][1] = one
        else:
            spans.append([one, one])
    words = [str(low) if low == high else f"{low} to {high}" for low, high in spans]
    return f"stage{'s' if len(numbers) > 1 else ''} {listed(words)}"
