"""What a game remembers, as named arrays and back: nothing but numbers, no pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from covgame.errors import BadInput
from covgame.game.counts import Counts, summed_to
from covgame.game.game import Game
from covgame.game.payments import Payments
from covgame.game.successors import SuccessorTable
from covgame.targets.target import Groups, Target
from covgame.types import END, IntArray, Shape

Arrays = Mapping[str, npt.NDArray[Any]]


def counts_arrays(counts: Counts) -> dict[str, npt.NDArray[Any]]:
    """What was counted.

    ``visits`` and ``reward_sums`` are (H, S, A), or (1, S, A) where visits of a large world are
    added up over its ``horizon`` stages; ``transitions`` lists [row, successor, count],
    where a row is a cell (h S + s) A + a, or a pair s A + a if stages are ``pooled``; -1 ends an
    episode. ``paid`` is what was earned with each of these transitions, in the same order.
    """
    arrays = {
        "episodes": np.array(counts.n_episodes),
        "visits": counts.visits,
        "reward_sums": counts.reward_sums,
        "starts": counts.starts,
        "pooled": np.array(counts.pooled),
        "transitions": _listed(counts.table),
        "agreement": counts.agreement,
        "state_agreement": counts.state_agreement,
    }
    if counts.pool is not None:
        arrays["pool_transitions"] = _listed(counts.pool)
    if counts.payments is not None:
        row, successor, _ = counts.table.listed(0, len(counts.table))
        arrays["paid"] = counts.payments.of(row, successor)
        if counts.payments.returns is not None:
            returns = sorted(counts.payments.returns.items())
            arrays["returns"] = np.array(returns, dtype=np.float64).reshape(-1, 2)
    if counts.stage_free:
        arrays["horizon"] = np.array(counts.shape.horizon)
    return arrays


def game_arrays(game: Game) -> dict[str, npt.NDArray[Any]]:
    """Everything that decides how the game goes on."""
    state = game.state
    return {
        **counts_arrays(game.counts),
        "weights": state.weights,
        "base": state.base,
        "level": np.array(state.level),
        **target_arrays(game.target),
        "numbers": np.array([state.total, state.variance, state.rate, state.shift]),
        **({} if game.asked.all() else {"asked": game.asked}),
        **({} if game.allowed is None else {"allowed": game.allowed}),
        **{f"memory_{name}": value for name, value in state.memory.items()},
    }


def target_arrays(target: Target) -> dict[str, npt.NDArray[Any]]:
    """A target: its rows and counts, and what rows below ANY stand for."""
    arrays: dict[str, npt.NDArray[Any]] = {
        "target_rows": target.rows,
        "target_counts": target.counts,
    }
    if target.groups is not None:
        arrays["group_names"] = np.array(target.groups.names, dtype=np.str_)
        arrays["group_members"] = np.column_stack([target.groups.group, target.groups.pair])
    return arrays if target.last_stage else {**arrays, "last_stage": np.array(False)}


def target_from(arrays: Arrays, shape: Shape) -> Target:
    """The target that was saved, for a world of this size."""
    with fitting():
        rows, counts = arrays["target_rows"], arrays["target_counts"]
        target = Target.of_rows(shape, rows, counts)
        groups = None
        if "group_names" in arrays:
            group, pair = arrays["group_members"].reshape(-1, 2).T
            groups = Groups(tuple(arrays["group_names"].tolist()), group, pair)
            if len(pair) and not 0 <= pair.min() <= pair.max() < shape.pairs:
                raise ValueError("groups of pairs that do not exist")
            if len(group) and not 0 <= group.min() <= group.max() < len(groups.names):
                raise ValueError("pairs of groups that do not exist")
        if groups is None and target.of_group.any():
            raise ValueError("rows of groups that do not exist")
        return replace(target, groups=groups, last_stage=bool(arrays.get("last_stage", True)))


@contextmanager
def fitting() -> Iterator[None]:
    """Whatever is wrong with saved arrays becomes one sentence."""
    try:
        yield
    except (KeyError, ValueError, IndexError, TypeError, AttributeError) as error:
        raise BadInput(f"the saved state does not fit this run ({error})") from error


def restore_game(game: Game, arrays: Arrays) -> None:
    """Bring a new game of the same kind to where the arrays were taken."""
    restore_counts(game.counts, arrays)
    with fitting():
        state = game.state
        state.weights[:] = arrays["weights"]
        state.base[:] = arrays["base"]
        state.level = int(arrays["level"])
        state.total, state.variance, state.rate, state.shift = arrays["numbers"].tolist()
        state.memory = {
            name.removeprefix("memory_"): value
            for name, value in arrays.items()
            if name.startswith("memory_")
        }
        if "asked" in arrays:
            game.asked[:] = arrays["asked"]
        state.rows = int(game.asked.sum())
        visits = game.target.collected(game.counts.visits)
        game.collected[:] = np.where(game.asked, visits, np.inf)
        if game.allowed is None and "allowed" in arrays:
            game.allowed = arrays["allowed"].astype(np.bool_).reshape(game.counts.shape.hsa[1:])


def restore_counts(counts: Counts, arrays: Arrays) -> None:
    """Fill new counts with what was saved."""
    with fitting():
        if bool(arrays["pooled"]) != counts.pooled:
            raise ValueError("stages are pooled in one and not in the other")
        counts.n_episodes = int(arrays["episodes"])
        counts.visits[:] = summed_to(len(counts.visits), arrays["visits"])
        counts.reward_sums[:] = summed_to(len(counts.visits), arrays["reward_sums"])
        counts.starts[:] = arrays["starts"]
        counts.agreement[:] = arrays["agreement"]
        counts.state_agreement[:] = arrays["state_agreement"]
        _fill(counts.table, arrays["transitions"], counts.shape.states)
        if counts.pool is not None:
            _fill(counts.pool, arrays["pool_transitions"], counts.shape.states)
        if counts.payments is not None:
            row, successor, _ = arrays["transitions"].reshape(-1, 3).T
            counts.payments = Payments()
            counts.payments.add(row, successor, arrays["paid"])
            if "returns" in arrays:
                returns = arrays["returns"].reshape(-1, 2).tolist()
                counts.payments.returns = {value: int(times) for value, times in returns}


def shape_of(arrays: Arrays) -> Shape:
    """Stages, states and actions of what was counted."""
    with fitting():
        stages, states, actions = arrays["visits"].shape
        return Shape(int(arrays.get("horizon", stages)), states, actions)


def counts_from(arrays: Arrays) -> Counts:
    """The counts of a run, whatever it was."""
    with fitting():
        shape, stage_free = shape_of(arrays), "horizon" in arrays
        pooled, borrowing = bool(arrays["pooled"]), "pool_transitions" in arrays
    paid = "paid" in arrays
    counts = Counts(shape, pooled=pooled, borrowing=borrowing, stage_free=stage_free, paid=paid)
    restore_counts(counts, arrays)
    return counts


def _listed(table: SuccessorTable) -> IntArray:
    return np.column_stack(table.listed(0, len(table)))


def _fill(table: SuccessorTable, listed: IntArray, states: int) -> None:
    """Give an empty table these transitions, each row in the order of the list."""
    row, successor, count = listed.T
    if len(row) and not (0 <= row.min() <= row.max() < len(table) and count.min() > 0):
        raise ValueError("transitions of rows that do not exist")
    if len(row) and not END <= successor.min() <= successor.max() < states:
        raise ValueError("transitions to states that do not exist")
    size = np.bincount(row, minlength=len(table))
    table.rows["size"] = table.rows["capacity"] = size
    table.rows["start"] = np.cumsum(size) - size
    table.rows["total"] = np.bincount(row, count, minlength=len(table)).astype(np.int64)
    table.rows["share"] = np.where(size > 0, 1.0 / np.maximum(table.rows["total"], 1), 0.0)
    table.used = 0
    table.make_room(len(row))
    table.used = len(row)
    table.entries["successor"][: len(row)] = successor
    table.entries["count"][: len(row)] = count
