"""Runs of ``explore`` and ``identify``, whose algorithms hand out tasks until they can stop."""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from covgame.config import LearnConfig
from covgame.episodes import Block
from covgame.errors import BadInput
from covgame.flow.floor import QUICK_NUMBERS, Floor, FloorTask, learning_floor, numbers
from covgame.game.counts import Counts
from covgame.game.game import Game
from covgame.pac.assumptions import assumptions_of_claim
from covgame.pac.certified import Certified, CertifiedExploration, CertifiedIdentification
from covgame.pac.error_bounds import Range
from covgame.pac.forecast import Forecast
from covgame.pac.homogeneity import Parting
from covgame.pac.learnt import LearntModel
from covgame.pac.pce import ProportionalCoverage
from covgame.pac.principle import Conclusion, ImplicitElimination
from covgame.pac.tasks import Algorithm, CoverTask, PhaseReport, Task
from covgame.planning import has_unit_rewards, world_class
from covgame.rng import episode_seed
from covgame.runs.certificates import best_policy_claim, reward_free_claim, write_certificate
from covgame.runs.prior_data import PriorData
from covgame.runs.run import Arrays, Run, StopReason
from covgame.storage.folder import CERTIFICATE
from covgame.storage.state import counts_arrays, game_arrays, restore_counts, restore_game
from covgame.targets.target import Target
from covgame.types import Policy

Explorer = ProportionalCoverage | CertifiedExploration
Identifier = ImplicitElimination | CertifiedIdentification


class LearningAlgorithm(Algorithm, Protocol):
    """What a run plays."""

    @property
    def done(self) -> bool:
        """Whether it has seen enough."""
        ...

    @property
    def model(self) -> LearntModel:
        """What it has learnt."""
        ...


BY_STAGE = ("transitions", "paid")
"""What counts that pool stages and counts by stage do not share."""

TASKS = 3
"""The stream of random numbers that gives every task its own seed."""


@dataclass(eq=False, repr=False)
class LearningRun(Run):
    """A run of ``explore`` or ``identify``: what was asked, how far it got, what it found."""

    settings: LearnConfig
    algorithm: LearningAlgorithm
    forecast: Forecast
    blocks: list[Block] = field(default_factory=list)  # of the task, if they are needed

    FINISHED: ClassVar[StopReason] = "rule"
    TITLE: ClassVar[str]

    # ------------------------------------------------------------------------ what there is

    @property
    def phases(self) -> list[PhaseReport]:
        """What was played, task by task."""
        return self.algorithm.phases

    @property
    def counts(self) -> Counts:
        return self.algorithm.counts

    @property
    def model(self) -> LearntModel:
        """What was learnt; ``model.plan(reward)`` gives a policy."""
        learnt = replace(self.algorithm.model, allowed=self.allowed, names=self.names)
        return learnt.first(self.n_states)

    @property
    def guarantee(self) -> str:
        """What the answer is worth."""
        if not self.bounded:
            return "none yet"
        if self.settings.preset == "certified":
            said = f"certified, with probability {1 - self.settings.delta:g} (docs/certified.md)"
            return f"{said}, stages apart" if self.parting else said
        if self.settings.scale < 1:
            return f"none: the paper's thresholds were scaled by {self.settings.scale:g}"
        if self.settings.prune:
            return "none: pruning biases the estimates"
        said = f"the paper's, with probability {1 - self.settings.delta:g}"
        if self.settings.command == "explore" and self.by_counts:
            return f"{said} (visitations planned in rounds, see docs/paper.md)"
        return said

    @property
    def parting(self) -> Parting | None:
        """When and why stages were taken apart that were supposed to be alike."""
        return self.algorithm.parting if isinstance(self.algorithm, Certified) else None

    @property
    def assumptions(self) -> list[str]:
        """What the certificate rests on that data cannot show; ``certify`` lists the same."""
        learner = self.algorithm
        if not isinstance(learner, Certified):
            return []
        return assumptions_of_claim(
            learner.counts.shape,
            learner.structure,
            simulated=self.source.model is not None,
            pooled=learner.counts.pooled,
            stages=learner.stages,
            rewards=learner.range if isinstance(learner, CertifiedIdentification) else None,
            given=self.given,
            set_aside=self.failures.set_aside,
            recorded=not self.by_counts,
        )

    @property
    @abstractmethod
    def bounded(self) -> bool:
        """Whether anything is proved yet."""

    @abstractmethod
    def findings(self) -> dict[str, Any]:
        """What the run is about, for the JSON answer."""

    @abstractmethod
    def claim(self) -> dict[str, Any] | None:
        """What the data prove so far, as a certificate; the paper's algorithms have none."""

    @property
    def floor(self) -> float | None:
        """Episodes that any method needs on average that also proves such an answer.

        None where that is not known: the run has not ended, there is no transition table, or the
        search for a floor would take more than some seconds (``covgame.floor`` has no such limit).
        """
        return self._floor.episodes if self.done and self._floor else None

    @property
    def times_floor(self) -> float | None:
        """Episodes of this run over ``floor``; None if it started from data of others."""
        return self.n_episodes / self.floor if self.floor and not self.given else None

    @cached_property
    def _floor(self) -> Floor | None:
        model, asked = self.environment.model, self.settings
        proves_nothing = asked.prune or asked.scale < 1
        if model is None or proves_nothing or asked.delta >= 0.5:
            return None
        # Rewards of an environment that is played may depend on the next state, in the table they
        # do not, and data would tell more of the one than of the other.
        known_rewards = self.source.model is not None and has_unit_rewards(model)
        task: FloorTask = "explore" if asked.command == "explore" else "identify"
        if task == "identify" and not known_rewards:
            return None
        is_pooled = asked.preset == "certified" and not asked.stage_dependent
        family = world_class(
            model,
            task,
            pooled=is_pooled and model.transitions.stationary,
            new_outcomes=asked.most_successors is None and asked.return_range is None,
        )
        if numbers(family) > QUICK_NUMBERS:
            return None
        return learning_floor(family, task, float(asked.epsilon), asked.delta, quick=True)

    def start_from(self, given: list[PriorData]) -> None:
        """Count prior data before the first round."""
        self.given = given
        for one in given:
            assert isinstance(self.algorithm, Certified)  # noqa: S101 (start refuses others)
            if isinstance(self.algorithm, CertifiedIdentification):
                self._check_rewards(one, self.algorithm.range)
            self.algorithm.start_from(one.counts, cut_short=one.cut_short)

    @staticmethod
    def _check_rewards(given: PriorData, allowed: Range) -> None:
        """Bounds on the best policy rest on what steps may pay."""
        low, high = given.rewards
        if not allowed.low <= low <= high <= allowed.high:
            raise BadInput(
                f"{given.name} has rewards from {low:g} to {high:g}, outside "
                f"[{allowed.low:g}, {allowed.high:g}]; say --reward-range LO,HI"
            )
        if allowed.return_high is not None and given.highest_return > allowed.return_high + 1e-9:
            raise BadInput(
                f"{given.name} has an episode that paid {given.highest_return:g}, more than the "
                f"{allowed.return_high:g} of --return-range"
            )

    def to_dict(self) -> dict[str, Any]:
        return {
            "environment": self.environment.name,
            "states": self.n_states,
            "episodes": self.n_episodes,
            "epsilon": self.settings.epsilon,
            "delta": self.settings.delta,
            **self.findings(),
            "floor": self.floor,
            "times_floor": self.times_floor,
            "stopped_by": self.stopped,
            "guarantee": self.guarantee,
            "assumptions": self.assumptions,
            "pooled": self.counts.pooled,
            "parted": asdict(self.parting) if self.parting else None,
            "phases": [phase.to_dict() for phase in self.phases],
            "forecast": [[need.part, need.episodes] for need in self.forecast.needs],
            "play": "counts" if self.by_counts else "exact",
            "failure": self.failure,
            "failures": self.failures.to_list(self.names),
            "given": [one.to_dict() for one in self.given],
            "seed": self.settings.seed,
            "preset": self.settings.preset,
            "run": str(self.path) if self.path else None,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.environment.name!r}, {self.n_episodes:,} episodes)"

    # ------------------------------------------------------------------------ to be played

    @property
    def done(self) -> bool:
        return self.algorithm.done

    @property
    def by_counts(self) -> bool:
        if self.settings.play is not None:
            return self.settings.play == "counts"
        simulated = self.source.model is not None
        return simulated and self.settings.preset == "paper" and not self.settings.prune

    @property
    def task_seed(self) -> int:
        return episode_seed(self.stream, TASKS, self.n_tasks)

    @property
    def needs_episodes(self) -> bool:
        return self.algorithm.needs_episodes

    def keep(self, block: Block) -> None:
        if self.needs_episodes:
            self.blocks.append(block)
        algorithm = self.algorithm
        if isinstance(algorithm, Certified) and algorithm.apart is not None:
            algorithm.truncated |= block.is_cut_short(self.counts.shape.horizon)

    def next_task(self) -> Task | None:
        return self.algorithm.next_task()

    def tell(self, task: Task) -> bool:
        blocks, self.blocks = self.blocks, []
        return self.algorithm.tell(task, blocks)

    def conclude(self) -> None:
        if self.folder is None:
            return
        # A round that was broken off is not counted yet; a certificate of an earlier stop is
        # removed, so that a resumed run equals one that was never stopped.
        is_counted = self.counts.n_episodes > 0 and self.task is None
        claim = self.claim() if is_counted else None
        if claim is None:
            self.folder.remove_document(CERTIFICATE)
        else:
            write_certificate(self.folder, claim)

    # ----------------------------------------------------------------- to be saved and resumed

    def config(self) -> dict[str, Any]:
        return dict(self.settings)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """What was learnt, under the same names as in a run of ``cover``, and how to go on."""
        progress = {
            "n_parts": self.n_tasks,
            "n_before": self.n_before,
            "phases": [asdict(phase) for phase in self.phases],
            "state": self.algorithm.state(),
        }
        arrays = {**counts_arrays(self.counts), "progress": np.array(json.dumps(progress))}
        if self.allowed is not None:
            arrays["allowed"] = self.allowed
        algorithm = self.algorithm
        if isinstance(algorithm, Certified) and algorithm.apart is not None:
            own = counts_arrays(algorithm.apart)
            arrays |= {f"apart_{name}": own[name] for name in BY_STAGE if name in own}
        task = self.task
        if task is not None and not self.needs_episodes:
            playing = (
                game_arrays(task.game)
                if isinstance(task, CoverTask)
                else counts_arrays(task.counts)
            )
            arrays |= {f"part_{name}": value for name, value in playing.items()}
        return arrays

    def restore(self, arrays: Arrays) -> None:
        algorithm = self.algorithm
        if isinstance(algorithm, Certified) and algorithm.apart is not None:
            _restore_stages(algorithm, algorithm.apart, arrays)
        restore_counts(self.counts, arrays)
        try:
            progress = json.loads(str(arrays["progress"]))
            self.n_tasks, self.n_before = progress["n_parts"], progress["n_before"]
            algorithm.phases = [PhaseReport(**phase) for phase in progress["phases"]]
            algorithm.restore(progress["state"])
            for value in (self.n_tasks, self.n_before):  # JSON lets other types through
                if type(value) is not int:
                    raise TypeError(f"{value!r} is no number of episodes or parts")
            for phase in self.phases:
                phase.to_dict()
                if not (phase.bound is None or isinstance(phase.bound, int | float)):
                    raise TypeError(f"{phase.bound!r} is no bound")
        except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
            raise BadInput(f"the saved state does not fit this run ({error})") from error
        saved = {name[5:]: value for name, value in arrays.items() if name.startswith("part_")}
        if saved:
            self._restore_task(saved)
        if self.n_before < 0 or (self.task is not None and self.task.played < 0):
            raise BadInput("the saved state does not fit this run (episodes below 0)")
        if self.task is not None and self.task.over:
            self.finish_task(self.task)  # it was saved just before the algorithm was told

    def _restore_task(self, saved: Arrays) -> None:
        """The task that was being played; the target of its game may have grown."""
        self.task = task = self.next_task()
        if isinstance(task, CoverTask):
            if "target_rows" not in saved or "target_counts" not in saved:
                raise BadInput("the saved state lacks the target of the part being played")
            game, shape = task.game, task.counts.shape
            target = Target.of_rows(shape, saved["target_rows"], saved["target_counts"])
            counts = Counts(shape, pooled=False)
            task.game = Game(target, game.planner, game.adversary, counts, game.allowed)
            restore_game(task.game, saved)
        elif task is not None:
            restore_counts(task.counts, saved)


def _restore_stages(algorithm: Certified, apart: Counts, arrays: Arrays) -> None:
    """What was counted stage by stage; it is saved with stages pooled, apart, or both."""
    if not arrays.get("pooled", True):
        algorithm.take_apart()
    elif "pooled" in arrays:
        if "apart_transitions" not in arrays:
            raise BadInput("the saved state does not say what every stage has shown")
        own = {name: arrays[f"apart_{name}"] for name in BY_STAGE if f"apart_{name}" in arrays}
        restore_counts(apart, {**arrays, **own, "pooled": np.array(False)})


class Exploration(LearningRun):
    """A run of ``explore``."""

    algorithm: Explorer

    TITLE = "a model that is good enough for any reward"

    @property
    def certified_error(self) -> float | None:
        """What an optimal policy on the model loses at most, whatever the reward."""
        error = self.algorithm.certified_error
        return None if error is None else float(min(error, self.counts.shape.horizon))

    @property
    def bounded(self) -> bool:
        return self.certified_error is not None

    def findings(self) -> dict[str, Any]:
        return {"certified_error": self.certified_error}

    def claim(self) -> dict[str, Any] | None:
        if not isinstance(self.algorithm, CertifiedExploration):
            return None
        return reward_free_claim(self.algorithm)


class Identification(LearningRun):
    """A run of ``identify``."""

    algorithm: Identifier

    TITLE = "a policy close to the best"

    _known: tuple[int, Conclusion | None] | None = None  # and after how many tasks

    @property
    def conclusion(self) -> Conclusion | None:
        """What the data say of the best policy, after the last finished part."""
        if self._known is None or self._known[0] != self.n_tasks:
            self._known = (self.n_tasks, self.algorithm.conclusion())
        return self._known[1]

    @property
    def bounded(self) -> bool:
        return self.conclusion is not None

    @property
    def policy(self) -> Policy:
        """The policy to recommend, for the states that exist."""
        found = self.conclusion.policy if self.conclusion else self.algorithm.policy
        return found.first(self.n_states)

    @property
    def certified_gap(self) -> float | None:
        """What the policy loses at most against the best one."""
        return self.conclusion.gap if self.conclusion else None

    def findings(self) -> dict[str, Any]:
        found = self.conclusion
        return {
            "certified_gap": self.certified_gap,
            "value_lower": found.lower if found else None,
            "value_upper": found.upper if found else None,
            "policy": self.policy.to_list(),
            **self.names.named_policy(self.policy),
        }

    def claim(self) -> dict[str, Any] | None:
        if not isinstance(self.algorithm, CertifiedIdentification):
            return None
        return best_policy_claim(self.algorithm)
