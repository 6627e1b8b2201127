"""What every source of episodes offers, whatever kind of environment is behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from covgame.episodes import Episode
from covgame.failures import Failure, Failures
from covgame.game.game import Revise
from covgame.names import Names
from covgame.types import BoolArray, IntArray, Policy, Shape

if TYPE_CHECKING:
    from covgame.mdp.model import TabularMDP
    from covgame.sources.masks import Masks
    from covgame.sources.messages import Team
    from covgame.sources.observations import Keeper, Space
    from covgame.sources.states import States
    from covgame.sources.steppers import Actions


class EpisodeObserver:
    """Receives episodes and failures as they happen. This one ignores them; runs record them."""

    def number_of(self, episode: int) -> int:
        """The number in the run of an episode of the current task."""
        return episode

    def visits_of(self, state: int, action: int) -> int:
        """How often an action was taken in a state, in the episodes that are over."""
        del state, action
        return 0

    def on_episode(self, number: int, episode: Episode) -> None:
        """An episode is over; ``number`` is its number in the run."""

    def on_failure(self, failure: Failure) -> None:
        """The environment failed; ``Source.failures`` has the failure afterwards."""


UNOBSERVED = EpisodeObserver()


class Source(ABC):
    """Plays episodes of an environment, and says what the environment can do.

    Runs and players ask for capabilities, never for the class:

    - ``model``: the transition table that is simulated, None if the environment is stepped;
    - ``is_replayable``: lost episodes can be played again, exactly and fast;
    - ``is_driven``: episodes are told by ``covgame.Driver`` instead of played;
    - ``discovers_states``: states are numbered as they appear;
    - ``keeps_observations``: episodes carry their observations;
    - ``open_team``: starts workers that play several episodes at once, where there are any.

    An episode depends on (seed, episode, policy, what ``revise`` returns) and on nothing that
    another episode leaves behind, carries its own final observation, and reaches the observer with
    its number. A vectorised source may therefore have several under way. ``masks`` says which of
    ``actions`` a state allows, anew at each visit. Players know states by number only and records
    name them by key, so a source may number them by a finer state map in another run.
    """

    seed: int
    model: TabularMDP | None
    states: States  # how observations are numbered
    masks: Masks  # which actions states allow
    failures: Failures  # episodes in which the environment failed
    is_replayable: bool = False
    is_driven: bool = False
    keep: Keeper | None = None  # makes the copy of an observation that is kept
    observation_space: Space | None = None  # as JSON; None if observations are text or not kept
    most_states: int | None = None  # a bound on discovered states that the user has declared

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """Stages, states (with room for those still to be discovered) and actions."""

    @property
    @abstractmethod
    def stationary(self) -> bool:
        """Whether transitions are the same at every stage."""

    @property
    @abstractmethod
    def actions(self) -> Actions:
        """The actions by number."""

    @property
    @abstractmethod
    def names(self) -> Names:
        """Names of states and actions."""

    @abstractmethod
    def seeded(self, seed: int) -> Source:
        """The same environment with other random numbers."""

    @abstractmethod
    def play(
        self,
        policy: Policy,
        episode: int,
        revise: Revise | None = None,
        observer: EpisodeObserver = UNOBSERVED,
    ) -> Episode:
        """Play an episode and tell the observer when it is over.

        Args:
            policy: What to do.
            episode: The number of the episode in its task, which its random numbers follow from.
            revise: From a step, (cell, next state), to the policy for the rest of the episode.
            observer: Receives the episode, or the failure.

        Raises:
            EpisodeFailed: The environment failed; the next attempt has another seed.
            EnvironmentFailed: It failed too often.
        """

    @property
    def discovers_states(self) -> bool:
        """Whether states are numbered as they appear."""
        return self.states.discovered

    @property
    def state_keys(self) -> list[str] | None:
        """The observations by number, if states are discovered."""
        return self.states.keys

    @property
    def state_labels(self) -> list[str] | None:
        """Their labels."""
        return self.states.labels

    @property
    def keeps_observations(self) -> bool:
        """Whether episodes have their observations."""
        return self.keep is not None

    @property
    def allowed(self) -> BoolArray | None:
        """(S, A), what was allowed at some visit; None if nothing is ever forbidden."""
        return None if self.masks.ever is None else self.masks.room_for(self.shape.states)

    def spaces(self) -> dict[str, Any]:
        """What a record of observations needs beside it, as JSON."""
        return {}

    def shows_masks(self) -> bool:
        """Whether an episode shows which actions states allow; plays the beginning of one."""
        return False

    def restore(self, allowed: BoolArray | None, visited: IntArray) -> None:
        """Continue a saved run: its (S, A) allowed actions, and the states that it had visited."""
        self.masks.recall(allowed, visited)
        for failure in self.failures:
            if failure.then == "avoided":
                self.avoid(failure)

    def avoid(self, failure: Failure) -> bool:
        """Exclude the action that failed; False if its state has no other."""
        if failure.state is None or failure.action is None:
            return False
        return self.masks.avoid(failure.state, failure.action, self.shape.states)

    def record_failure(self, failure: Failure, observer: EpisodeObserver) -> None:
        """Tell the observer of a failure, and remember it."""
        observer.on_failure(failure)
        self.failures.add(failure)

    def end_by_failure(self, failure: Failure, observer: EpisodeObserver) -> None:
        """Record a failure as the end of an episode that counts; perhaps exclude its action."""
        self.record_failure(replace(failure, then="recorded"), observer)

    def open_team(self) -> Team | None:
        """Start the workers that play several episodes at once; None if there are none."""
        return None

    def close(self) -> None:
        """Release processes; playing again starts them again."""
        return
