"""covgame: cover an environment you don't know in close to the fewest episodes possible."""

from covgame.errors import (
    BadInput,
    CovgameError,
    EnvironmentFailed,
    MissingExtra,
    SolverFailed,
    TooLarge,
    UnknownModel,
    UnreachableTarget,
)
from covgame.mdp.model import TabularMDP
from covgame.pac.learnt import LearntModel
from covgame.planning import Plan, functionals, plan
from covgame.runs.certify import Checked, certify
from covgame.runs.cover import Coverage, cover
from covgame.runs.learn import Exploration, Identification, explore, identify
from covgame.runs.opening import learnt_model, load, resume
from covgame.runs.run import Run
from covgame.sources.environments import Environment, make
from covgame.targets.requests import cells, proportional, uniform
from covgame.targets.target import Target
from covgame.types import Policy, Shape

__version__ = "0.1.0"

__all__ = [
    "BadInput",
    "Checked",
    "Coverage",
    "CovgameError",
    "Environment",
    "EnvironmentFailed",
    "Exploration",
    "Identification",
    "LearntModel",
    "MissingExtra",
    "Plan",
    "Policy",
    "Run",
    "Shape",
    "SolverFailed",
    "TabularMDP",
    "Target",
    "TooLarge",
    "UnknownModel",
    "UnreachableTarget",
    "cells",
    "certify",
    "cover",
    "explore",
    "functionals",
    "identify",
    "learnt_model",
    "load",
    "make",
    "plan",
    "proportional",
    "resume",
    "uniform",
]
