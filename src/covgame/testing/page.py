"""The page of a test session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from covgame.planning import number
from covgame.report.html import page_html
from covgame.report.view import Figure, Table, View, table
from covgame.testing.outcome import Outcome, Seen

MOST_ROWS = 1_000


def write_report(outcomes: Sequence[Outcome], path: str | Path) -> Path:
    """Write a page about tests: what they reached and how often, what is missing and its price.

    Args:
        outcomes: What ``check_transitions`` returns.
        path: The file.

    Returns:
        The path.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(page_html(session_view(outcomes)), encoding="utf-8")
    return file


def session_view(outcomes: Sequence[Outcome]) -> View:
    """What the page shows."""
    covered = sum(one.covered for one in outcomes)
    failures = sum(len(one.failures) for one in outcomes)
    is_good = covered == len(outcomes) and not failures
    sentences = [f"{one.line()}." for one in outcomes]
    sentences += [f"{one.name}: {note}." for one in outcomes for note in one.notes]
    transitions = sum(len(one.transitions) for one in outcomes)
    figures = [
        Figure("machines covered", f"{covered:,} of {len(outcomes):,}"),
        Figure("transitions seen", f"{transitions:,}"),
        Figure("sequences", number(sum(one.sequences for one in outcomes))),
        Figure("failures", f"{failures:,}", "distinct places in the code"),
    ]
    return View(
        "tests",
        "Transitions covered",
        "passed" if is_good else "failed" if failures else "not covered",
        "good" if is_good else "bad" if failures else "open",
        sentences or ["No state machine was run."],
        figures,
        [(one.name, one.test) for one in outcomes if one.test],
        [part for place, one in enumerate(outcomes) for part in _tables(one, place)],
    )


def _tables(one: Outcome, place: int) -> Iterable[Table]:
    def about(title: str, heads: list[str], rows: list[list[str]], numeric: int = 1) -> Table:
        name, wide = f"{place}-{title.replace(' ', '-')}", len(heads) > 2
        title = f"{one.name}: {title}"
        return table(name, title, heads, rows, most=MOST_ROWS, numeric=numeric, wide=wide)

    yield about(
        "failures",
        ["times", "where", "error", "rules that lead there"],
        [
            [f"{failed.times:,}", failed.where, failed.error, ", ".join(failed.path)]
            for failed in one.failures
        ],
    )
    never = [[rule, "never allowed in any state seen"] for rule in one.never_allowed]
    never += [[f"{state} / {rule}", "allowed, never run"] for state, rule in one.untried]
    yield about("never reached", ["what", "why"], never, 0)
    yield about(
        "transitions",
        ["seen", "missing", "sequences for one more", "transition, rarest first"],
        [
            [
                f"{seen.times:,}",
                f"{one.visits - seen.times:,}" if seen.times < one.visits else "",
                _price(seen),
                str(seen),
            ]
            for seen in one.transitions
        ],
        3,
    )
    for title, head, counted in (("states", "visits", one.states), ("rules", "runs", one.rules)):
        rows = [[f"{times:,}", name] for name, times in sorted(counted, key=lambda row: row[1])]
        yield about(title, [head, title[:-1]], rows)


def _price(seen: Seen) -> str:
    if seen.price is None:
        return "?"
    return "< 1" if seen.price < 1 else number(float(f"{seen.price:.2g}"))
