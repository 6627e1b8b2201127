"""Environments by name: ``make`` turns what a user writes as ENV into an Environment."""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from covgame.errors import BadInput, UnknownModel
from covgame.jsonfile import is_file
from covgame.mdp.families import FAMILIES, Family
from covgame.mdp.model import TabularMDP
from covgame.notebook import facts_table
from covgame.sources.maps import AnyMap, MappedStates
from covgame.sources.messages import Team, WorkerPool
from covgame.sources.objects import (
    HANDED_OVER,
    StateActionSpec,
    check_playable,
    factory_of,
    has_spaces,
    horizon_of,
    open_world,
)
from covgame.sources.simulated import SimulatedSource
from covgame.sources.source import Source
from covgame.sources.states import States
from covgame.sources.stepped import FailurePolicy, Opener, RewardBounds, SteppedSource
from covgame.sources.steppers import Stepper, innermost

KnownStates = tuple[list[str], list[str] | None]
"""(keys, labels) of states that were discovered before."""


@dataclass(frozen=True, eq=False)
class Environment:
    """An environment to play. Plans and reports use its model, if known; learners never do."""

    name: str
    horizon: int
    model: TabularMDP | None
    by_name: bool = True  # whether ``make`` can make it again from its name and horizon
    opener: Opener | None = None  # opens it, if it is played step by step and not simulated
    spec: StateActionSpec = field(default_factory=StateActionSpec)
    absent: str | None = None  # why it cannot be played here, though its data can be read

    @property
    def known(self) -> bool:
        """Whether its transition table is known."""
        return self.model is not None

    def require_model(self, purpose: str) -> TabularMDP:
        """The model, or an error that says what it was needed for."""
        if self.model is None:
            raise UnknownModel(
                f"{purpose} needs the transition table of {self.name}, and it has none; "
                "use a model file, a family (covgame envs lists them) or a Gymnasium "
                "environment with a table such as gym:FrozenLake-v1"
            )
        return self.model

    def require_playable(self) -> None:
        """Refuse an environment of which only the recorded data are here."""
        if self.absent is not None:
            raise BadInput(self.absent)

    def open(
        self,
        seed: int,
        *,
        known: KnownStates | None = None,
        bounds: RewardBounds | None = None,
        most_states: int | None = None,
        keep_observations: bool = False,
        failure_policy: FailurePolicy | None = None,
        workers: WorkerPool | None = None,
    ) -> Source:
        """Open the source of its episodes.

        Args:
            seed: Of the random numbers.
            known: The states that were discovered before.
            bounds: What it may pay; an episode that breaks them ends the run.
            most_states: An upper bound on the states that may be discovered.
            keep_observations: Keep observations as they are, beside the numbers of states.
            failure_policy: What to do when it fails.
            workers: Processes that play several episodes at once.
        """
        if self.opener is None:
            if keep_observations:
                raise BadInput(
                    f"{self.name} is simulated from its model and shows states, no observations; "
                    "leave out --keep-observations"
                )
            return SimulatedSource(self.require_model("covering"), seed)
        policy = failure_policy or FailurePolicy()
        stepper, states = self.opener()
        if policy.isolates and self.absent is None:
            from covgame.sources.process import isolated
            from covgame.sources.worker import Recipe

            recipe = Recipe.of(self, keep_observations=keep_observations)
            stepper, states = isolated(stepper, states, recipe, policy.step_timeout)
        if known is not None:
            states = states.again(*known)
        new_team = None
        if workers is not None:
            new_team = partial(self._new_team, workers, keep_observations, policy)
        allowed = self.model.transitions.allowed if self.model else None
        return SteppedSource(
            stepper,
            states,
            self.horizon,
            seed,
            allowed=allowed,
            bounds=bounds,
            most_states=most_states if states.discovered else None,
            keeps_observations=keep_observations,
            policy=policy,
            new_team=new_team,
        )

    def _new_team(
        self, workers: WorkerPool, keep_observations: bool, policy: FailurePolicy, actions: int
    ) -> Team:
        """Start workers, each with an environment of its own."""
        from covgame.sources.worker import Recipe

        recipe = Recipe.of(
            self,
            keep_observations=keep_observations,
            on_failure=policy.on_failure,
            step_timeout=policy.step_timeout,
            isolate=policy.isolate,
        )
        if workers.engine == "ray":
            from covgame.sources.ray import RayTeam, connected

            ray = connected(workers.address, workers.size)
            return RayTeam(recipe, workers.size, actions, ray)
        from covgame.sources.process import LocalTeam

        return LocalTeam(recipe, workers.size, actions)

    def __repr__(self) -> str:
        about = repr(self.model) if self.model is not None else "no table"
        return f"Environment({self.name!r}, horizon={self.horizon}, {about})"

    def _repr_html_(self) -> str:
        table = "not known; states show as one plays"
        if self.model is not None:
            _, states, actions = self.model.shape.hsa
            table = f"known: {states:,} states, {actions} actions"
        stages = ("episodes", f"at most {self.horizon:,} steps")
        return facts_table([("environment", self.name), stages, ("transitions", table)])


def make(
    env: Any,
    horizon: int | None = None,
    *,
    states: AnyMap | None = None,
    actions: str | None = None,
) -> Environment:
    """An environment from its name, an object, a class, a function, a model file or a model.

    Args:
        env: ``gym:FrozenLake-v1?is_slippery=false``, a family such as ``riverswim:states=8``,
            ``py:module:factory?n=3`` for one of your own, the path of a ``covgame-mdp/1`` file, a
            ``TabularMDP``, a Gymnasium environment, any object with ``reset`` and ``step``, a class
            or a function without arguments that makes one. An object that was handed over is
            played in this process only; a class or a function can be made again.
        horizon: Steps of an episode at most, where ``env`` leaves it open.
        states: What counts as a state: a function of an observation (and of the environment, if it
            takes two arguments), ``covgame.bins(12, 8)``, or a text such as ``"bins:12x8"``,
            ``"round:2"``, ``"keys:agent_pos,agent_dir"``, ``"image:hash"``, ``"py:module:name"``.
        actions: ``"grid:5"``: so many values of every real number that an action has.

    Returns:
        The environment: ``env.name``, ``env.horizon``, and ``env.model`` where its transition
        table is known.

    Raises:
        BadInput: There is no such environment; the sentence says what there is.

    Example:
        >>> import covgame as cg
        >>> cg.make("riverswim:states=8").model.shape.hsa  # stages, states, actions
        (20, 8, 2)
    """
    horizon, spec = _whole(horizon), StateActionSpec(states, actions)
    if isinstance(env, Environment):
        raise BadInput("this is an Environment already; make it once, with all that it needs")
    if isinstance(env, TabularMDP):
        _check_is_read_plainly("a model", spec)
        return _with_model("a model", env, horizon, by_name=False)
    if not isinstance(env, str | Path):
        return _external(*factory_of(env), horizon, spec)
    name = str(env)
    kind, colon, rest = name.partition(":")
    if kind == "gym" and colon:
        from covgame.sources.gymnasium_envs import gym_factory

        return _external(name, gym_factory(rest), True, horizon, spec)
    if kind == "py" and colon:
        return _external(*factory_of(name), horizon, spec)
    if kind in FAMILIES:
        _check_is_read_plainly(name, spec)
        return _make_family(name, FAMILIES[kind], rest, horizon)
    if is_file(name) or name.endswith(".json"):
        from covgame.mdp.files import load_model

        _check_is_read_plainly(name, spec)
        return _with_model(name, load_model(name), horizon, by_name=False)
    raise BadInput(_no_such_environment(name, kind))


def _check_is_read_plainly(name: str, spec: StateActionSpec) -> None:
    if spec != StateActionSpec():
        raise BadInput(
            f"{name} has its states and actions already; --states and --actions are "
            "for environments that show observations"
        )


def _external(
    name: str, factory: Callable[[], Any], again: bool, horizon: int | None, spec: StateActionSpec
) -> Environment:
    """An environment that is played step by step; looked at once, so that errors come now."""
    world = factory()
    try:
        check_playable(world)
        stages = horizon_of(world, horizon)
        _, states = open_world(world, spec)
        model = _table_of(world, stages) if spec == StateActionSpec() else None
    except BadInput as error:
        raise type(error)(f"{name}: {error}") from None
    mapped = states.map.by_name if isinstance(states, MappedStates) else True
    found = again and mapped and HANDED_OVER not in name
    unused = [world]  # making one may take long: the first is not thrown away

    def opener() -> tuple[Stepper, States]:
        return open_world(unused.pop() if unused and again else factory(), spec)

    return Environment(name, stages, model, found, opener, spec)


def _table_of(world: Any, stages: int) -> TabularMDP | None:
    """The model of a Gymnasium environment that shows it."""
    if not has_spaces(world):
        return None
    from covgame.sources.gymnasium_envs import is_itself, read_table

    return read_table(innermost(world), stages) if is_itself(world) else None


def as_environment(
    env: Any,
    horizon: int | None = None,
    states: AnyMap | None = None,
    actions: str | None = None,
) -> Environment:
    """What a user handed over as an environment, made if need be."""
    if not isinstance(env, Environment):
        return make(env, horizon, states=states, actions=actions)
    if horizon is not None or states is not None or actions is not None:
        raise BadInput(
            "an Environment has its horizon, states and actions already; say them in covgame.make"
        )
    return env


def _with_model(
    name: str, model: TabularMDP, horizon: int | None, *, by_name: bool = True
) -> Environment:
    if horizon is not None:
        model = model.with_horizon(horizon)
    return Environment(name, model.shape.horizon, model, by_name)


def _make_family(name: str, family: Family, text: str, horizon: int | None) -> Environment:
    given = _parameters(name, text)
    if horizon is None or "horizon" not in family.defaults:
        return _with_model(name, family.make(given), horizon)
    said = given.pop("horizon", str(horizon))
    model = family.make(given | {"horizon": str(horizon)})
    try:
        agrees = int(said) == horizon
    except ValueError:  # also of more digits than Python reads
        agrees = False
    if not agrees:
        raise BadInput(f"{name} says horizon={said} and --horizon says {horizon}")
    return _with_model(name, model, None)


def _whole(horizon: int | None) -> int | None:
    """The horizon as a whole number, or an error."""
    if horizon is None:
        return None
    if isinstance(horizon, bool) or not hasattr(horizon, "__index__"):
        raise BadInput(f"the horizon is a whole number of stages, not {horizon!r}")
    return operator.index(horizon)


def _parameters(name: str, text: str) -> dict[str, str]:
    """``states=8,horizon=20`` as a dictionary."""
    given: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not (equals and key.strip() and value.strip()):
            raise BadInput(f"{name}: write parameters as name=value, not {part!r}")
        if key.strip() in given:
            raise BadInput(f"{name}: the parameter {key.strip()!r} is given twice")
        given[key.strip()] = value.strip()
    return given


def _no_such_environment(name: str, kind: str) -> str:
    if re.search(r"-v\d+(\?|$)", name):
        return f"{name!r} names no family; Gymnasium's environments are written gym:{name}"
    close = difflib.get_close_matches(kind, FAMILIES, n=1)
    hint = f"did you mean {close[0]}?" if close else "covgame envs lists what there is"
    return f"{name!r} names no family, no Gymnasium environment and no file; {hint}"
