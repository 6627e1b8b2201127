"""The configuration of a run, checked field by field when the run is opened again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Index = Annotated[int, Field(strict=True, ge=0)]
Positive = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]


class GrowingRequest(BaseModel):
    """A target over what is seen on the way."""

    model_config = ConfigDict(extra="forbid")

    count: Annotated[Number, Field(ge=0)]
    per: Literal["cell", "pair", "state", "transition", "group", "label"]
    tries: Index = 0  # of every action in every state, in search of groups


class GivenFile(BaseModel):
    """Data of others that a run has started from."""

    model_config = ConfigDict(extra="forbid")

    data: Annotated[str, Field(strict=True)]
    episodes: Index
    steps: Index
    left_out: Index = 0
    digest: Annotated[str, Field(strict=True)] = ""
    workers: Positive = 1
    set_aside: Index = 0
    stream: Annotated[str, Field(strict=True)] | None = None


class SizeFile(BaseModel):
    """How large an environment is that is played step by step."""

    model_config = ConfigDict(extra="forbid")

    states: Annotated[int, Field(strict=True, ge=1, le=10**9)] | None  # None: they are discovered
    actions: Annotated[int, Field(strict=True, ge=1, le=10_000)]
    plays: Annotated[bool, Field(strict=True)]  # or somebody else owns the loop
    possible: Annotated[int, Field(strict=True, ge=1)] | None = None  # states at most, if known


class CoverConfig(BaseModel):
    """A run of ``cover``."""

    command: Literal["cover"]
    environment: Annotated[str, Field(strict=True)]
    horizon: Annotated[int, Field(strict=True, ge=1)]
    model: Literal["model"] | None
    by_name: Annotated[bool, Field(strict=True)] = True
    states: Annotated[str, Field(strict=True)] | None = None
    actions: Annotated[str, Field(strict=True)] | None = None
    request: str
    growing: GrowingRequest | None
    seed: Index
    preset: Literal["default", "paper"]
    delta: Number
    stage_dependent: Annotated[bool, Field(strict=True)]
    max_episodes: Index | None
    play: Literal["exact", "lazy", "counts"] = "exact"
    min_reach: Annotated[Number, Field(ge=0, le=1)] = 0.0
    planner: Annotated[str, Field(strict=True)] | None = None
    adversary: Annotated[str, Field(strict=True)] | None = None
    given: list[GivenFile] = []
    unreachable: list[tuple[Index | None, Index | str, Index | None, Number]]
    keep_observations: Annotated[bool, Field(strict=True)] = False
    on_failure: Literal["stop", "record", "avoid"] = "stop"
    step_timeout: Annotated[Number, Field(ge=1e-3)] | None = None
    isolate: Annotated[bool, Field(strict=True)] = False
    exact_bound: Annotated[bool, Field(strict=True)] = False
    workers: Positive = 1
    engine: Literal["local", "ray"] = "local"
    address: Annotated[str, Field(strict=True)] | None = None
    observation_space: dict[str, Any] | None = None
    action_space: dict[str, Any] | None = None
    action_values: list[Any] | None = None


class LearnConfig(BaseModel):
    """A run of ``explore`` or ``identify``."""

    command: Literal["explore", "identify"]
    environment: Annotated[str, Field(strict=True)]
    horizon: Annotated[int, Field(strict=True, ge=1)]
    model: Literal["model"] | None
    by_name: Annotated[bool, Field(strict=True)] = True
    states: Annotated[str, Field(strict=True)] | None = None
    actions: Annotated[str, Field(strict=True)] | None = None
    epsilon: Number
    delta: Number
    seed: Index
    preset: Literal["certified", "paper"]
    play: Literal["exact", "counts"] | None
    max_episodes: Index | None
    scale: Number
    suprema: Literal["exact", "relaxed"] | None
    prune: Annotated[bool, Field(strict=True)]
    reward_range: tuple[Number, Number]
    return_range: tuple[Number, Number] | None
    most_successors: Annotated[int, Field(strict=True, ge=1)] | None
    stage_dependent: Annotated[bool, Field(strict=True)]
    most_states: Annotated[int, Field(strict=True, ge=1)] | None = None
    keep_observations: Annotated[bool, Field(strict=True)] = False
    on_failure: Literal["stop", "record", "avoid"] = "stop"
    step_timeout: Annotated[Number, Field(ge=1e-3)] | None = None
    isolate: Annotated[bool, Field(strict=True)] = False
    observation_space: dict[str, Any] | None = None
    action_space: dict[str, Any] | None = None
    action_values: list[Any] | None = None
    given: list[GivenFile] = []


class StructureFile(BaseModel):
    """What a certificate takes as known of a world."""

    model_config = ConfigDict(extra="forbid")

    can_end: Annotated[bool, Field(strict=True)]
    most_successors: Annotated[int, Field(strict=True, ge=1)] | None
    known_start: list[Annotated[Number, Field(ge=0, le=1)]] | None
    allowed: list[list[bool]] | None
    same_rewards: Annotated[bool, Field(strict=True)] = True


class RewardsFile(BaseModel):
    """The ranges that a certificate relies on."""

    model_config = ConfigDict(extra="forbid")

    low: Number
    high: Number
    return_high: Number | None


class ValidationFile(BaseModel):
    """Episodes that validate the policy of a certificate."""

    model_config = ConfigDict(extra="forbid")

    attempt: Positive
    first_episode: Index
    episodes: Positive


class CertificateFile(BaseModel):
    """A certificate of a run of ``explore`` or ``identify``."""

    format: Literal["covgame-certificate/1"]
    claim: Literal["reward-free", "best-policy"]
    epsilon: Number
    delta: Annotated[Number, Field(gt=0, lt=1)]
    shape: tuple[Positive, Positive, Positive]
    pooled: Annotated[bool, Field(strict=True)]
    stages: Literal["known", "tested", "parted"] = "known"
    structure: StructureFile
    episodes: Index
    data: Annotated[str, Field(strict=True)]
    numbers: dict[str, Number]
    policy: list[list[Index]] | None = None
    validation: ValidationFile | None = None
    rewards: RewardsFile | None = None
