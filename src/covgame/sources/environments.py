"""Environments by name: ``make`` turns what a user writes as ENV into an Environment."""

from __future__ import annotations

import difflib
import operator
from dataclasses import dataclass
from pathlib import Path

from covgame.errors import BadInput, UnknownModel
from covgame.jsonfile import is_file
from covgame.mdp.families import FAMILIES, Family
from covgame.mdp.model import TabularMDP
from covgame.sources.external import ExternalSource, Opener, Pay
from covgame.sources.simulated import SimulatedSource
from covgame.sources.states import DiscoveredStates


@dataclass(frozen=True, eq=False)
class Environment:
    """A world one can name. Its model is there for plans and reports, never for learners."""

    name: str
    horizon: int
    model: TabularMDP | None
    by_name: bool = True  # whether ``make`` finds it again by its name and horizon
    opener: Opener | None = None  # opens it, if it is played step by step and not simulated

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

    def open(
        self, seed: int, *, keys: list[str] | None = None, pay: Pay | None = None
    ) -> SimulatedSource | ExternalSource:
        """Where its episodes come from; ``keys`` are the states that were discovered before."""
        if self.opener is None:
            return SimulatedSource(self.require_model("covering"), seed)
        stepper, states = self.opener()
        if keys is not None and states.discovered:
            states = DiscoveredStates(keys)
        allowed = self.model.transitions.allowed if self.model else None
        return ExternalSource(stepper, states, self.horizon, seed, allowed=allowed, pay=pay)

    def __repr__(self) -> str:
        about = repr(self.model) if self.model is not None else "no table"
        return f"Environment({self.name!r}, horizon={self.horizon}, {about})"


def make(env: str | Path | TabularMDP, horizon: int | None = None) -> Environment:
    """An environment from its name, a model file or a model.

    Args:
        env: ``gym:FrozenLake-v1?is_slippery=false``, a family such as ``riverswim:states=8``,
            ``py:module:factory`` for one of your own, the path of a ``covgame-mdp/1`` file, or a
            ``TabularMDP``.
        horizon: Steps of an episode at most, where ``env`` leaves it open.

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
    horizon = _whole(horizon)
    if isinstance(env, TabularMDP):
        return _with_model("a model", env, horizon, by_name=False)
    if not isinstance(env, str | Path):
        raise BadInput(f"an environment is a name, a file or a model, not {type(env).__name__}")
    name = str(env)
    kind, colon, rest = name.partition(":")
    if kind == "gym" and colon:
        from covgame.sources.gymnasium_envs import make_gym

        stages, model, opener = make_gym(rest, horizon)
        return Environment(name, stages, model, opener=opener)
    if kind == "py" and colon:
        from covgame.sources.python_objects import make_python

        stages, opener = make_python(rest, horizon)
        return Environment(name, stages, None, opener=opener)
    if kind in FAMILIES:
        return _make_family(name, FAMILIES[kind], rest, horizon)
    if is_file(name) or name.endswith(".json"):
        from covgame.mdp.files import load_model

        return _with_model(name, load_model(name), horizon, by_name=False)
    raise BadInput(_no_such_environment(name, kind))


def as_environment(
    env: Environment | TabularMDP | str | Path, horizon: int | None = None
) -> Environment:
    """What a user handed over as an environment, made if need be."""
    if not isinstance(env, Environment):
        return make(env, horizon)
    if horizon is not None:
        raise BadInput("an Environment has its horizon already; say it in covgame.make")
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
    if not said.lstrip("+-").isdigit() or int(said) != horizon:
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
    close = difflib.get_close_matches(kind, FAMILIES, n=1)
    hint = f"did you mean {close[0]}?" if close else "covgame envs lists what there is"
    return f"{name!r} names no family, no Gymnasium environment and no file; {hint}"
