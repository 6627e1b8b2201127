"""Where results go, and how a measurement gets a process of its own."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def write(name: str, rows: list[dict[str, Any]], **about: Any) -> Path:
    """Save measurements with the machine they were made on."""
    return write_to(RESULTS, name, {**about, "rows": rows})


def write_to(folder: Path, name: str, content: dict[str, Any]) -> Path:
    """The same in another folder."""
    machine = {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
    }
    path = folder / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"machine": machine, **content}, indent=1) + "\n")
    print(f"wrote {path}")
    return path


def read(name: str) -> dict[str, Any]:
    """Measurements as they were saved."""
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return content


def in_own_process(module: str, *arguments: str, seconds: float) -> dict[str, Any] | None:
    """Run ``python -m module arguments``, which prints one JSON object as its last line.

    None if it took longer than it may; not every solver keeps to the limit it is given.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        return None
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def peak_memory() -> float:
    """The largest resident size of this process so far, in MB.

    ``ru_maxrss`` begins with that of the process that started this one, and Linux knows better.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [one for one in status.read_text().splitlines() if one.startswith("VmHWM")]
        return float(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
