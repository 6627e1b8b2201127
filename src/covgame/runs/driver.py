"""A simulator that owns its loop, a web service, a robot: who asks what to do, and tells the rest.

Nobody here plays. ``Driver`` hands out episodes that are called with observations and say what to
do next; it takes the steps one by one or as a whole, checks all of them before any is counted, and
records, grows its target, saves and resumes like any run of ``cover``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from covgame.config import CoverConfig
from covgame.engine.engines import SteppedEngine
from covgame.episodes import Episode, as_block
from covgame.errors import BadInput, EnvironmentFailed
from covgame.game.adversary import anticipated_weights
from covgame.mdp import dp
from covgame.names import label_of
from covgame.runs.cover import start
from covgame.runs.coverage import Coverage
from covgame.runs.loop import save_answer
from covgame.runs.resume import Passed, open_for_resume
from covgame.runs.run import create_folder, recorder_for
from covgame.runs.validation import check_has_folder
from covgame.sources.environments import Environment
from covgame.sources.maps import AnyMap, MappedStates, state_map
from covgame.sources.objects import HANDED_OVER, StateActionSpec
from covgame.sources.states import DiscoveredStates, States
from covgame.sources.steppers import AbsentStepper, plain_actions
from covgame.storage.folder import DATABASE
from covgame.targets.requests import Grouped, Request
from covgame.targets.target import Target
from covgame.types import END, Policy

NAME = f"a driven simulator {HANDED_OVER}"


class OpenEpisode:
    """An episode under way: called with an observation, it says what to do.

    Example: ``action = episode(observation)``, then ``action = episode(next_observation, reward)``
    and so on; ``episode.end(reward)`` when it is over.
    """

    def __init__(self, driver: Driver, policy: Policy) -> None:
        self.driver, self.policy = driver, policy
        self.steps: list[tuple[Any, int, float]] = []
        self.states: list[int] = []  # numbers of the observations
        self.kept: list[Any] = []  # of observations, where they are kept
        self.last: Any = None  # the observation that it ended in
        self.terminated = False
        self.over = False

    @property
    def stage(self) -> int:
        """How many actions it has given so far."""
        return len(self.steps)

    def __call__(self, observation: Any, reward: float = 0.0, *, allowed: Any = None) -> Any:
        """What to do in this observation; ``reward`` is what the action before has paid."""
        if self.over:
            raise BadInput("this episode is over; ask for the next one")
        if self.stage == self.driver.horizon:
            raise BadInput(
                f"an episode has at most {self.driver.horizon} actions; end it with end(reward, "
                "observation)"
            )
        self._paid(reward)
        action = self.driver.choose(self, observation, allowed)
        self.kept += self.driver.kept([observation])
        self.steps.append((observation, action, 0.0))
        return self.driver.actions.values[action]

    def end(
        self, reward: float = 0.0, observation: Any = None, *, terminated: bool | None = None
    ) -> None:
        """It is over; ``observation`` is what was shown last.

        Who shows nothing says that the episode terminated, and who shows something that time was
        up, unless ``terminated`` says which it was.
        """
        if not self.steps:
            raise BadInput("an episode that took no action cannot end")
        self._paid(reward)
        self.kept += self.driver.kept([observation], last=True)
        self.last, self.over = observation, True
        self.terminated = observation is None if terminated is None else terminated

    def _paid(self, reward: float) -> None:
        if self.steps:
            state, action, _ = self.steps[-1]
            self.steps[-1] = (state, action, reward)


class Driver:
    """Covers a simulator that owns its own loop.

    Args:
        actions: How many actions there are, or what they are called.
        horizon: Steps of an episode at most.
        target: ``covgame.uniform(20, "pair")`` and the like; states are discovered.
        states: What counts as a state, where observations are not states themselves (a function,
            ``covgame.bins`` with ranges, or a text; see ``covgame.make``).
        seed: Same seed, same questions: same answers.
        out: A folder for the run. If it holds one already, that one goes on.
        keep_observations: Record observations as they are told, as text, beside the numbers of
            states. Takes a folder, ``out``.

    Example:
        >>> import covgame as cg
        >>> driver = cg.Driver(actions=["insert coin", "push"], horizon=6, target="uniform:5/pair")
        >>> while not driver.covered:
        ...     episode, state = driver.ask(), "LOCKED"
        ...     for _ in range(6):
        ...         action = episode(state)
        ...         state = "OPEN" if action == "insert coin" else "LOCKED"
        ...     episode.end(observation=state)
        ...     driver.tell(episode)
        >>> sorted(driver.run.names.states)
        ['LOCKED', 'OPEN']
    """

    def __init__(
        self,
        actions: int | Sequence[Any],
        horizon: int,
        target: Request | Target | str | Path,
        *,
        states: AnyMap | None = None,
        seed: int = 0,
        out: str | Path | None = None,
        keep_observations: bool = False,
    ) -> None:
        self.actions, self.horizon = plain_actions(actions), horizon
        environment = self._environment(states)
        if out is not None and (Path(out) / DATABASE).exists():
            groups = target if isinstance(target, Grouped) else None
            run = open_for_resume(out, {}, Passed(env=environment, target=groups))
            if not isinstance(run, Coverage):
                raise BadInput(f"{out} is no run of cover")
            run.environment.require_playable()
            self.run = run
        else:
            settings = CoverConfig(seed=seed, keep_observations=keep_observations)
            check_has_folder(settings, out)
            self.run = start(environment, target, settings)
            if out is not None:
                create_folder(self.run, out)
        self.source = self.run.source
        self.engine = SteppedEngine(self.run.game, self.source, self.run.growth)
        self.recorder = recorder_for(self.run)
        self.under_way: list[OpenEpisode] = []
        self.followed: OpenEpisode | None = None  # planned step by step

    def _environment(self, states: AnyMap | None) -> Environment:
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, int) or self.horizon < 1:
            raise BadInput(f"the horizon must be a whole number from 1 on, not {self.horizon!r}")

        def opener() -> tuple[AbsentStepper, States]:
            numbered = DiscoveredStates()
            if states is not None:
                numbered = MappedStates(state_map(states), None)
            why = "this run is driven from outside; go on with covgame.Driver"
            return AbsentStepper(self.actions, why, is_driven=True), numbered

        opener()  # a map that makes no sense is refused now
        return Environment(NAME, self.horizon, None, False, opener, StateActionSpec(states))

    @property
    def covered(self) -> bool:
        """Whether everything that was asked for (and seen) has its visits."""
        return self.run.covered

    def ask(self) -> OpenEpisode:
        """An episode to play; several may be under way.

        A single episode is planned again whenever a step brings news. An episode that is asked for
        while others are under way gets one plan, for what the others are not expected to collect.
        """
        if self.under_way:
            self._stop_following()
            weights = self.run.game.state.weights
            if len(self.run.game.required):
                weights = self._weights_after(self.under_way)
            self.under_way.append(OpenEpisode(self, self.engine.plan_all(weights)))
        else:
            self.followed = OpenEpisode(self, self.engine.next_policy())
            self.under_way.append(self.followed)
        return self.under_way[-1]

    def _stop_following(self) -> None:
        """Play the rest of the episode that is planned step by step by one plan."""
        if self.followed is not None:
            self.engine.abandon()
            self.followed.policy = self.engine.plan_all(self.run.game.state.weights)
            self.followed = None

    def _weights_after(self, episodes: Iterable[OpenEpisode]) -> Any:
        """The weights if these episodes collect what they can be expected to."""
        game = self.run.game
        kernel, collected = game.counts.kernel(), game.collected.copy()
        for episode in episodes:
            if episode.policy.table.shape[1] == game.target.shape.states:
                collected += game.target.collected(dp.occupancy(kernel, episode.policy))
        weights = anticipated_weights(game.adversary, game.target, game.state, collected)
        return weights if weights.any() else game.state.weights

    def choose(self, episode: OpenEpisode, observation: Any, allowed: Any = None) -> int:
        """The number of the action to take next in an episode."""
        state = self._number(observation)
        self.source.masks.clear()
        if allowed is not None:
            self.source.masks.show(state, allowed, self.source.shape.states)
        episode.states.append(state)
        if episode is self.followed:
            self._follow(episode)
        policy = episode.policy
        known = state < policy.table.shape[1]
        return self.source.masks.permitted(
            int(policy.table[policy.row(episode.stage), state]) if known else None, state
        )

    def _follow(self, episode: OpenEpisode) -> None:
        """Plan the rest of an episode again, if its last step gave a reason to."""
        states, shape = episode.states, self.run.game.target.shape
        if states[-1] >= shape.states:  # other episodes have taken up the room for new states
            self._stop_following()
        elif episode.stage == 0:
            episode.policy = episode.policy.begin(states[-1])
        else:
            stage, action = episode.stage - 1, episode.steps[-1][1]
            cell = stage * shape.pairs + states[-2] * shape.actions + action
            episode.policy = self.engine.revise(cell, states[-1]) or episode.policy

    def tell(
        self, episode: OpenEpisode | Sequence[tuple[Any, Any, float]], last: Any = None
    ) -> None:
        """Count an episode: one that was asked for, or its steps.

        Args:
            episode: What ``ask`` returned, ended; or the steps of an episode, each (observation,
                action, reward) with the action as ``actions`` has it.
            last: With steps: the observation after the last one, None if the episode terminated.

        Raises:
            BadInput: A step that cannot be; then nothing is counted.
        """
        if isinstance(episode, OpenEpisode):
            if episode not in self.under_way:
                raise BadInput("this episode was not asked for here, or is told already")
            if not episode.over:
                raise BadInput("this episode is not over; say episode.end(reward, observation)")
            told = self._episode(episode.steps, episode.last, episode.terminated, episode.kept)
            self.under_way.remove(episode)
        else:
            steps = [(seen, self._action(done), paid) for seen, done, paid in _triples(episode)]
            kept = [*self.kept([seen for seen, _, _ in steps]), *self.kept([last], last=True)]
            told = self._episode(steps, last, terminated=last is None, kept=kept)
        first = self.run.n_episodes
        if episode is not self.followed:
            self._stop_following()
        if self.recorder:
            self.recorder.note(first, told)
        if episode is self.followed:
            self.engine.tell(told)
            self.engine.is_over()  # the target may grow
        else:
            self.engine.replay(told)
        self.followed = None
        block = as_block(first, [told])
        self.run.keep(block)
        if self.recorder:
            self.recorder.add(block)

    def abandon(self, episode: OpenEpisode) -> None:
        """Forget an episode that was broken off; nothing of it is counted."""
        if episode in self.under_way:
            if episode is self.followed:
                self._stop_following()
            self.under_way.remove(episode)

    def save(self) -> Coverage:
        """Write down what there is, if there is a folder; the run, for reports."""
        self.run.stopped = self.run.stop_reason
        if self.recorder:
            self.recorder.checkpoint()
            save_answer(self.run)
        return self.run

    def close(self) -> Coverage:
        """Save, and write no more."""
        try:
            run = self.save()
            if self.recorder:
                self.recorder.close(whole=True)
        finally:
            if self.recorder:
                self.recorder.release()
            self.recorder = None
        return run

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def kept(self, observations: Iterable[Any], *, last: bool = False) -> list[Any]:
        """What is kept of observations, nothing if nobody wants them; None ends an episode."""
        keep = self.source.keep
        if keep is None:
            return []
        try:
            return [None if last and one is None else keep(one) for one in observations]
        except EnvironmentFailed as error:
            raise BadInput(str(error)) from None

    def _number(self, observation: Any) -> int:
        try:
            return self.source.states.index(observation)
        except EnvironmentFailed as error:
            raise BadInput(str(error)) from None

    def _action(self, done: Any) -> int:
        for number, value in enumerate(self.actions.values):
            if type(done) is type(value) and bool(np.all(done == value)):
                return number
        numbered = isinstance(done, np.integer) and isinstance(self.actions.values, range)
        if numbered and int(done) in self.actions.values:
            return int(done)
        known = self.actions.labels or (f"0 to {len(self.actions) - 1}",)
        raise BadInput(f"there is no action {label_of(done)!r}; there are: {', '.join(known)}")

    def _episode(
        self,
        steps: Sequence[tuple[Any, int, float]],
        last: Any,
        terminated: bool,
        kept: list[Any],
    ) -> Episode:
        """The steps as they are counted, all of them checked."""
        if not 1 <= len(steps) <= self.horizon:
            raise BadInput(
                f"an episode has 1 to {self.horizon} steps, not {len(steps)}; nothing was counted"
            )
        for _, _, reward in steps:
            if not isinstance(reward, int | float | np.number) or not np.isfinite(reward):
                raise BadInput(f"a reward is a finite number, not {reward!r}; nothing was counted")
        numbers = [self._number(observation) for observation, _, _ in steps]
        if last is None and not terminated:
            raise BadInput("an episode that did not terminate ends in an observation; say which")
        following = [*numbers[1:], END if last is None else self._number(last)]
        return Episode.of_steps(
            [
                (state, action, float(reward), successor)
                for state, (_, action, reward), successor in zip(
                    numbers, steps, following, strict=True
                )
            ],
            terminated=terminated,
            cut_short=not terminated and len(steps) < self.horizon,
            observations=kept or None,
        )


def _triples(steps: Any) -> list[tuple[Any, Any, float]]:
    try:
        return [(observation, action, reward) for observation, action, reward in steps]
    except (TypeError, ValueError):
        raise BadInput(
            "an episode is a list of steps (observation, action, reward); nothing was counted"
        ) from None
