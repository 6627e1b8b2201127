"""The configuration of a run, checked field by field when the run is opened again."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from covgame.config import CoverConfig, LearnConfig

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


class _Stored(BaseModel):
    """What the configuration of any run says of its environment and data."""

    model_config = ConfigDict(extra="ignore", strict=True)
    __init__ = BaseModel.__init__  # not that of RunConfig, whose errors speak of options

    environment: str
    horizon: Positive
    model: Literal["model"] | None
    by_name: bool = True
    states: str | None = None
    actions: str | None = None
    given: list[GivenFile] = []
    observation_space: dict[str, Any] | None = None
    action_space: dict[str, Any] | None = None
    action_values: list[Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _has_all_options(cls, content: Any) -> Any:
        """Require every option: a default in the place of a lost one would be another run."""
        options = {**CoverConfig.model_fields, **LearnConfig.model_fields}
        for name in cls.model_fields:
            if name in options and isinstance(content, dict) and name not in content:
                raise ValueError(f"{name} is missing")
        return content


class StoredCover(_Stored, CoverConfig):
    """A run of ``cover``."""

    model_config = ConfigDict(extra="ignore")

    command: Literal["cover"]
    request: str
    growing: GrowingRequest | None
    planner: str | None = None
    adversary: str | None = None
    unreachable: list[
        Annotated[tuple[Index | None, Index | str, Index | None, Number], Field(strict=False)]
    ]


class StoredLearn(_Stored, LearnConfig):
    """A run of ``explore`` or ``identify``."""

    model_config = ConfigDict(extra="ignore")


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


class PenaltyFile(BaseModel):
    """How a certificate uses its joint budget."""

    price: Annotated[Number, Field(gt=0)]
    weight: Number
    centre: Index


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
    penalty: PenaltyFile | None = None
    policy: list[list[Index]] | None = None
    validation: ValidationFile | None = None
    rewards: RewardsFile | None = None
