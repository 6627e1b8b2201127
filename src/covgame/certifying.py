"""``certify``: check what a run claims from its data alone.

A certificate says what is claimed, with which numbers, and of which data (a hash of the counts). To
check it, the episodes are counted anew (or the counts taken, where a run was played by them), and
the claim is computed again from that. Nothing that the run remembers is believed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.errors import BadInput
from covgame.game.counts import Counts
from covgame.jsonfile import check_content, read_json
from covgame.pac.certificates import (
    BestPolicyGap,
    Range,
    RewardFreeError,
    Validation,
    best_policy,
    reward_free,
)
from covgame.pac.mixtures import Structure
from covgame.store.folder import CERTIFICATE, MANIFEST, RunFolder, write_whole
from covgame.store.state import counts_from
from covgame.targets.target import Target
from covgame.types import Policy, Shape

if TYPE_CHECKING:
    from covgame.store.manifest import CertificateFile, ValidationFile

FORMAT = "covgame-certificate/1"
TOLERANCE = 1e-9
"""Relative difference that another machine's arithmetic may make."""


@dataclass(frozen=True)
class Checked:
    """A claim that holds, as it was computed anew."""

    claim: str
    episodes: int
    numbers: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return {"valid": True, "claim": self.claim, "episodes": self.episodes, **self.numbers}


def data_hash(counts: Counts) -> str:
    """What was seen, in a form that does not depend on files or order."""
    listed = np.column_stack(counts.table.listed(0, len(counts.table)))
    listed = listed[np.lexsort((listed[:, 1], listed[:, 0]))]
    digest = hashlib.sha256()
    for array in (counts.visits, counts.starts, listed):
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    digest.update(np.round(counts.reward_sums, 6).astype("<f8").tobytes())
    return digest.hexdigest()


def write_certificate(folder: RunFolder, content: dict[str, Any]) -> None:
    """Put a certificate into the folder of a run."""
    text = json.dumps({"format": FORMAT, **content}, indent=1, allow_nan=False) + "\n"
    write_whole(folder.path / CERTIFICATE, text.encode())


def describe_structure(structure: Structure) -> dict[str, Any]:
    """What was taken as known, as JSON."""
    start, allowed = structure.known_start, structure.allowed
    return {
        "can_end": structure.can_end,
        "most_successors": structure.most_successors,
        "known_start": None if start is None else start.tolist(),
        "allowed": None if allowed is None else allowed.tolist(),
    }


def reward_free_claim(certificate: RewardFreeError, epsilon: float) -> dict[str, Any]:
    """The content of a reward-free certificate."""
    error, theta = certificate.best
    return {
        "claim": "reward-free",
        "says": "a policy that is optimal on the learnt model loses at most error, any reward",
        "epsilon": epsilon,
        "numbers": {"error": min(error, certificate.error), "theta": theta},
        **_about(certificate.counts, certificate.sets.structure, certificate.sets.delta),
    }


def best_policy_claim(certificate: BestPolicyGap, epsilon: float, delta: float) -> dict[str, Any]:
    """The content of a best-policy certificate."""
    lower, policy = certificate.candidate
    earned = certificate.range
    return {
        "claim": "best-policy",
        "says": "the policy's value is at least lower, and no policy's is above upper",
        "epsilon": epsilon,
        "numbers": {"gap": certificate.gap, "lower": lower, "upper": certificate.upper},
        "policy": policy.to_list(),
        "validation": _describe_validation(certificate, policy),
        "rewards": {"low": earned.low, "high": earned.high, "return_high": earned.return_high},
        **_about(certificate.counts, certificate.sets.structure, delta),
    }


def _describe_validation(certificate: BestPolicyGap, policy: Policy) -> dict[str, int] | None:
    """Which episodes were played to validate the policy, if the claim rests on them."""
    found = certificate.validation
    if found is None or found.policy is not policy:
        return None
    return {
        "attempt": found.attempt,
        "first_episode": found.first_episode,
        "episodes": found.episodes,
    }


def _about(counts: Counts, structure: Structure, delta: float) -> dict[str, Any]:
    return {
        "delta": delta,
        "shape": list(counts.shape.hsa),
        "pooled": counts.pooled,
        "structure": describe_structure(structure),
        "episodes": counts.n_episodes,
        "data": data_hash(counts),
    }


# ------------------------------------------------------------------------------- checking


def certify(path: str | Path) -> Checked:
    """Check the claim of a run from its data; a claim that does not hold is an error."""
    folder = RunFolder.open(path)
    if folder.manifest.get("command") == "cover":
        return _check_coverage(folder)
    from covgame.store.manifest import CertificateFile

    if not (folder.path / CERTIFICATE).is_file():
        raise BadInput(f"{path} claims nothing: it holds no {CERTIFICATE}")
    place = folder.path / CERTIFICATE
    claimed = check_content(CertificateFile, read_json(place), place)
    counts = _count_anew(folder, Shape(*claimed.shape), pooled=claimed.pooled)
    if counts.n_episodes != claimed.episodes or data_hash(counts) != claimed.data:
        raise BadInput(
            f"the certificate of {path} is about other data: it names {claimed.episodes:,} "
            f"episodes, and there are {counts.n_episodes:,}, or they differ"
        )
    check = {"reward-free": _check_reward_free, "best-policy": _check_best_policy}[claimed.claim]
    return check(folder, counts, claimed)


Check = Callable[[RunFolder, Counts, "CertificateFile"], Checked]


def _check_reward_free(folder: RunFolder, counts: Counts, claimed: CertificateFile) -> Checked:
    certificate = reward_free(counts, _structure(claimed), claimed.delta)
    error = certificate.error
    _require(folder, "error", error, claimed.numbers["error"])
    return Checked("reward-free", counts.n_episodes, {"error": error, "delta": claimed.delta})


def _check_best_policy(folder: RunFolder, counts: Counts, claimed: CertificateFile) -> Checked:
    rewards = claimed.rewards or {}
    earned = Range(
        rewards.get("low") or 0.0,
        1.0 if rewards.get("high") is None else float(rewards["high"] or 0.0),
        rewards.get("return_high"),
    )
    certificate = best_policy(counts, _structure(claimed), claimed.delta, earned)
    policy = Policy.deterministic(np.array(claimed.policy, dtype=np.int64), counts.shape.actions)
    if policy.table.shape != counts.shape.hs:
        raise BadInput(f"the certificate of {folder.path} holds no policy for this world")
    lower, upper = certificate.lower(policy.table.copy()), certificate.upper
    if claimed.validation is not None:
        lower = max(lower, _check_validation(folder, certificate, claimed.validation, policy))
    _require(folder, "gap", upper - lower, claimed.numbers["gap"])
    numbers = {"gap": upper - lower, "lower": lower, "upper": upper, "delta": claimed.delta}
    return Checked("best-policy", counts.n_episodes, numbers)


def _check_validation(
    folder: RunFolder, certificate: BestPolicyGap, claimed: ValidationFile, policy: Policy
) -> float:
    """What the validating episodes prove, if they were played by a policy fixed before them.

    It has to be the policy that was best by the estimates from the episodes before, or as good.
    """
    from covgame.store.episodes import read_counts

    shape, pooled = certificate.counts.shape, certificate.counts.pooled
    first, last = claimed.first_episode, claimed.first_episode + claimed.episodes
    before = read_counts(folder.episodes, shape, pooled=pooled, last=first)
    known = replace(certificate.sets, counts=before)
    estimated = BestPolicyGap(known, certificate.range)
    if not _is_as_good(estimated, policy):
        raise BadInput(f"the certificate of {folder.path} validates a policy chosen afterwards")
    fresh = read_counts(folder.episodes, shape, pooled=pooled, first=first, last=last)
    elsewhere = policy.probabilities() == 0
    if fresh.n_episodes != claimed.episodes or fresh.visits[elsewhere].any():
        raise BadInput(f"the certificate of {folder.path} names episodes of another policy")
    total = float(fresh.reward_sums.sum())
    found = Validation(policy, claimed.attempt, first, claimed.episodes, total)
    return replace(certificate, validation=found).validated


def _is_as_good(certificate: BestPolicyGap, policy: Policy) -> bool:
    best, estimated = certificate.estimated
    if np.array_equal(policy.table, estimated.table):
        return True
    return certificate.estimated_value(policy) >= best - TOLERANCE


def _require(folder: RunFolder, what: str, found: float, claimed: float) -> None:
    if found > claimed + TOLERANCE * max(1.0, abs(claimed)):
        raise BadInput(
            f"the certificate of {folder.path} does not hold: it claims a {what} of {claimed:g}, "
            f"and the data prove {found:g}"
        )


def _check_coverage(folder: RunFolder) -> Checked:
    """Whether the files of a run of ``cover`` hold what was asked for."""
    arrays = folder.load_counts()
    if arrays is None:
        raise BadInput(f"{folder.path} claims nothing: it was stopped before anything was saved")
    shape = Shape(*arrays["visits"].shape)
    target = Target.of_rows(shape, arrays["target_rows"], arrays["target_counts"])
    counts = _count_anew(folder, shape, pooled=bool(arrays["pooled"]))
    missing = np.maximum(target.counts - target.collected(counts.visits), 0.0)
    if missing.any():
        raise BadInput(
            f"{folder.path} does not cover its target: {np.count_nonzero(missing):,} of "
            f"{len(target):,} rows lack visits, {missing.sum():g} in all"
        )
    numbers = {"rows": len(target), "visits": float(target.counts.sum())}
    return Checked("coverage", counts.n_episodes, numbers)


def _count_anew(folder: RunFolder, shape: Shape, *, pooled: bool) -> Counts:
    """The counts of a run, from its episodes where there are any."""
    if folder.episodes.is_dir():
        from covgame.store.episodes import read_counts

        return read_counts(folder.episodes, shape, pooled=pooled)
    if folder.manifest.get("play") != "counts" and folder.manifest.get("preset") != "paper":
        raise BadInput(f"{folder.path} has lost its episodes, so that nothing can be checked")
    arrays = folder.load_counts()
    if arrays is None:
        raise BadInput(f"{folder.path} holds no data; see {MANIFEST}")
    return counts_from(arrays)


def _structure(claimed: CertificateFile) -> Structure:
    known = claimed.structure
    return Structure(
        known.can_end,
        known.most_successors,
        None if known.known_start is None else np.array(known.known_start),
        None if known.allowed is None else np.array(known.allowed, dtype=np.bool_),
    )
