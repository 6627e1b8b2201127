"""The page of a test session: one HTML file, no script, no network, everything escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from covgame.plain import as_html
from covgame.planning import number
from covgame.report.html import asset
from covgame.testing.outcome import Outcome, Seen

MOST_ROWS = 1_000


def write_report(outcomes: Sequence[Outcome], path: str | Path) -> Path:
    """Write a page about tests: what they reached how often, what never, what comes dear.

    Args:
        outcomes: What ``check_transitions`` returns.
        path: The file.

    Returns:
        The path.
    """
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(report_page(outcomes), encoding="utf-8")
    return file


def report_page(outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    title = "Transitions covered"
    body = "\n".join(_section(one) for one in outcomes) or "<p>No state machine was run.</p>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{asset('page.css')}</style>\n</head>\n<body>\n"
        f"<header><h1>{title}</h1></header>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _section(one: Outcome) -> str:
    test = f'<p class="hint">{as_html(one.test)}</p>' if one.test else ""
    parts = [
        f'<section class="card"><h2>{as_html(one.name)}</h2>{test}<p>{as_html(one.line())}.</p>',
        *(f"<p>{as_html(note)}.</p>" for note in one.notes),
        _failures(one),
        _never(one),
        _counted("States", "visits", one.states),
        _counted("Rules", "runs", one.rules),
        _transitions(one),
    ]
    return "\n".join([*filter(None, parts), "</section>"])


def _failures(one: Outcome) -> str:
    rows = [
        (
            as_html(failed.where),
            as_html(failed.error),
            f"{failed.times:,}",
            as_html(", ".join(failed.path)),
        )
        for failed in one.failures
    ]
    return _table("Failures", ("where", "error", "times", "the shortest way found"), rows, {2})


def _never(one: Outcome) -> str:
    """What was not reached: rules that were never allowed, and rules not run where they were."""
    rows = [(as_html(rule), "never allowed in any state seen") for rule in one.never_allowed]
    rows += [(as_html(f"{state} / {rule}"), "allowed, never run") for state, rule in one.untried]
    return _table("Never reached", ("what", "why"), rows, set())


def _counted(title: str, what: str, rows: Iterable[tuple[str, int]]) -> str:
    ordered = sorted(rows, key=lambda row: row[1])
    return _table(
        title, (title[:-1].lower(), what), [(as_html(a), f"{n:,}") for a, n in ordered], {1}
    )


def _transitions(one: Outcome) -> str:
    rows = [
        (as_html(str(seen)), f"{seen.times:,}", _price(seen), "" if seen.times >= one.visits else
         f"{one.visits - seen.times:,} missing")
        for seen in one.transitions
    ]  # fmt: skip
    heads = ("transition, rarest first", "seen", "sequences for one more", "")
    return _table("Transitions", heads, rows, {1, 2})


def _price(seen: Seen) -> str:
    if seen.price is None:
        return "?"
    return "< 1" if seen.price < 1 else number(float(f"{seen.price:.2g}"))


def _table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]
) -> str:
    """A table under a heading, nothing if it has no rows."""
    if not rows:
        return ""
    kinds = [' class="number"' if column in numbers else "" for column in range(len(heads))]
    head = "".join(f"<th{kind}>{name}</th>" for kind, name in zip(kinds, heads, strict=True))
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True))
        + "</tr>"
        for row in rows[:MOST_ROWS]
    )
    more = (
        f'<p class="hint">and {len(rows) - MOST_ROWS:,} more</p>' if len(rows) > MOST_ROWS else ""
    )
    return (
        f'<h3>{title}</h3>\n<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>{more}"
    )
