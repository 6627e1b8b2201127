"""A killed process loses no episode that was over, and nobody writes to a run beside another."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import covgame as cg
from covgame import locks
from covgame.data.dataset import open_data
from covgame.errors import BadInput, CovgameWarning
from covgame.storage import journal as journals
from covgame.storage.episodes import recorded_episodes
from covgame.storage.folder import RunFolder
from covgame.storage.journal import Journal, read_journal, recover
from covgame.storage.lock import WriteLock
from tests.doors import Door
from tests.test_cli import covgame

LOGGING = '''
import os, random, time


class Logged:
    """Says itself how many of its episodes are over: in a file, at once."""

    actions, horizon = ("a", "b", "c"), 6

    def __init__(self):
        self.log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def reset(self, seed):
        self.rng, self.place = random.Random(seed), 0
        return "room 0"

    def step(self, action):
        time.sleep({seconds})
        self.place += 1
        over = self.place == 6 or (action == "c" and self.rng.random() < 0.3)
        if over:
            os.write(self.log, b".")
        return f"room {self.rng.randrange(9)}", 1.0, over
'''


def killed(folder: Path, command: list[str], seconds: float) -> None:
    """Run covgame, and kill it after a while."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-m", "covgame", *command],
        cwd=folder, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    log = folder / "log"
    while process.poll() is None and not (log.exists() and log.stat().st_size > 5):
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


@pytest.mark.parametrize("kept", [False, True], ids=["plain", "observations"])
@pytest.mark.parametrize("command", ["cover", "explore"])
def test_at_most_the_episode_being_played_is_lost(
    command: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logged.py").write_text(LOGGING.replace("{seconds}", "0.001"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    asked = {
        "cover": ["--target", "uniform:400/pair"],
        "explore": ["--epsilon", "0.1", "--most-states", "12"],
    }
    options = ["--keep-observations"] if kept else []
    killed(
        tmp_path,
        [command, "py:logged:Logged", *asked[command], *options, "--out", "run", "--quiet"],
        random.Random(command).uniform(0.2, 0.6),
    )
    over = (tmp_path / "log").stat().st_size
    assert over > 3
    run = cg.load(tmp_path / "run", trust=True)
    assert over - 1 <= run.n_episodes <= over
    assert run.notice is not None
    read = list(run.episodes())
    assert [one.number for one in read] == list(range(run.n_episodes))
    if kept:
        shown = [text for one in read for text in one.observations or []]
        assert {json.loads(text) for text in shown} <= {f"room {i}" for i in range(9)}


@pytest.mark.parametrize("name", ["gym:FrozenLake-v1", "Door"])
def test_killed_and_resumed_it_is_the_run_it_would_have_been(name: str, tmp_path: Path) -> None:
    """The journal of a run is put back as if it had been killed: after any number of episodes."""
    env: Any = Door if name == "Door" else cg.make(name, 8)
    whole = cg.cover(env, "uniform:20/pair", seed=4, out=tmp_path / "whole")
    for number in (1, 17, whole.n_episodes // 2, whole.n_episodes):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", path)
        as_killed(path, RunFolder.open(tmp_path / "whole"), number)
        with pytest.warns(UserWarning, match=r"journal|counted again"):
            again = cg.resume(path, env=env)
        assert again.n_episodes == whole.n_episodes
        assert (again.counts.visits == whole.counts.visits).all()
        assert cg.certify(path).episodes == whole.n_episodes
        assert not (path / "journal").exists()


def as_killed(path: Path, whole: RunFolder, number: int) -> None:
    """As if only the journal had the first so many episodes."""
    run = cg.load(whole.path, env=Door if "Door" in str(whole.manifest["environment"]) else None)
    keys, labels = whole.load_states() or ([], [])
    for file in ("counts.npz", "result.json", "states.json", "checksums.json"):
        (path / file).unlink(missing_ok=True)
    shutil.rmtree(path / "episodes")
    manifest = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**manifest, "state": "running"}))
    journal, known = Journal(path), 0
    for episode in list(run.episodes())[:number]:
        known = max(known, int(episode.state.max()) + 1, int(episode.next_state.max()) + 1)
        names = (keys[:known], (labels or [])[:known]) if keys else ([], [])
        journal.add(episode.number, episode.as_counted(run.source.shape.horizon), *names)
    os.close(journal.file)


def killed_after(tmp_path: Path, sealed: int, played: int | None = None) -> tuple[Path, Any]:
    """(a run that was killed, the same run played out): what is not sealed is in its journal."""
    whole = cg.cover(Door, "uniform:20/pair", seed=4, out=tmp_path / "whole")
    path = tmp_path / "run"
    if sealed == 0:
        shutil.copytree(tmp_path / "whole", path)
        as_killed(path, RunFolder.open(tmp_path / "whole"), whole.n_episodes)
        (path / "episodes").mkdir()
        return path, whole
    cg.cover(Door, "uniform:20/pair", seed=4, max_episodes=sealed, out=path)
    (path / "result.json").unlink()
    named = len((RunFolder.open(path).load_states() or ([], []))[0])
    keys, labels = RunFolder.open(tmp_path / "whole").load_states() or ([], [])
    journal = Journal(path)
    journal.named = named
    for episode in list(whole.episodes())[sealed:played]:
        named = max(named, int(episode.state.max()) + 1, int(episode.next_state.max()) + 1)
        journal.add(
            episode.number, episode.as_counted(Door.horizon), keys[:named], (labels or [])[:named]
        )
    os.close(journal.file)
    return path, whole


@pytest.mark.parametrize("sealed", [0, 1, 7])
def test_every_reader_sees_the_journal(sealed: int, tmp_path: Path) -> None:
    """Also while another process holds the lock; and reading leaves the folder as it was."""
    path, whole = killed_after(tmp_path, sealed)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with WriteLock(path):
        for data in (path, path / "episodes"):
            found = cg.audit(data, "uniform:20/pair")
            assert found.to_dict()["episodes"] == whole.n_episodes
            assert found.covered
        out = tmp_path / f"{sealed}.csv"
        assert cg.export(path, to="csv", out=out).episodes == whole.n_episodes
        assert cg.audit(out, "uniform:20/pair").covered
        assert cg.certify(path).episodes == whole.n_episodes
        run = cg.load(path)
        assert run.n_episodes == len(list(run.episodes())) == whole.n_episodes
        more = cg.cover(
            Door, "uniform:20/pair", start_from=path, max_episodes=1, out=tmp_path / "more"
        )
        assert more.given[0].episodes == whole.n_episodes
        assert cg.audit(tmp_path / "more/given/00", "uniform:20/pair").covered
        with pytest.raises(BadInput, match="named twice"):
            cg.audit([path, path / "episodes"], "uniform:20/pair")
    assert {file: file.read_bytes() for file in before} == before


def test_a_dataset_stays_the_same_while_its_run_goes_on(tmp_path: Path) -> None:
    """What was in the journal is in a shard when it is read again, and more episodes follow."""
    path, whole = killed_after(tmp_path, 5, 20)
    data = open_data(path)
    assert data.n_episodes == 20
    assert recover(RunFolder.open(path)).episodes == 15
    assert data.counts(data.shape, pooled=True).n_episodes == 20
    with pytest.warns(UserWarning, match="counted again"):
        assert cg.resume(path, env=Door, max_episodes=1000).n_episodes == whole.n_episodes > 20
    assert data.counts(data.shape, pooled=True).n_episodes == 20


def test_what_is_torn_does_not_count(tmp_path: Path) -> None:
    """Cut off anywhere, a journal gives the entries before; a flipped bit ends it there."""
    cg.cover(Door, "uniform:3/pair", out=tmp_path / "run")
    whole = RunFolder.open(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "killed")
    as_killed(tmp_path / "killed", whole, 5)
    path = tmp_path / "killed" / "journal"
    content = path.read_bytes()
    entries = list(read_journal(path))
    assert [one.number for one in entries] == [0, 1, 2, 3, 4]
    found = set()
    for size in range(len(content)):
        path.write_bytes(content[:size])
        found.add(len(list(read_journal(path))))
    assert found == {0, 1, 2, 3, 4}
    rng = np.random.default_rng(0)
    for place in rng.integers(len(journals.START), len(content), 60).tolist():
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert len(list(read_journal(path))) < 5
    path.write_bytes(content[: len(content) // 2])
    folder = RunFolder.open(tmp_path / "killed")
    recovered, dropped = recover(folder)
    assert 0 < recovered < 5
    assert dropped > 0
    assert recorded_episodes(folder.episodes) == recovered
    assert not path.exists()


def test_shards_take_the_journal_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, always_saved: None
) -> None:
    """What is in both counts once."""
    sizes = []
    real = Journal.begin_anew

    def noting(self: Journal, recorded: int, named: int) -> None:
        sizes.append(self.end)
        real(self, recorded, named)
        assert self.end == len(journals.START)

    monkeypatch.setattr(Journal, "begin_anew", noting)
    cg.cover(Door, "uniform:9/pair", out=tmp_path)
    assert len(sizes) > 2
    assert max(sizes) > len(journals.START)
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("play", ["exact", "lazy"])
def test_every_episode_is_noted_when_it_is_over(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[int] = []
    real = Journal.add

    def noting(self: Journal, number: int, *about: Any) -> None:
        noted.append(number)
        real(self, number, *about)

    monkeypatch.setattr(Journal, "add", noting)
    run = cg.cover("gym:FrozenLake-v1", "uniform:3/pair", horizon=8, play=play, out=tmp_path)
    assert noted == list(range(run.n_episodes))


def test_a_simulated_run_plays_again_what_is_damaged(tmp_path: Path) -> None:
    """Nobody looks at files that will be written anew."""
    whole = cg.cover("chain:states=4,horizon=6", "uniform:20/pair", out=tmp_path / "whole")
    cg.cover("chain:states=4,horizon=6", "uniform:20/pair", max_episodes=9, out=tmp_path / "run")
    (tmp_path / "run" / "episodes" / "part-000000.parquet").write_bytes(b"damaged")
    (tmp_path / "run" / "counts.npz").unlink()
    again = cg.resume(tmp_path / "run", max_episodes=10**6)
    assert (again.counts.visits == whole.counts.visits).all()


def test_a_run_that_cannot_be_written_to_can_be_read(tmp_path: Path) -> None:
    """A folder in the place of the lock: nobody can take it, and that is said in one sentence."""
    cg.cover(Door, "uniform:50/pair", max_episodes=3, out=tmp_path)
    (tmp_path / ".lock").unlink()
    (tmp_path / ".lock").mkdir()
    journal = Journal(tmp_path)
    os.close(journal.file)
    assert len(list(cg.load(tmp_path, env=Door).episodes())) == 3
    with pytest.raises(BadInput, match="cannot be written to"):
        cg.resume(tmp_path, env=Door, max_episodes=100)


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    cg.cover(Door, "uniform:50/pair", max_episodes=3, out=tmp_path)
    other = tmp_path.parent / "lock.py"
    other.write_text(
        "import sys, pathlib\n"
        "from covgame.storage.lock import WriteLock\n"
        "lock = WriteLock(pathlib.Path(sys.argv[1])); print('held', flush=True); input()\n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [sys.executable, str(other), str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(BadInput, match="another process is writing"):
        WriteLock(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    with pytest.raises(BadInput, match="another process is writing"):
        cg.resume(tmp_path, env=Door, max_episodes=100)
    assert len(list(cg.load(tmp_path, env=Door).episodes())) == 3  # reading goes on
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()} == before
    process.kill()
    process.communicate()
    assert cg.resume(tmp_path, env=Door, max_episodes=1000).covered
    with WriteLock(tmp_path), pytest.raises(BadInput, match="another process is writing"):
        WriteLock(tmp_path)


def test_a_journal_may_be_gone_when_its_writer_is_waited_for(tmp_path: Path) -> None:
    """Whoever wrote it was done between a look at the folder and the lock."""
    cg.cover(Door, "uniform:50/pair", max_episodes=3, out=tmp_path)
    assert not (tmp_path / "journal").exists()
    assert recover(RunFolder.open(tmp_path)) == (0, 0)


def test_a_lock_that_nobody_has_any_more_is_free(tmp_path: Path) -> None:
    """Broken off before it was released, also if only the garbage collector finds it."""

    class Recorder:
        def __init__(self) -> None:
            self.lock, self.myself = WriteLock(tmp_path), self

    Recorder()
    lock = WriteLock(tmp_path, patience=0.0)
    assert lock.file is not None
    lock.release()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning, however many locks are missing."""

    def refuse(*_: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(locks, "_warned", threading.Event())
    with pytest.warns(CovgameWarning, match="has no locks"):
        assert cg.cover("grid", "uniform:2/pair", out=tmp_path / "grid").covered
    assert cg.cover(Door, "uniform:2/pair", out=tmp_path / "door").covered  # no further warning


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_command_on_a_file_system_without_locks(
    options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import errno, fcntl\n"
        "def refuse(*_): raise OSError(errno.ENOLCK, 'No locks available')\n"
        "fcntl.flock = fcntl.lockf = refuse\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, sys.path)]))
    asked = ("cover", "grid", "--target", "uniform:2/pair", "--out", "run", "--json", *options)
    done = covgame(*asked, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["covered"]
    assert done.stderr.count("has no locks") == (0 if options else 1)
    assert "Warning" not in done.stderr  # a sentence of ours, and no place in a file
