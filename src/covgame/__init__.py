"""covgame: cover an environment you don't know in close to the fewest episodes possible."""

from covgame import search_path as search_path

# isort: split
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
from covgame.game.adversary import Adversary, AdversaryState
from covgame.game.counts import Counts
from covgame.game.game import EpisodeSource, Game, Round, rounds
from covgame.game.own import Peer
from covgame.game.planner import Planner
from covgame.game.presets import default_game, paper_game
from covgame.mdp.model import TabularMDP
from covgame.pac.learnt import LearntModel
from covgame.planning import Plan, functionals, plan
from covgame.runs.certify import Checked, certify
from covgame.runs.cover import cover
from covgame.runs.coverage import Coverage
from covgame.runs.driving import Driver, OpenEpisode
from covgame.runs.learn import explore, identify
from covgame.runs.learning_run import Exploration, Identification
from covgame.runs.opening import learnt_model, load, resume
from covgame.runs.rewards import rewards
from covgame.runs.run import Run
from covgame.sources.environments import Environment, make
from covgame.sources.maps import bins
from covgame.sources.simulated import SimulatedSource
from covgame.targets.groups import groups
from covgame.targets.requests import cells, proportional, uniform
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
    "Coverage",
    "CovgameError",
    "Driver",
    "Environment",
    "EnvironmentFailed",
    "Episode",
    "EpisodeSource",
    "Exploration",
    "Exported",
    "Game",
    "Identification",
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
