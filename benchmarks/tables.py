"""Write the measured tables into README and docs, between their markers.

    python3 dev.py bench tables [--check]

A table stands between ``<!-- table: NAME -->`` and ``<!-- end -->`` and is made from
benchmarks/results/ and torture/results.json. With --check nothing is written; the exit code tells
whether all are true.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from torture.tables import TABLES as TORTURE_TABLES

from benchmarks import (
    _covering_tables,
    _data_tables,
    _learning_tables,
    _results,
    _size_tables,
    _testing_tables,
    _worker_tables,
)
from benchmarks.comparison.markdown import renewed
from benchmarks.comparison.results import read_results
from benchmarks.comparison.summaries import TABLES as PEER_TABLES
from benchmarks.comparison.summaries import TUNING_TABLES, all_tables

ROOT = Path(__file__).parent.parent


def main(check: bool) -> int:
    """Rewrite every page that has tables; with ``check`` only compare."""
    stale = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text()
        made = renewed(text, lambda name: TABLES[name]())
        if made != text:
            stale.append(page)
            if not check:
                page.write_text(made)
                print(f"wrote {page}")
    if check and stale:
        print("stale tables:", *stale)
    return 1 if check and stale else 0


@cache
def _peers(name: str) -> dict[str, str]:
    """The tables that ``bench peers report`` makes of a file of results."""
    return all_tables(read_results(_results.RESULTS / f"{name}.parquet"))


TABLES: dict[str, Callable[[], str]] = {
    **{name: partial(lambda name: _peers("peers")[name], name) for name in PEER_TABLES},
    **{name: partial(lambda name: _peers("tuning")[name], name) for name in TUNING_TABLES},
    **_covering_tables.TABLES,
    **_learning_tables.TABLES,
    **_data_tables.TABLES,
    **_worker_tables.TABLES,
    **_size_tables.TABLES,
    **_testing_tables.TABLES,
    **TORTURE_TABLES,
}


if __name__ == "__main__":
    sys.exit(main(check="--check" in sys.argv[1:]))
