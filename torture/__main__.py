"""Attack covgame, and print what survived.

Kills, faults at every call that writes, signals, two writers, fuzzed inputs, damaged folders,
hostile environments, full disks, hours of play. Linux only: processes are forked, watched and
struck by its own means. What fails keeps its folder and prints the command that repeats it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from torture.cases import Attack, Tally, carry_out
from torture.damage import DAMAGE
from torture.disk import DISK
from torture.exports import EXPORTS
from torture.faults import FAULTS
from torture.fuzz import FUZZ
from torture.hostile import HOSTILE
from torture.kills import KILLS, SHORT
from torture.power import POWER
from torture.processes import PROCESSES, SURROUNDINGS
from torture.scenarios import SCENARIOS, Workshop, warm_up
from torture.signals import SIGNALS
from torture.soak import SOAK
from torture.tables import as_text, read_results, write_results
from torture.writers import WRITERS

ATTACKS: tuple[Attack, ...] = (
    KILLS, FAULTS, POWER, PROCESSES, SIGNALS, WRITERS, DISK, HOSTILE, DAMAGE, FUZZ, EXPORTS,
    SURROUNDINGS, SOAK,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out what is asked for; the exit code says whether all survived."""
    asked = _parser().parse_args(arguments)
    folder = asked.work or Path(tempfile.mkdtemp(prefix="torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # some attacks are carried out by nobody
    workshop = Workshop(folder.resolve(), asked.short, asked.soak)
    names = [one.name for one in ATTACKS] if asked.only is None else asked.only.split(",")
    _get_ready(workshop)
    attacks = [one for one in ATTACKS if one.name in names and (one.in_short or not asked.short)]
    tallies = [_attacked(one, workshop, asked) for one in attacks]
    tallies = [one for one in tallies if one.tried]
    print(as_text(tallies))
    failed = sum(len(one.failures) for one in tallies)
    if not failed and asked.work is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


def _get_ready(workshop: Workshop) -> None:
    began = time.monotonic()
    workshop.make_files()
    warm_up(workshop, [SCENARIOS[name] for name in (SHORT if workshop.short else SCENARIOS)])
    print(f"ready after {time.monotonic() - began:.0f} s, in {workshop.folder}", flush=True)


def _attacked(attack: Attack, workshop: Workshop, asked: argparse.Namespace) -> Tally:
    attack.prepare(workshop)
    size = attack.size(workshop)
    before = read_results(asked.out).get(attack.name, {}) if asked.again else {}
    numbers = [failed["case"] for failed in before.get("failures", [])]
    if not asked.again:
        numbers = list(range(0, size, asked.every)[: asked.most])
    if asked.case is not None:
        numbers = [asked.case]
    if not numbers:
        return Tally(attack.name, attack.about)
    print(f"{attack.name}: {len(numbers):,} cases", flush=True)
    tally = carry_out(attack, workshop, asked.seed, numbers, asked.jobs)
    if before:
        tally.correct(before)
    if asked.out is not None:
        write_results(asked.out, [tally])
    print(f"  {tally.survived:,} of {tally.tried:,} survived, {tally.seconds:.0f} s", flush=True)
    return tally


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="dev.py torture", description=__doc__)
    names = ", ".join(one.name for one in ATTACKS)
    parser.add_argument("--short", action="store_true", help="few cases of each, as in the tests")
    parser.add_argument("--only", help=f"some attacks: {names}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="one case, by its number")
    parser.add_argument("--most", type=int, help="so many cases of each attack")
    parser.add_argument("--every", type=int, default=1, help="every so many cases only")
    parser.add_argument(
        "--again", action="store_true", help="what failed, by the table of --out, and correct it"
    )
    parser.add_argument("--soak", type=float, default=0.0, help="seconds of endless runs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    parser.add_argument("--work", type=Path, help="where to play; kept")
    return parser


if __name__ == "__main__":
    sys.exit(main())
