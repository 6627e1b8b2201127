"""Running one experiment: what each kind measures, as rows of the tidy file."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np

from benchmarks.comparison.dense import DensePlanner
from benchmarks.comparison.experiments import DENSE, LEAST_LIMIT, WHOLE, Experiment
from benchmarks.comparison.methods import APART, DELTA, method_named
from benchmarks.comparison.players import episodes_to_cover
from benchmarks.comparison.results import Row
from covgame.baselines.pedel import Pedel
from covgame.baselines.rf_express import RFExpress
from covgame.baselines.rf_ucrl import RFUCRL, RULES
from covgame.baselines.ucbvi import BPIUCBVI
from covgame.engine.engines import SimulatedEngine
from covgame.errors import BadInput
from covgame.flow.min_flow import min_flow
from covgame.game.counts import Counts
from covgame.game.presets import default_game
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.runs.learn import explore, identify
from covgame.sources.counted import SortedSuccessors, draw_visits
from covgame.sources.environments import make
from covgame.sources.simulated import SimulatedSource
from covgame.targets.requests import parse_request, uniform
from covgame.targets.resolve import drop_rarely_reached
from covgame.targets.target import Target
from covgame.types import Policy

REACH = 0.01
UNBALANCED_SEED = 5
GROWTH = 0.02
STREAM = 11
MARKS_PER_DECADE = 16
LONG = 10_000.0  # visits a cell: more than is played when time is measured
SPEED_EPISODES, SPEED_SECONDS = 20_000, 20.0
"""Time is taken in the last quarter of so many episodes or seconds, and at least once."""


def measure(experiment: Experiment) -> list[Row]:
    """The rows of one experiment, with the seconds it took as the last one."""
    began = time.perf_counter()
    rows = list(KINDS[experiment.kind](experiment))
    return [*rows, Row("seconds", time.perf_counter() - began)]


@cache
def world(env: str) -> TabularMDP:
    """A world by name; ``@H`` after it gives the number of stages."""
    name, _, horizon = env.partition("@")
    return make(name, int(horizon) if horizon else None).require_model("a benchmark")


@cache
def priced(env: str, asked: str) -> tuple[Target, float]:
    """A target on a world, without what is hardly reachable, and phi* of it."""
    transitions = world(env).transitions
    kind, _, most = asked.partition(":")
    if kind == "unbalanced":
        everywhere = uniform(1).resolve(transitions)
        spread = np.random.default_rng(UNBALANCED_SEED).uniform(0, 1, len(everywhere))
        whole = Target(everywhere.shape, everywhere.rows, np.round(float(most) ** spread))
    else:
        whole = parse_request(asked).resolve(transitions)
    target, _ = drop_rarely_reached(whole, transitions, REACH)
    return target, min_flow(transitions, target).min_episodes


def cover(experiment: Experiment) -> Iterator[Row]:
    """Episodes until each target is covered, or where the run was stopped."""
    found = [priced(experiment.env, target) for target in experiment.targets]
    limits = [max(LEAST_LIMIT, math.ceil(experiment.limit * phi)) for _, phi in found]
    method = method_named(experiment.method)
    player = method.start(world(experiment.env), found[0][0], experiment.seed)
    taus = episodes_to_cover(player, [target for target, _ in found], limits)
    for name, (_, phi), limit, tau in zip(experiment.targets, found, limits, taus, strict=True):
        yield Row("phi", phi, target=name)
        yield (
            Row("stopped at", limit, target=name)
            if tau is None
            else Row("episodes", tau, target=name)
        )


def progress(experiment: Experiment) -> Iterator[Row]:
    """The share of the wanted visits that is collected, over episodes."""
    (name,) = experiment.targets
    target, phi = priced(experiment.env, name)
    player = method_named(experiment.method).start(world(experiment.env), target, experiment.seed)
    limit, mark = math.ceil(experiment.limit * phi), 1
    yield Row("phi", phi, target=name)
    while player.counts.n_episodes < limit and not player.finished:
        player.play(mark - player.counts.n_episodes)
        if player.counts.n_episodes >= mark or player.finished:
            played = player.counts.n_episodes
            collected = np.minimum(target.collected(player.counts.visits), target.counts)
            yield Row("share", collected.sum() / target.counts.sum(), at=played, target=name)
            mark = min(limit, math.ceil(played * 10 ** (1 / MARKS_PER_DECADE) + 1e-9))


def visits(experiment: Experiment) -> Iterator[Row]:
    """Where the episodes go: visits of every state, at all stages together."""
    (name,) = experiment.targets
    target, phi = priced(experiment.env, name)
    player = method_named(experiment.method).start(world(experiment.env), target, experiment.seed)
    episodes_to_cover(player, [target], [math.ceil(experiment.limit * phi)])
    yield Row("phi", phi, target=name)
    yield Row("played", player.counts.n_episodes, target=name)
    for state, number in enumerate(player.counts.visits.sum(axis=(0, 2)).tolist()):
        yield Row("visits", number, at=state, target=name)


def error(experiment: Experiment) -> Iterator[Row]:
    """What a reward-free method can promise, over episodes, until H/10 is reached."""
    model = world(experiment.env)
    wanted = model.shape.horizon / 10
    if experiment.method in ("certified", "PCE, paper"):
        paper = experiment.method != "certified"
        run = explore(
            model, epsilon=wanted, delta=DELTA, seed=experiment.seed, force=True, play="counts",
            preset="paper" if paper else "certified", stage_dependent=not paper,
            max_episodes=None if paper else int(experiment.limit),
        )  # fmt: skip
        played = 0
        for phase in run.phases:
            played += phase.episodes
            if phase.bound is not None:
                yield Row("error", phase.bound, at=played)
        return
    peer = _promising(experiment.method)
    curiosity = peer.curiosity(model.shape)
    for counts, marked in _by_counts(model, experiment, curiosity.policy):
        if marked or counts.n_episodes >= experiment.limit:
            bound = peer.error(counts)
            yield Row("error", min(bound, model.shape.horizon), at=counts.n_episodes)
            if bound <= wanted:
                return


def _promising(method: str) -> RFUCRL | RFExpress:
    """A peer that promises an error: ``RF-UCRL, `` and its rule, or RF-Express."""
    name, _, rule = method.partition(", ")
    return RFUCRL(DELTA, rule=RULES[rule]) if name == "RF-UCRL" else RFExpress(DELTA)


def _by_counts(
    model: TabularMDP, experiment: Experiment, policy: Callable[[Counts], Policy]
) -> Iterator[tuple[Counts, bool]]:
    """Rounds of 2% of the episodes, by counts; (counts, whether a mark was passed)."""
    counts, successors, mark = Counts(model.shape, pooled=False), SortedSuccessors(model), 1.0
    while counts.n_episodes < experiment.limit:
        more = max(1, int(GROWTH * counts.n_episodes))
        rng = np.random.default_rng([experiment.seed, STREAM, counts.n_episodes])
        counts.add_visits(draw_visits(successors, policy(counts), more, rng))
        passed = counts.n_episodes >= mark
        if passed:
            mark = counts.n_episodes * 10 ** (1 / MARKS_PER_DECADE)
        yield counts, passed


def policy(experiment: Experiment) -> Iterator[Row]:
    """Episodes until a policy is promised to lose at most H/10, and what it really loses."""
    model = world(experiment.env)
    wanted = model.shape.horizon / 10
    episodes, found = _identified(experiment, model, wanted)
    best = dp.backward_induction(model.transitions, model.rewards).values
    mine = dp.evaluate(model.transitions, found, model.rewards)
    yield Row("episodes", episodes)
    yield Row("loss", float(model.initial @ (best[0] - mine[0])))


def _identified(experiment: Experiment, model: TabularMDP, wanted: float) -> tuple[int, Policy]:
    if experiment.method in ("certified", "PRINCIPLE, paper"):
        paper = experiment.method != "certified"
        run = identify(
            model, epsilon=wanted, delta=DELTA, seed=experiment.seed, force=True, play="counts",
            preset="paper" if paper else "certified", stage_dependent=not paper,
        )  # fmt: skip
        return run.n_episodes, run.policy
    if experiment.method.startswith("PEDEL"):
        pedel = Pedel(wanted, DELTA)
        counts, successors = Counts(model.shape, pooled=False), SortedSuccessors(model)
        while not pedel.done and counts.n_episodes < experiment.limit:
            rollout = pedel.ask(counts)
            rng = np.random.default_rng([experiment.seed, STREAM, counts.n_episodes])
            if not pedel.done:
                seen = draw_visits(successors, rollout.policy(counts), rollout.episodes, rng)
                counts.add_visits(seen)
        return counts.n_episodes, pedel.policy(counts)
    bpi = BPIUCBVI(DELTA)
    curiosity = bpi.curiosity(model.shape)
    for counts, marked in _by_counts(model, experiment, curiosity.policy):
        if marked:
            found, gap = bpi.gap(counts)
            if gap <= wanted:
                return counts.n_episodes, found
    raise BadInput(f"{experiment.key} did not end within its limit")


def speed(experiment: Experiment) -> Iterator[Row]:
    """Microseconds of an exact episode in the middle of a long run, by the size of the world."""
    kind, _, size = experiment.env.partition("@")
    cells = int(size)
    model = _sized(kind, cells)
    yield Row("microseconds", _microseconds(experiment.method, model), at=model.shape.cells)


def _sized(kind: str, cells: int) -> TabularMDP:
    """A world of about so many cells, with 20 stages."""
    if kind == "grid":
        side = round(math.sqrt(cells / 80))
        return world(f"grid:rows={side},columns={side},horizon=20")
    if kind == "garnet":
        states = round(cells / 40)
        name = f"garnet:states={states},actions=2,horizon=20,branching=2,stationary=true"
        return world(name)
    raise BadInput(f"there are no worlds {kind!r} of every size; there are: grid, garnet")


def _microseconds(method: str, model: TabularMDP) -> float:
    if method == DENSE:
        return 1e6 * DensePlanner(model).seconds_per_plan(SPEED_SECONDS / 10)
    target = uniform(LONG).resolve(model.transitions)
    game = default_game(target, pooled=method != APART)
    player = SimulatedEngine(
        game,
        SimulatedSource(model, 0),
        most=1000,
        record=False,
        incremental=method != WHOLE,
        waits=True,
    )
    counts, times = game.counts, list[float]()
    began = time.perf_counter()
    while not times or (
        counts.n_episodes < SPEED_EPISODES and time.perf_counter() - began < SPEED_SECONDS
    ):
        before, at = counts.n_episodes, time.perf_counter()
        player.play(1000)
        if counts.n_episodes > before:
            times.append((time.perf_counter() - at) / (counts.n_episodes - before))
    return 1e6 * statistics.median(times[-max(1, len(times) // 4) :])


KINDS: dict[str, Callable[[Experiment], Iterator[Row]]] = {
    "cover": cover,
    "progress": progress,
    "visits": visits,
    "error": error,
    "policy": policy,
    "speed": speed,
}
