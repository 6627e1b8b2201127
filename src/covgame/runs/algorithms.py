"""Which algorithm ``explore`` and ``identify`` play, and what they take as known of the world."""

from __future__ import annotations

import numpy as np

from covgame.confidence import PaperThresholds
from covgame.config import LearnConfig
from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.pac.certified import CertifiedExploration, CertifiedIdentification
from covgame.pac.error_bounds import Range
from covgame.pac.forecast import Forecast, forecast_best_policy, forecast_reward_free
from covgame.pac.mixtures import Structure
from covgame.pac.pce import ProportionalCoverage
from covgame.pac.principle import ImplicitElimination
from covgame.runs.run import Source
from covgame.sources.environments import Environment
from covgame.sources.external import ExternalSource, Pay
from covgame.sources.simulated import SimulatedSource
from covgame.types import END, BoolHSA

Explorer = ProportionalCoverage | CertifiedExploration
Identifier = ImplicitElimination | CertifiedIdentification


def pay_of(settings: LearnConfig) -> Pay | None:
    """What an environment has to keep to, because the bounds rely on it."""
    if settings.command == "explore":
        return None
    certified, returns = settings.preset == "certified", settings.return_range
    return Pay(settings.reward_range, returns[1] if certified and returns else None)


def algorithm_for(
    environment: Environment, settings: LearnConfig, source: Source
) -> tuple[Explorer | Identifier, Forecast]:
    """The algorithm that was asked for, and what it takes at least."""
    if settings.preset == "certified":
        return _certified(environment, settings, source), Forecast(())
    if settings.command == "explore":
        return _pce(environment, settings, source)
    return _principle(environment, settings, source)


def _pce(
    environment: Environment, settings: LearnConfig, source: Source
) -> tuple[ProportionalCoverage, Forecast]:
    """The paper's reward-free exploration."""
    thresholds = PaperThresholds(source.shape, settings.scale)
    asked = (settings.epsilon, settings.delta)
    transitions = environment.model.transitions if environment.model else None
    allowed = transitions.allowed if transitions else None
    pce = ProportionalCoverage(thresholds, *asked, allowed)
    return pce, forecast_reward_free(thresholds, *asked, transitions)


def _principle(
    environment: Environment, settings: LearnConfig, source: Source
) -> tuple[ImplicitElimination, Forecast]:
    """The paper's best-policy identification."""
    model = environment.require_model("the paper's identify")
    exists = _existing_cells(model)
    _check_rewards(model, settings, source)
    principle = ImplicitElimination(
        PaperThresholds(source.shape, settings.scale),
        settings.epsilon,
        settings.delta,
        exists,
        random_start=not _one_start(model),
        suprema=settings.suprema,
        pruned=settings.prune,
        reward_range=_paid(settings, model),
    )
    precision = settings.epsilon / principle.unit
    forecast = forecast_best_policy(
        principle.thresholds, precision, settings.delta, exists, model.transitions
    )
    return principle, forecast


def _certified(
    environment: Environment, settings: LearnConfig, source: Source
) -> CertifiedExploration | CertifiedIdentification:
    """Algorithms that play until their certificate says enough."""
    model = environment.model
    simulated = isinstance(source, SimulatedSource)
    structure = known_structure(model, settings.most_successors, simulated=simulated)
    paid = settings.command == "identify"
    pooled = source.stationary and not settings.stage_dependent
    counts = Counts(source.shape, pooled=pooled, paid=paid)
    # A model knows whether its stages are alike; of an environment that is supposed, and tested.
    tested = counts.pooled and not simulated
    apart = Counts(source.shape, pooled=False, paid=paid) if tested else None
    asked = (counts, structure, float(settings.epsilon), settings.delta)
    if settings.command == "explore":
        return CertifiedExploration(*asked, apart=apart)
    if model is not None:
        _check_rewards(model, settings, source)
    earned = Range(*settings.reward_range, _most_paid(settings, model, source))
    # By counts nobody could tell the returns of some episodes from those of the others.
    return CertifiedIdentification(*asked, earned, validates=settings.play != "counts", apart=apart)


def known_structure(
    model: TabularMDP | None, most_successors: int | None, *, simulated: bool
) -> Structure:
    """What a certificate may take as known of an environment.

    In the paper's setting the first state is given; an environment that is played step by step has
    to show it.
    """
    one_start = model is not None and simulated and _one_start(model)
    return Structure(
        most_successors=most_successors,
        known_start=model.initial if model and one_start else None,
        allowed=model.transitions.allowed if model else None,
        same_rewards=model is None or len(model.stage_rewards) == 1,
    )


def _most_paid(settings: LearnConfig, model: TabularMDP | None, source: Source) -> float | None:
    """The most that an episode pays in all, where the user knows; checked as far as possible."""
    if settings.return_range is None:
        return None
    most = settings.return_range[1]
    if model is not None and not isinstance(source, ExternalSource):
        pays = (model.rewards > 0).astype(np.float64)  # simulated rewards are 0 or 1
        possible = dp.highest_return(model.transitions, pays)
        if possible > most:
            raise BadInput(
                f"an episode can pay {possible:g} here (simulated rewards are 0 or 1), more than "
                f"the {most:g} of --return-range"
            )
    return most


def _one_start(model: TabularMDP) -> bool:
    return int((model.initial > 0).sum()) == 1


def _check_rewards(model: TabularMDP, settings: LearnConfig, source: Source) -> None:
    """Rewards have to lie in the range that the confidence sets are made for."""
    low, high = settings.reward_range
    if isinstance(source, SimulatedSource):
        _check_range_of_model(low, high)
    if (model.rewards < low).any() or (model.rewards > high).any():
        least, most = float(model.rewards.min()), float(model.rewards.max())
        raise BadInput(
            f"rewards from {least:g} to {most:g} do not lie in [{low:g}, {high:g}]; "
            "say --reward-range LO,HI for an environment that is played step by step"
        )


def _check_range_of_model(low: float, high: float) -> None:
    """A model pays 0 or 1, whatever is said of it."""
    if low > 0 or high < 1:
        raise BadInput(
            f"simulated rewards are 0 or 1, which --reward-range {low:g},{high:g} does not hold; "
            "leave it out"
        )


def _paid(settings: LearnConfig, model: TabularMDP) -> tuple[float, float]:
    """The range of rewards; an episode that is over earns 0, so that is in it where it can be."""
    low, high = settings.reward_range
    if (model.transitions.next_state == END).any():
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


def _existing_cells(model: TabularMDP) -> BoolHSA:
    """What some policy reaches; PRINCIPLE takes it as given."""
    reachable = dp.reachable(model.transitions)[:, :, None]
    return reachable & model.transitions.allowed_actions
