"""Attack covgame, and print what survived.

Linux only. A case that fails keeps its folder and prints the command that repeats it.
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

from torture.cases import Tally, carry_out
from torture.damage import DAMAGE
from torture.disk import DISK
from torture.faults import FAULTS
from torture.fuzz import FUZZ
from torture.hostile import HOSTILE
from torture.interruptions import KILLS, POWER, SIGNALS
from torture.scenarios import Workspace
from torture.tables import as_text, write_results
from torture.writers import WRITERS

ATTACKS = (KILLS, FAULTS, POWER, SIGNALS, WRITERS, DISK, HOSTILE, DAMAGE, FUZZ)


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry out the attacks; 1 if anything has failed."""
    parser = argparse.ArgumentParser(prog="dev.py torture", description=__doc__)
    names = [one.name for one in ATTACKS]
    parser.add_argument("--short", action="store_true", help="few cases of each, as in the tests")
    parser.add_argument("--only", default=",".join(names), help=f"attacks: {', '.join(names)}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="one case, by its number")
    parser.add_argument("--most", type=int, help="at most so many cases of each attack")
    parser.add_argument("--every", type=int, default=1, help="only every so many cases")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, help="write the table as JSON")
    parser.add_argument("--work", type=Path, help="the folder to play in; kept")
    asked = parser.parse_args(arguments)
    wanted = asked.only.split(",")
    if unknown := set(wanted) - set(names):
        parser.error(f"unknown attacks: {', '.join(sorted(unknown))}")

    folder = asked.work or Path(tempfile.mkdtemp(prefix="torture-"))
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # some commands run as another user
    workspace, began = Workspace(folder.resolve(), asked.short), time.monotonic()
    workspace.make_files()
    workspace.warm_up()
    print(f"ready after {time.monotonic() - began:.0f} s, in {folder}", flush=True)

    tallies: list[Tally] = []
    for attack in ATTACKS:
        if attack.name not in wanted:
            continue
        attack.prepare(workspace)
        numbers = list(range(0, attack.size(workspace), asked.every)[: asked.most])
        numbers = [asked.case] if asked.case is not None else numbers
        print(f"{attack.name}: {len(numbers):,} cases", flush=True)
        tally = carry_out(attack, workspace, asked.seed, numbers, asked.jobs)
        print(
            f"  {tally.survived:,} of {tally.tried:,} survived, {tally.seconds:.0f} s", flush=True
        )
        if asked.out is not None:
            write_results(asked.out, tally)
        tallies.append(tally)
    print(as_text(tallies))
    failed = any(one.failures for one in tallies)
    if not failed and asked.work is None:
        shutil.rmtree(folder, ignore_errors=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
