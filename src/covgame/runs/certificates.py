"""Certificates: what a run of ``explore`` or ``identify`` claims, as its folder stores it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

import numpy as np

from covgame.game.counts import Counts
from covgame.pac.certified import Certified, CertifiedExploration, CertifiedIdentification
from covgame.storage.folder import CERTIFICATE, RunFolder

FORMAT = "covgame-certificate/1"


def data_hash(counts: Counts) -> str:
    """What was seen, in a form that does not depend on files or order."""
    listed = np.column_stack(counts.transitions())
    listed = listed[np.lexsort((listed[:, 1], listed[:, 0]))]
    digest = hashlib.sha256()
    for array in (counts.visits, counts.starts, listed):
        digest.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    digest.update(np.round(counts.reward_sums, 6).astype("<f8").tobytes())
    if counts.payments is not None:
        paid = counts.payments.of(listed[:, 0], listed[:, 1])
        digest.update((np.round(paid, 6) + 0.0).astype("<f8").tobytes())
    return digest.hexdigest()


def write_certificate(folder: RunFolder, content: dict[str, Any]) -> None:
    """Put a certificate into the folder of a run."""
    text = json.dumps({"format": FORMAT, **content}, indent=1, allow_nan=False) + "\n"
    folder.write_document(CERTIFICATE, text)


def reward_free_claim(learner: CertifiedExploration) -> dict[str, Any]:
    """The content of a reward-free certificate."""
    proved = learner.proved
    return {
        "claim": "reward-free",
        "says": "a policy that is optimal on the learnt model loses at most error, any reward",
        "numbers": {"error": learner.bound, "theta": proved.theta},
        "penalty": None if proved.penalty is None else asdict(proved.penalty),
        **_about(learner),
    }


def best_policy_claim(learner: CertifiedIdentification) -> dict[str, Any]:
    """The content of a best-policy certificate."""
    certificate = learner.certificate
    (lower, policy), upper = certificate.candidate, learner.upper
    earned, validation = certificate.range, certificate.validation
    if validation is not None and validation.policy is not policy:
        validation = None  # the claim does not rest on it
    return {
        "claim": "best-policy",
        "says": "the policy's value is at least lower, and no policy's is above upper",
        "numbers": {"gap": upper - lower, "lower": lower, "upper": upper},
        "penalty": None if learner.penalty is None else asdict(learner.penalty),
        "policy": policy.to_list(),
        "validation": validation
        and {
            "attempt": validation.attempt,
            "first_episode": validation.first_episode,
            "episodes": validation.episodes,
        },
        "rewards": {"low": earned.low, "high": earned.high, "return_high": earned.return_high},
        **_about(learner),
    }


def _about(learner: Certified) -> dict[str, Any]:
    counts, structure = learner.counts, learner.structure
    start, allowed = structure.known_start, structure.allowed
    return {
        "epsilon": learner.epsilon,
        "delta": learner.delta,
        "shape": list(counts.shape.hsa),
        "pooled": counts.pooled,
        "stages": learner.stages,
        "structure": {
            "can_end": structure.can_end,
            "most_successors": structure.most_successors,
            "known_start": None if start is None else start.tolist(),
            "allowed": None if allowed is None else allowed.tolist(),
            "same_rewards": structure.same_rewards,
        },
        "episodes": counts.n_episodes,
        "data": data_hash(counts),
    }
