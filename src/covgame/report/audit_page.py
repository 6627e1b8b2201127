"""The page of an audit: one HTML file, no script, no network, everything escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from covgame.plain import as_html
from covgame.planning import number
from covgame.types import FloatArray

if TYPE_CHECKING:
    from covgame.data.audit import Audit

MOST_HOLES = 500
MOST_BARS = 40
WIDEST_GRID = 64
SQUARE = 44

STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1d2329; --faint: #5b6670;
  --line: #d9dee3; --full: #3a6ea5; --missing: #b5483a; --empty: #eef1f4; --on-dark: #fff; }
@media (prefers-color-scheme: dark) { :root { --page: #14181c; --ink: #e4e8ec; --faint: #9aa6b1;
  --line: #2f3840; --full: #5b93cf; --missing: #d9705f; --empty: #222a31; --on-dark: #fff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1.2rem 1rem 3rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .4rem 0 .8rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .5rem 0; }
.faint { color: var(--faint); font-size: .9rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--faint); }
tbody th { width: 7rem; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap;
  width: 4.5rem; padding-right: 1rem; }
.bars { display: grid; grid-template-columns: minmax(6rem, 14rem) 1fr auto; gap: .25rem .7rem;
  align-items: center; font-size: .9rem; overflow-wrap: anywhere; }
.bars svg { width: 100%; height: 1.05rem; display: block; }
.bars span:nth-child(3n) { font-variant-numeric: tabular-nums; text-align: right; }
.scroll { overflow-x: auto; }
.grid { display: block; max-width: 100%; height: auto; }
.grid text { font: 12px system-ui, sans-serif; text-anchor: middle; fill: var(--ink); }
.key { display: inline-block; width: .8em; height: .8em; margin: 0 .3em 0 .9em; }
"""


def audit_page(audit: Audit) -> str:
    """The whole page."""
    names = ", ".join(one.name for one in audit.datasets)
    title = f"Audit of {names}"
    parts = [
        f"<h1>{as_html(title)}</h1>",
        *(f"<p>{as_html(sentence)}</p>" for sentence in audit.summary()),
        "<h2>Visits against what was asked for</h2>",
        _picture(audit),
        "<h2>Holes</h2>",
        _holes(audit),
        "<h2>In figures</h2>",
        _facts(audit),
    ]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{as_html(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _facts(audit: Audit) -> str:
    rows = "".join(
        f'<tr><th scope="row">{as_html(label)}</th><td>{as_html(value)}</td></tr>'
        for label, value in audit.facts()
    )
    return f"<table><tbody>{rows}</tbody></table>"


def _holes(audit: Audit) -> str:
    if not audit.holes:
        return "<p>None: everything was visited as often as asked for.</p>"
    rows = "".join(
        f'<tr><td class="number">{as_html(number(hole.missing))}</td><td>{as_html(hole.where)}</td>'
        f"<td>{as_html(hole.what)}</td></tr>"
        for hole in audit.holes[:MOST_HOLES]
    )
    more = len(audit.holes) - MOST_HOLES
    tail = f'<p class="faint">and {more:,} more; --json lists them all</p>' if more > 0 else ""
    heads = '<th class="number">visits</th><th>where</th><th>what</th>'
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>"
    about = '<p class="faint">Visits that are missing, most first.</p>'
    return f'{about}<div class="scroll">{table}</div>{tail}'


def _picture(audit: Audit) -> str:
    visits, wanted, missing = audit.by_state()
    grid = audit.names.grid
    if grid is not None and grid[0] * grid[1] == len(visits) and grid[1] <= WIDEST_GRID:
        return _grid(audit, grid, visits, wanted, missing)
    return _bars(audit, visits, wanted, missing)


def _grid(
    audit: Audit, grid: tuple[int, int], visits: FloatArray, wanted: FloatArray, missing: FloatArray
) -> str:
    """A square for every state: how much of what it was asked for is there."""
    rows, columns = grid
    squares = []
    for state in range(rows * columns):
        y, x = divmod(state, columns)
        share = _share(wanted[state], missing[state])
        words = f"{audit.names.state(state)}: {_said(visits[state], wanted[state], missing[state])}"
        squares.append(
            f'<g transform="translate({x * SQUARE} {y * SQUARE})"><title>{as_html(words)}</title>'
            f'<rect width="{SQUARE - 2}" height="{SQUARE - 2}" fill="var(--empty)"/>'
            + _filled(wanted[state], share)
            + f'<text x="{SQUARE / 2 - 1:g}" y="{SQUARE / 2 + 4:g}">{_short(visits[state])}</text>'
            "</g>"
        )
    width, height = columns * SQUARE, rows * SQUARE
    return (
        f'<div class="scroll"><svg class="grid" width="{width}" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="visits on the grid">{"".join(squares)}</svg></div>'
        '<p class="faint">A number is the visits of a place, at all stages and by all actions. A '
        "place is filled as far as what was asked of it is there"
        f"{_key('full', 'all of it')}{_key('missing', 'a part')}</p>"
    )


def _filled(wanted: float, share: float) -> str:
    if not wanted:
        return ""
    height = (SQUARE - 2) * share
    colour = "full" if share >= 1 else "missing"
    return (
        f'<rect width="{SQUARE - 2}" y="{SQUARE - 2 - height:.4g}" height="{height:.4g}" '
        f'fill="var(--{colour})" opacity="0.55"/>'
    )


def _bars(audit: Audit, visits: FloatArray, wanted: FloatArray, missing: FloatArray) -> str:
    """A bar for every state; of many, those that lack most."""
    asked = np.flatnonzero(wanted > 0)
    if not len(asked):
        return '<p class="faint">The target is about groups; the list of holes has them.</p>'
    order = asked if len(asked) <= MOST_BARS else asked[np.argsort(-missing[asked], kind="stable")]
    lines = []
    for state in order[:MOST_BARS].tolist():
        share = _share(wanted[state], missing[state])
        colour = "full" if share >= 1 else "missing"
        lines.append(
            f"<span>{as_html(audit.names.state(state))}</span>"
            '<svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">'
            '<rect width="100" height="10" fill="var(--empty)"/>'
            f'<rect width="{100 * share:.4g}" height="10" fill="var(--{colour})"/></svg>'
            f"<span>{as_html(_said(visits[state], wanted[state], missing[state]))}</span>"
        )
    more = len(asked) - MOST_BARS
    tail = f"; {more:,} more states lack less or nothing" if more > 0 else ""
    return (
        f'<div class="bars">{"".join(lines)}</div><p class="faint">How much of what was asked of '
        f"each state is there{_key('full', 'all of it')}{_key('missing', 'a part')}{tail}</p>"
    )


def _share(wanted: float, missing: float) -> float:
    return 1.0 - missing / wanted if wanted else 0.0


def _said(visits: float, wanted: float, missing: float) -> str:
    if not wanted:
        return f"{number(visits)} visits, nothing asked"
    return f"{number(wanted - missing)} of {number(wanted)}"


def _short(value: float) -> str:
    """A number that fits into a square."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            unit = 1e3 if letter == "k" else size
            return f"{value / unit:.3g}{letter}"
    return f"{value:.0f}" if value else ""


def _key(colour: str, words: str) -> str:
    return f'<span class="key" style="background:var(--{colour})"></span>{words}'
