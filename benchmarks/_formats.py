"""How measurements are written into the cells of tables."""

from __future__ import annotations

from typing import Any


def in_seconds(value: float) -> str:
    """Seconds, with as many digits as say something."""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def with_error(row: dict[str, Any], name: str) -> str:
    """A mean with its standard error."""
    return f"{row[name]:.2f} ± {row[f'{name}, error']:.2f}"


def mean_with_error(row: dict[str, Any]) -> str:
    """A mean with its standard error, if it has one."""
    return f"{row['mean']:.2f}" + (f" ± {row['error']:.2f}" if row["error"] else "")


def beside(row: dict[str, Any], solver: str, limit: float) -> str:
    """A solver's time as a multiple of covgame's, or at least so much if it was stopped."""
    if row[f"{solver} phi"] is None:
        return f"> {limit / row['covgame seconds']:.0f} x (stopped)"
    return f"{row[f'{solver} seconds'] / row['covgame seconds']:.1f} x"


def solved(measured: dict[str, Any] | None, limit: float) -> str:
    """Seconds, with a remark where the answer is no good."""
    if measured is None:
        return f"failed or > {limit:.0f} s"
    gap = measured["gap"]
    remark = (
        ""
        if gap is not None and gap <= 1e-5
        else " (wrong)"
        if gap is None or gap > 0.1
        else f" (gap {gap:.0e})"
    )
    return in_seconds(measured["seconds"]) + remark
