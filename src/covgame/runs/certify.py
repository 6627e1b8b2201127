"""``certify``: check what a run claims from its data alone.

A certificate says what is claimed, with which numbers, and of which data (a hash of the counts). To
check it, the episodes are counted anew (or the counts taken, where a run was played by them), and
the claim is computed again from that. Nothing that the run remembers is believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from covgame.arrays import sum_by_index
from covgame.data.draws import Draws, require_independent
from covgame.errors import BadInput
from covgame.failures import Failures
from covgame.game.counts import Counts
from covgame.game.excluded_actions import coverable_rows, cut_off_rows
from covgame.game.presets import default_game
from covgame.jsonfile import check_content
from covgame.mdp.families import FAMILIES
from covgame.notebook import facts_table
from covgame.pac.assumptions import assumptions_of_claim, assumptions_of_coverage
from covgame.pac.certified import CertifiedIdentification
from covgame.pac.error_bounds import (
    CENTRES,
    FIRST_OPTIMISM,
    WEIGHTS,
    Penalty,
    Range,
    best_policy,
    reward_free,
)
from covgame.pac.homogeneity import TRUNCATED, difference, share_of
from covgame.pac.mixtures import Structure
from covgame.planning import number
from covgame.report.view import assumed
from covgame.runs.certificates import data_hash
from covgame.runs.learn import known_structure
from covgame.runs.prior_data import PriorData, load_prior_data
from covgame.runs.resume import environment_of, load
from covgame.storage.folder import CERTIFICATE, TARGET, RunFolder
from covgame.storage.state import Arrays, counts_from, fitting, target_from
from covgame.storage.trust import resume_command
from covgame.targets.discovered import Seen, SeenGroups, SeenLabels, SeenTransitions
from covgame.targets.files import listed_from
from covgame.targets.moves import PossibleMoves, pair_rows
from covgame.targets.requests import Listed
from covgame.targets.resolve import World, resolve_again
from covgame.targets.target import Target
from covgame.types import ANY, END, BoolArray, Shape

if TYPE_CHECKING:
    from covgame.storage.config import CertificateFile, StoredCover, StoredLearn
    from covgame.storage.reading import RecordedEpisodes

TOLERANCE = 1e-9
"""Relative difference that another machine's arithmetic may make."""


@dataclass(frozen=True)
class Checked:
    """A claim that holds, as it was computed again from the data."""

    claim: str
    episodes: int
    numbers: dict[str, Any]
    assumptions: Sequence[str] = ()  # what data cannot show
    delta: float | None = None  # the claim is wrong with this probability at most

    def to_dict(self) -> dict[str, Any]:
        """The JSON answer of ``covgame certify``."""
        about = {"claim": self.claim, "episodes": self.episodes, **self.numbers}
        terms = {"delta": self.delta, "assumptions": list(self.assumptions)}
        return {"valid": True, **about, **terms}

    def facts(self) -> list[tuple[str, str]]:
        """What holds, as (label, value) lines for people."""
        facts = [
            ("claim", f"{self.claim}: it holds"),
            ("data", f"{number(self.episodes)} episodes, counted again"),
            *((name, number(value)) for name, value in self.numbers.items()),
        ]
        if self.delta is not None:
            facts.append(("wrong", f"with probability {self.delta:g} at most"))
        return [*facts, *assumed(self.assumptions)]

    def _repr_html_(self) -> str:
        return facts_table(self.facts())


# ------------------------------------------------------------------------------- checking


def certify(path: str | Path) -> Checked:
    """Check what a run claims, from its data alone.

    The recorded episodes are counted again, and the claim is computed from that. Nothing that the
    run concluded is relied on.

    Args:
        path: The folder of a run.

    Returns:
        What holds: ``claim``, ``episodes``, ``numbers``, and in ``assumptions`` what the claim
        rests on because data cannot show it. The run's own answer lists the same.

    Raises:
        BadInput: The claim does not hold, or there is none; the sentence says which.

    Example:
        >>> import tempfile, covgame as cg
        >>> folder = tempfile.mkdtemp()
        >>> run = cg.cover("chain:states=4,horizon=6", "uniform:2/pair", out=folder)
        >>> cg.certify(folder).claim
        'coverage'
    """
    folder = RunFolder.open(path)
    if folder.config.get("command") == "cover":
        return _check_coverage(folder)
    from covgame.storage.config import CertificateFile, StoredLearn

    certificate = folder.read_document(CERTIFICATE)
    if certificate is None:
        raise BadInput(f"{path} claims nothing: it holds no certificate")
    asked = check_content(StoredLearn, folder.config, folder.database)
    claimed = check_content(CertificateFile, certificate, folder.database)
    _check_terms(folder, claimed, asked)
    shape = Shape(*claimed.shape)
    data = _Data.of(folder, shape, pooled=claimed.pooled, last_stage=False)
    if data.counts.n_episodes != claimed.episodes or data_hash(data.counts) != claimed.data:
        raise BadInput(
            f"the certificate of {path} is about other data: it names {claimed.episodes:,} "
            f"episodes, and there are {data.counts.n_episodes:,}, or they differ"
        )
    _check_result(folder, data)
    structure = _structure(claimed)
    _check_structure(folder, data.counts, structure)
    _check_known(folder, structure)
    _check_evidence(data)
    _check_stages(folder, data, claimed)
    check = {"reward-free": _check_reward_free, "best-policy": _check_best_policy}[claimed.claim]
    return check(folder, data, structure, claimed)


@dataclass(frozen=True, eq=False)
class _Data:
    """What a run has seen: its episodes where there are any, or counts that have to be believed."""

    counts: Counts
    episodes: RecordedEpisodes | None
    unfinished: int = 0  # episodes of a round that was broken off, and is not in the counts
    given: Sequence[PriorData] = ()  # what the run started from; it is in the counts

    @property
    def n_given(self) -> int:
        return sum(one.episodes for one in self.given)

    @property
    def n_played(self) -> int:
        return self.counts.n_episodes + self.unfinished - self.n_given

    def apart(self) -> Counts:
        """All that was seen, stage by stage."""
        assert self.episodes is not None  # noqa: S101 (by counts nobody asks)
        paid = self.counts.payments is not None
        counts = self.episodes.counts(pooled=False, paid=paid)
        return _with_given(counts, self.given, last_stage=False)

    @classmethod
    def of(
        cls,
        folder: RunFolder,
        shape: Shape,
        *,
        pooled: bool,
        stage_free: bool = False,
        last_stage: bool = True,  # whether what follows the last stage counts in given data
    ) -> _Data:
        if folder.episodes.is_dir():
            from covgame.storage.reading import RecordedEpisodes

            episodes = RecordedEpisodes(folder, shape)
            paid = folder.config.get("command") == "identify"
            given = load_prior_data(folder, shape, stage_free=stage_free, paid=paid)
            counts = episodes.counts(pooled=pooled, stage_free=stage_free, paid=paid)
            counts = _with_given(counts, given, last_stage=last_stage)
            return cls(counts, episodes, given=given)
        if folder.config.get("play") != "counts":
            raise BadInput(f"{folder.path} has lost its episodes, so that nothing can be checked")
        arrays = folder.load_arrays()
        if arrays is None:
            raise BadInput(f"{folder.path} holds no data yet")
        counts = counts_from(arrays)
        if counts.shape != shape or counts.pooled != pooled:
            raise BadInput(f"the certificate of {folder.path} is about another world")
        _check_flow(folder, counts)
        return cls(counts, None, int(arrays.get("part_episodes", 0)))


def _with_given(counts: Counts, given: Sequence[PriorData], *, last_stage: bool) -> Counts:
    for one in given:
        counts.include(one.counts, last_stage=last_stage)
    return counts


def _check_result(folder: RunFolder, data: _Data) -> None:
    """The answer and the data of a run have to be about equally many episodes."""
    answer = folder.load_result()
    if not answer:
        return  # killed before it could answer; the data stand for themselves
    said = answer.get("episodes")
    if said != data.n_played:
        raise BadInput(
            f"the answer of {folder.path} is about {said} episodes, and it has {data.n_played}; if "
            f"the run was stopped, {resume_command(folder)} completes the answer"
        )


def _check_terms(folder: RunFolder, claimed: CertificateFile, asked: StoredLearn) -> None:
    """The terms of the certificate have to be those of the run."""
    terms: list[tuple[str, Any, Any]] = [
        ("delta", claimed.delta, asked.delta),
        ("epsilon", claimed.epsilon, asked.epsilon),
        ("most_successors", claimed.structure.most_successors, asked.most_successors),
    ]
    if claimed.rewards is not None and asked.command == "identify":
        high = None if asked.return_range is None else asked.return_range[1]
        terms += [
            ("rewards", (claimed.rewards.low, claimed.rewards.high), tuple(asked.reward_range)),
            ("return_high", claimed.rewards.return_high, high),
        ]
    if asked.stage_dependent or claimed.stages == "parted":
        terms.append(("pooled", claimed.pooled, False))
    elif claimed.stages == "tested":
        terms.append(("pooled", claimed.pooled, True))
    for name, here, there in terms:
        if here != there:
            raise BadInput(
                f"the certificate of {folder.path} has other terms than the run: {name} is {here} "
                f"here and {there} in its configuration"
            )


def _check_stages(folder: RunFolder, data: _Data, claimed: CertificateFile) -> None:
    """Where stages are pooled, the data must not show that they differ."""
    if not claimed.pooled or data.episodes is None:
        return  # by counts only models are played, which know
    if claimed.stages == "known" and not _is_model(folder):
        raise BadInput(
            f"the certificate of {folder.path} believes that all stages are alike; a run that is "
            f"played step by step tests its stages: {resume_command(folder)} does"
        )
    cut_short = data.episodes.is_cut_short() or any(one.cut_short for one in data.given)
    why = TRUNCATED if cut_short else None
    if why is None and claimed.stages == "tested":
        earned = _range(claimed) if claimed.structure.same_rewards else None
        symbols = claimed.shape[1] + (1 if claimed.structure.can_end else 0)
        why = difference(data.apart(), symbols, claimed.delta, earned)
    if why is not None:
        raise BadInput(
            f"the certificate of {folder.path} takes all stages to be alike, and the data say "
            f"otherwise: {why}; use --stage-dependent"
        )


def _is_model(folder: RunFolder) -> bool:
    """Whether the table of the environment is at hand without importing foreign code."""
    about = folder.config
    return about["model"] is not None or about["environment"].split(":")[0] in FAMILIES


def _check_known(folder: RunFolder, structure: Structure) -> None:
    """What a certificate takes as known must be what its environment is known for."""
    kind = folder.config["environment"].split(":")[0]
    limit, start, allowed = structure.most_successors, structure.known_start, structure.allowed
    if _is_model(folder):
        known = known_structure(environment_of(folder).model, limit, simulated=True)
    elif kind == "gym":  # its table, which only Gymnasium has; what is taken from it is printed
        known = Structure(most_successors=limit, allowed=allowed)
    else:
        known = Structure(most_successors=limit)
    differs = {
        "can_end": structure.can_end != known.can_end,
        "known_start": start is not None and not _equal(start, known.known_start),
        "allowed": not _equal(allowed, known.allowed),
        "same_rewards": structure.same_rewards and not known.same_rewards,
    }
    wrong = [name for name, does in differs.items() if does]
    if wrong:
        raise BadInput(
            f"the certificate of {folder.path} takes {wrong[0]} as known, which "
            f"{folder.config['environment']} is not known for"
        )


def _equal(one: Any, other: Any) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _check_evidence(data: _Data) -> None:
    """Given data have to say how their episodes end, and no episode may repeat another's draws."""
    for one in data.given:
        if not one.has_ends or one.workers > 1:
            raise BadInput(f"the episodes of {one.name}, which the run started from, are not whole")
    if data.given and data.episodes is not None:
        own = Draws("the run itself", data.episodes.seeds())
        require_independent([*(one.draws for one in data.given), own])


def _range(claimed: CertificateFile) -> Range | None:
    known = claimed.rewards
    return None if known is None else Range(known.low, known.high, known.return_high)


def _check_structure(folder: RunFolder, counts: Counts, known: Structure) -> None:
    """What is taken as known must not contradict the data."""
    table = counts.table
    _, successor, _ = table.listed(0, len(table))
    start, allowed = known.known_start, known.allowed
    wrong = {
        "episodes that end": not known.can_end and bool((successor == END).any()),
        "successors": bool(table.rows["size"].max(initial=0) > known.limit),
        "first states": start is not None
        and (
            len(start) != counts.shape.states
            or abs(float(start.sum()) - 1) > TOLERANCE
            or bool(counts.starts[start == 0].any())
        ),
        "actions": allowed is not None
        and (
            allowed.shape != (counts.shape.states, counts.shape.actions)
            or not bool(allowed.any(axis=1).all())
            or bool(counts.visits[:, ~allowed].any())
        ),
    }
    for what, contradicted in wrong.items():
        if contradicted:
            raise BadInput(
                f"the certificate of {folder.path} takes {what} as known that the data contradict"
            )


def _check_flow(folder: RunFolder, counts: Counts) -> None:
    """Counts without episodes have to fit together: what enters a state leaves it."""
    visits, pairs = counts.visits, counts.shape.pairs
    seen = counts.table.total.reshape(-1, pairs).sum(axis=0)
    most = visits.reshape(-1, pairs).sum(axis=0)
    least = visits[:-1].reshape(-1, pairs).sum(axis=0)
    fits = (visits >= 0).all() and counts.starts.sum() == counts.n_episodes
    fits = fits and (visits[0].sum(axis=1) == counts.starts).all()
    if counts.payments is not None:  # what transitions paid adds up to what cells did
        row, _, sums = counts.payments.listed()
        paid = sum_by_index(row % pairs, sums, pairs)
        earned = counts.reward_sums[:-1].reshape(-1, pairs).sum(axis=0)
        fits = fits and bool(np.allclose(paid, earned, rtol=1e-9, atol=1e-6))
    if not (fits and (least <= seen).all() and (seen <= most).all()):
        raise BadInput(f"the counts of {folder.path} do not fit together")


def _check_reward_free(
    folder: RunFolder, data: _Data, structure: Structure, claimed: CertificateFile
) -> Checked:
    certificate = reward_free(data.counts, structure, share_of(claimed.delta, claimed.stages))
    penalty = _penalty(folder, claimed)
    error = min(certificate.bound(penalty).error, float(data.counts.shape.horizon))
    _require(folder, "error", error, claimed.numbers.get("error"))
    return _checked(folder, data, claimed, {"error": error})


def _penalty(folder: RunFolder, claimed: CertificateFile) -> Penalty | None:
    """How the claim uses its joint budget; of all mixtures only some are averaged over."""
    if claimed.penalty is None:
        return None
    penalty = Penalty(**claimed.penalty.model_dump())
    centres = CENTRES if claimed.claim == "reward-free" else [FIRST_OPTIMISM.centre]
    if penalty.weight not in WEIGHTS or penalty.centre not in centres:
        raise BadInput(f"the certificate of {folder.path} names a mixture that does not exist")
    return penalty


def _check_best_policy(
    folder: RunFolder, data: _Data, structure: Structure, claimed: CertificateFile
) -> Checked:
    earned = _range(claimed)
    if claimed.policy is None or earned is None:
        raise BadInput(f"the certificate of {folder.path} holds no policy, or no range of rewards")
    _check_rewards(folder, data, earned)
    counts, table = data.counts, np.array(claimed.policy, dtype=np.int64)
    if table.shape != counts.shape.hs or table.max(initial=0) >= counts.shape.actions:
        raise BadInput(f"the certificate of {folder.path} holds no policy for this world")
    share = share_of(claimed.delta, claimed.stages)
    certificate = best_policy(counts, structure, share, earned)
    lower, upper = certificate.lower(table.copy()), certificate.optimism().upper
    if (penalty := _penalty(folder, claimed)) is not None:
        upper = min(upper, certificate.optimism(penalty).upper)
    if claimed.validation is not None:
        lower = max(lower, _replayed(folder, data, structure, claimed, earned))
    for name, found in (("gap", upper - lower), ("upper", upper), ("lower", -lower)):
        said = claimed.numbers.get(name)
        _require(folder, name, found, -said if name == "lower" and said is not None else said)
    return _checked(folder, data, claimed, {"gap": upper - lower, "lower": lower, "upper": upper})


def _check_rewards(folder: RunFolder, data: _Data, earned: Range) -> None:
    """What was paid has to lie in the ranges that the bounds are made for."""
    if data.episodes is None:
        sums, visits = data.counts.reward_sums, data.counts.visits
        above = bool((sums >= earned.low * visits - TOLERANCE).all())
        inside = above and bool((sums <= earned.high * visits + TOLERANCE).all())
    else:
        paid = [data.episodes.reward_range(), *(one.rewards for one in data.given)]
        inside = all(earned.low <= low and high <= earned.high for low, high in paid)
        if earned.return_high is not None:
            returns = [data.episodes.highest_return(), *(one.highest_return for one in data.given)]
            inside = inside and max(returns) <= earned.return_high + TOLERANCE
    if not (inside and earned.low < earned.high):
        raise BadInput(f"rewards in {folder.path} lie outside the range of its certificate")


def _replayed(
    folder: RunFolder, data: _Data, structure: Structure, claimed: CertificateFile, earned: Range
) -> float:
    """What validations prove of the policy, with the whole run played again from its episodes.

    Which policy is validated, when, and for how long follows from the data before it. So the
    learner is told the recorded episodes round by round, and has to ask for the same policy.
    """
    if data.episodes is None:
        raise BadInput(f"the certificate of {folder.path} validates without episodes")
    supposed = claimed.stages != "known"
    shape = data.counts.shape
    learner = CertifiedIdentification(
        Counts(shape, pooled=data.counts.pooled or supposed, paid=True),
        structure,
        claimed.epsilon,
        claimed.delta,
        earned,
        apart=Counts(shape, pooled=False, paid=True) if supposed else None,
    )
    for one in data.given:
        learner.start_from(one.counts, cut_short=one.cut_short)
    while learner.counts.n_episodes - data.n_given < len(data.episodes):
        part = learner.next_task()
        if part is None:
            break
        first = learner.counts.n_episodes - data.n_given
        last = min(first + part.episodes, len(data.episodes))
        seen = data.episodes.counts(
            pooled=part.counts.pooled, paid=True, returns=part.validates, first=first, last=last
        )
        if part.validates and seen.visits[part.policy.probabilities() == 0].any():
            raise BadInput(f"the certificate of {folder.path} names episodes of another policy")
        part.counts.include(seen)
        learner.truncated |= data.episodes.is_cut_short(first, last)
        learner.tell(part)
    found = learner.best
    if found is None or not np.array_equal(found.policy.table, np.array(claimed.policy)):
        raise BadInput(f"the certificate of {folder.path} names a policy that was not validated")
    return learner.certificate.validated


def _checked(
    folder: RunFolder, data: _Data, claimed: CertificateFile, numbers: dict[str, float]
) -> Checked:
    assumptions = assumptions_of_claim(
        Shape(*claimed.shape),
        _structure(claimed),
        simulated="size" not in folder.config,
        pooled=claimed.pooled,
        stages=claimed.stages,
        rewards=_range(claimed),
        given=data.given,
        set_aside=Failures(folder.load_failures()).set_aside,
        recorded=data.episodes is not None,
    )
    return Checked(claimed.claim, data.counts.n_episodes, dict(numbers), assumptions, claimed.delta)


def _require(folder: RunFolder, what: str, found: float, claimed: float | None) -> None:
    if claimed is None or found > claimed + TOLERANCE * max(1.0, abs(claimed)):
        raise BadInput(
            f"the certificate of {folder.path} does not hold: it claims a {what} of {claimed}, "
            f"and the data prove {abs(found):g}"
        )


def _check_coverage(folder: RunFolder) -> Checked:
    """Whether the data of a run of ``cover`` hold its target.

    The target is made anew from the request and the data; the saved one is only for resuming.
    """
    from covgame.storage.config import StoredCover

    asked = check_content(StoredCover, folder.config, folder.database)
    arrays = folder.load_arrays()
    if arrays is None or not folder.load_result():
        # Killed: the state may be behind the recorded episodes, which are counted again.
        run = load(folder.path)
        if not run.n_episodes:
            raise BadInput(
                f"{folder.path} claims nothing: it was stopped before anything was saved"
            )
        arrays = run.arrays()
    saved = counts_from(arrays)
    if asked.stage_dependent and saved.pooled:
        raise BadInput(f"{folder.path} has pooled stages that its configuration keeps apart")
    data = _Data.of(folder, saved.shape, pooled=saved.pooled, stage_free=saved.stage_free)
    target, transitions, assumptions = _required(folder, asked, arrays, data)
    missing = np.maximum(target.counts - target.collected(data.counts.visits), 0.0)
    if missing.any():
        raise BadInput(
            f"{folder.path} does not cover its target: {np.count_nonzero(missing):,} of "
            f"{len(target):,} rows lack visits, {missing.sum():g} in all"
        )
    _check_result(folder, data)
    numbers: dict[str, Any] = {"rows": len(target), "visits": float(target.counts.sum())}
    if transitions is not None:
        numbers["transitions"] = transitions
    return Checked("coverage", data.counts.n_episodes, numbers, assumptions)


def _required(
    folder: RunFolder, asked: StoredCover, arrays: Arrays, data: _Data
) -> tuple[Target, int | None, Sequence[str]]:
    """The target of a run, how many transitions it is about (None: it is not), and assumptions."""
    counts, shape, growing = data.counts, data.counts.shape, asked.growing
    listed = listed_from(folder.read_document(TARGET), folder.database)
    left_out = _left_out(folder, asked, arrays)
    avoided = _avoided(folder, shape)
    allowed = _allowed(folder, arrays, counts, avoided)
    moves = None
    if growing is not None and growing.per == "transition":
        moves = _possible(folder, listed, arrays, shape)
    _, labels = folder.load_states() or ([], None)
    simulated = asked.model is not None or asked.environment.split(":")[0] in FAMILIES
    world = World(
        str(folder.path), shape, shows_last_step=not simulated, labels=lambda: labels or []
    )
    resolved = resolve_again(growing, listed, world, moves=moves)
    request, target = resolved.discovered, resolved.target
    places: BoolArray = np.logical_or.reduce(counts.visits > 0, axis=2)
    seen = Seen(counts, places, allowed, left_out)
    if request is None:
        kept = [tuple(row) not in left_out for row in target.rows.tolist()]
        target = target.keep(np.array(kept, dtype=np.bool_))
    elif isinstance(request, SeenGroups):
        target = _grouped(request, target_from(arrays, shape), seen)
    else:
        if isinstance(request, SeenLabels) and (never := request.waiting()):
            raise BadInput(
                f"{folder.path} does not cover its target: {never[0][1]!r} never appeared"
            )
        target = request.grown(target, seen)
    if allowed is not None and avoided.any():  # rows that do not need an avoided action
        target = target.keep(coverable_rows(target, avoided))
        game = default_game(target, pooled=counts.pooled, allowed=allowed)
        game.counts, game.collected = counts, target.collected(counts.visits)
        target = target.keep(~cut_off_rows(game, allowed))
    transitions = None
    if isinstance(request, SeenTransitions):
        transitions = _check_transitions(folder, request, target, counts)
    open_pairs = np.ones_like(avoided) if allowed is None else allowed | avoided
    assumptions = assumptions_of_coverage(
        shape.horizon,
        left_out=len(left_out),
        min_reach=asked.min_reach,
        forbidden=int((~open_pairs).sum()),
        avoided=int(avoided.sum()),
        groups=isinstance(request, SeenGroups),
        possible=transitions is not None and "wanted_transitions" in arrays,
        given=data.given,
    )
    return target, transitions, assumptions


def _possible(
    folder: RunFolder, listed: Listed, arrays: Arrays, shape: Shape
) -> PossibleMoves | None:
    """The transitions that a known model has: of every pair that was asked for some."""
    pairs = [int(s) * shape.actions + int(a) for _, s, a, _ in listed.rows]  # type: ignore[arg-type]
    if not pairs and "wanted_transitions" not in arrays:
        return None
    with fitting():
        pair, successor = arrays["wanted_transitions"].reshape(-1, 2).T
    if not np.array_equal(np.unique(pair), np.unique(np.array(pairs, dtype=np.int64))):
        raise BadInput(f"{folder.path}: its saved state has other transitions than its target")
    return PossibleMoves(pair, successor, np.ones(len(pair)))


def _check_transitions(
    folder: RunFolder, request: SeenTransitions, target: Target, counts: Counts
) -> int:
    """Rows of pairs do not say it by themselves: all transitions of these pairs have visits."""
    missing = [lacks for _, lacks in request.transitions(target, counts)]
    if any(missing):
        raise BadInput(
            f"{folder.path} does not cover its target: {sum(lacks > 0 for lacks in missing):,} of "
            f"{len(missing):,} transitions lack visits, {sum(missing):g} in all"
        )
    return len(missing)


def _grouped(request: SeenGroups, saved: Target, seen: Seen) -> Target:
    """Groups are a function that only a program has; that every pair was tried can be seen."""
    groups = saved.keep(saved.of_group)
    if (groups.counts < request.count).any():
        raise BadInput(f"the saved state asks for fewer visits of groups than {request.count:g}")
    rows = pair_rows(saved.shape.actions, seen.pairs)
    return groups.with_more(saved.shape.states, rows, np.full(len(rows), float(request.tries)))


def _left_out(folder: RunFolder, asked: StoredCover, arrays: Arrays) -> set[tuple[int, ...]]:
    """Rows that ``--min-reach`` has dropped on the way; without it there are none."""
    with fitting():
        rows = arrays.get("left_out_rows", np.zeros((0, 3), dtype=np.int64)).reshape(-1, 3)
    found = {tuple(row) for row in rows.tolist()}
    if found and not asked.min_reach:
        raise BadInput(f"{folder.path}: its saved state leaves out rows without --min-reach")
    older = [row[:3] for row in asked.unreachable if isinstance(row[1], int)]
    return found | {tuple(ANY if i is None else i for i in row) for row in older}  # type: ignore[misc]


def _avoided(folder: RunFolder, shape: Shape) -> BoolArray:
    """(S, A), actions that have failed and were not taken again, by the notes of failures."""
    avoided = np.zeros((shape.states, shape.actions), dtype=np.bool_)
    for failure in folder.load_failures():
        if failure.then == "avoided":
            state, action = failure.path[-1] if failure.path else (-1, -1)
            if not (0 <= state < shape.states and 0 <= action < shape.actions):
                raise BadInput(f"{folder.database}: its failures are about another environment")
            avoided[state, action] = True
    return avoided


def _allowed(
    folder: RunFolder, arrays: Arrays, counts: Counts, avoided: BoolArray
) -> BoolArray | None:
    """Which actions there are, where some are forbidden; the data must not show others.

    What was avoided was taken before it failed.
    """
    if "allowed" not in arrays:
        return None
    with fitting():
        allowed: BoolArray = arrays["allowed"].astype(np.bool_).reshape(counts.shape.hsa[1:])
    if counts.visits[:, ~allowed & ~avoided].any():
        raise BadInput(f"{folder.path}: its saved state forbids actions that the data show")
    return allowed


def _structure(claimed: CertificateFile) -> Structure:
    known = claimed.structure
    return Structure(
        known.can_end,
        known.most_successors,
        None if known.known_start is None else np.array(known.known_start),
        None if known.allowed is None else np.array(known.allowed, dtype=np.bool_),
        known.same_rewards,
    )
