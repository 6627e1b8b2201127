"""covgame: cover an environment you don't know in close to the fewest episodes possible.

The public names. A name is imported when somebody asks for it: a command that needs three of them
does not wait for all.
"""

import importlib as _importlib
import typing as _typing

from covgame import search_path as search_path

if _typing.TYPE_CHECKING:
    from covgame.config import CoverConfig, LearnConfig
    from covgame.data.audit import Audit, audit
    from covgame.data.export import Exported, export
    from covgame.episodes import LAST, Episode
    from covgame.errors import (
        BadInput,
        CovgameError,
        EnvironmentFailed,
        MissingExtra,
        SolverFailed,
        StorageFailed,
        TooLarge,
        UnknownModel,
        UnreachableTarget,
    )
    from covgame.flow.floor import Floor
    from covgame.game.adversary import Adversary, AdversaryState
    from covgame.game.counts import Counts
    from covgame.game.custom_players import Peer
    from covgame.game.game import EpisodeSource, Game, Round, rounds
    from covgame.game.planner import Planner
    from covgame.game.presets import default_game, paper_game
    from covgame.mdp.model import TabularMDP
    from covgame.pac.learnt import LearntModel
    from covgame.planning import Plan, floor, functionals, plan
    from covgame.runs.certify import Checked, certify
    from covgame.runs.cover import cover
    from covgame.runs.coverage import Coverage
    from covgame.runs.driver import Driver, OpenEpisode
    from covgame.runs.learn import explore, identify
    from covgame.runs.pac_run import Exploration, Identification
    from covgame.runs.resume import learnt_model, load, resume
    from covgame.runs.rewards import rewards
    from covgame.runs.run import Run
    from covgame.sources.environments import Environment, make
    from covgame.sources.maps import bins
    from covgame.sources.simulated import SimulatedSource
    from covgame.targets.requests import cells, groups, proportional, uniform
    from covgame.targets.target import Target
    from covgame.types import END, Policy, Shape

__version__ = "0.2.0"

__all__ = [
    "END",
    "LAST",
    "Adversary",
    "AdversaryState",
    "Audit",
    "BadInput",
    "Checked",
    "Counts",
    "CoverConfig",
    "Coverage",
    "CovgameError",
    "Driver",
    "Environment",
    "EnvironmentFailed",
    "Episode",
    "EpisodeSource",
    "Exploration",
    "Exported",
    "Floor",
    "Game",
    "Identification",
    "LearnConfig",
    "LearntModel",
    "MissingExtra",
    "OpenEpisode",
    "Peer",
    "Plan",
    "Planner",
    "Policy",
    "Round",
    "Run",
    "Shape",
    "SimulatedSource",
    "SolverFailed",
    "StorageFailed",
    "TabularMDP",
    "Target",
    "TooLarge",
    "UnknownModel",
    "UnreachableTarget",
    "audit",
    "bins",
    "cells",
    "certify",
    "cover",
    "default_game",
    "explore",
    "export",
    "floor",
    "functionals",
    "groups",
    "identify",
    "learnt_model",
    "load",
    "make",
    "paper_game",
    "plan",
    "proportional",
    "resume",
    "rewards",
    "rounds",
    "uniform",
]

_HOMES = {
    "covgame.config": "CoverConfig LearnConfig",
    "covgame.data.audit": "Audit audit",
    "covgame.data.export": "Exported export",
    "covgame.episodes": "LAST Episode",
    "covgame.errors": (
        "BadInput CovgameError EnvironmentFailed MissingExtra SolverFailed StorageFailed TooLarge "
        "UnknownModel UnreachableTarget"
    ),
    "covgame.game.adversary": "Adversary AdversaryState",
    "covgame.game.counts": "Counts",
    "covgame.game.game": "EpisodeSource Game Round rounds",
    "covgame.game.custom_players": "Peer",
    "covgame.game.planner": "Planner",
    "covgame.game.presets": "default_game paper_game",
    "covgame.mdp.model": "TabularMDP",
    "covgame.pac.learnt": "LearntModel",
    "covgame.flow.floor": "Floor",
    "covgame.planning": "Plan floor functionals plan",
    "covgame.runs.certify": "Checked certify",
    "covgame.runs.cover": "cover",
    "covgame.runs.coverage": "Coverage",
    "covgame.runs.driver": "Driver OpenEpisode",
    "covgame.runs.learn": "explore identify",
    "covgame.runs.pac_run": "Exploration Identification",
    "covgame.runs.resume": "learnt_model load resume",
    "covgame.runs.rewards": "rewards",
    "covgame.runs.run": "Run",
    "covgame.sources.environments": "Environment make",
    "covgame.sources.maps": "bins",
    "covgame.sources.simulated": "SimulatedSource",
    "covgame.targets.requests": "cells groups proportional uniform",
    "covgame.targets.target": "Target",
    "covgame.types": "END Policy Shape",
}
"""Where the public names live, as above: module -> its names. A test compares the two."""

_HOME_OF = {name: module for module, names in _HOMES.items() for name in names.split()}

if not _typing.TYPE_CHECKING:  # who checks types shall not take any name for one of ours

    def __getattr__(name: str) -> object:
        """A public name, imported now and from then on an ordinary one (PEP 562)."""
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(_importlib.import_module(_HOME_OF[name]), name)
        return found


def __dir__() -> list[str]:
    """The public names; what this file needs for itself is nobody's business."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
