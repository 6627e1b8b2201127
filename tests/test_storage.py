"""The database of a run: a killed process loses no finished episode, and one process writes."""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import covgame as cg
from covgame.data.dataset import open_data
from covgame.errors import BadInput, CovgameWarning, StorageFailed
from covgame.runs.loop import to_the_end
from covgame.runs.resume import open_for_resume
from covgame.storage import database, files, folder
from covgame.storage.database import Writer
from covgame.storage.recorder import EpisodeRecorder
from tests.doors import Door
from tests.rundb import arrays_of, as_killed, content_of, query, recorded, result_of, sealed_on_disk
from tests.test_cli import covgame

LOGGING = '''
import os, random, time


class Logged:
    """Writes to a file at once when an episode is over."""

    actions, horizon = ("a", "b", "c"), 6

    def __init__(self):
        self.log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def reset(self, seed):
        self.rng, self.place = random.Random(seed), 0
        return "room 0"

    def step(self, action):
        time.sleep(0.001)
        self.place += 1
        over = self.place == 6 or (action == "c" and self.rng.random() < 0.3)
        if over:
            os.write(self.log, b".")
        return f"room {self.rng.randrange(9)}", 1.0, over
'''


def killed(place: Path, command: list[str], seconds: float) -> None:
    """Run covgame, and kill it after a while."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(place), *sys.path])}
    process = subprocess.Popen(
        [sys.executable, "-m", "covgame", *command],
        cwd=place, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    log = place / "log"
    while process.poll() is None and not (log.exists() and log.stat().st_size > 5):
        time.sleep(0.01)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


# --------------------------------------------------------------------------------- kills


@pytest.mark.parametrize("kept", [False, True], ids=["plain", "observations"])
@pytest.mark.parametrize("command", ["cover", "explore"])
def test_at_most_the_episode_being_played_is_lost(
    command: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "logged.py").write_text(LOGGING)
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
    read = list(run.episodes())
    assert [one.number for one in read] == list(range(run.n_episodes))
    if kept:
        shown = [text for one in read for text in one.observations or []]
        assert {json.loads(text) for text in shown} <= {f"room {i}" for i in range(9)}


@pytest.mark.parametrize("name", ["gym:FrozenLake-v1", "Door"])
def test_killed_and_resumed_it_is_the_run_it_would_have_been(name: str, tmp_path: Path) -> None:
    env: Any = Door if name == "Door" else cg.make(name, 8)
    whole = cg.cover(env, "uniform:20/pair", seed=4, out=tmp_path / "whole")
    for number in (1, 17, whole.n_episodes // 2, whole.n_episodes):
        path = tmp_path / str(number)
        shutil.copytree(tmp_path / "whole", path)
        as_killed(path, whole, number)
        assert recorded(path) == number
        cg.resume(path, env=env)
        assert content_of(path) == content_of(tmp_path / "whole")
        assert cg.certify(path).episodes == whole.n_episodes


@pytest.mark.parametrize("sealed", [0, 1, 7])
def test_every_reader_sees_unsealed_episodes(sealed: int, tmp_path: Path) -> None:
    """Also while another process writes; and reading leaves the folder as it was."""
    whole = cg.cover(Door, "uniform:20/pair", seed=4, out=tmp_path / "whole")
    path = tmp_path / "run"
    shutil.copytree(tmp_path / "whole", path)
    as_killed(path, whole, whole.n_episodes, sealed)
    writer = Writer(path / "run.db")
    before = query(path, "SELECT * FROM unsealed")
    for data in (path, path / "episodes"):
        found = cg.audit(data, "uniform:20/pair")
        assert found.to_dict()["episodes"] == whole.n_episodes
        assert found.covered
    out = tmp_path / "steps.csv"
    assert cg.export(path, to="csv", out=out).episodes == whole.n_episodes
    assert cg.audit(out, "uniform:20/pair").covered
    assert cg.certify(path).episodes == whole.n_episodes
    run = cg.load(path)
    assert run.n_episodes == len(list(run.episodes())) == whole.n_episodes
    assert run.report(tmp_path / "page.html").stat().st_size > 1000
    more = cg.cover(Door, "uniform:20/pair", start_from=path, max_episodes=1, out=tmp_path / "more")
    assert more.given[0].episodes == whole.n_episodes
    assert cg.audit(tmp_path / "more/given/00", "uniform:20/pair").covered
    with pytest.raises(BadInput, match="named twice"):
        cg.audit([path, path / "episodes"], "uniform:20/pair")
    assert query(path, "SELECT * FROM unsealed") == before
    writer.close()


def test_a_dataset_stays_the_same_while_its_run_continues(tmp_path: Path) -> None:
    """Unsealed episodes are sealed when they are read again, and more episodes follow."""
    whole = cg.cover(Door, "uniform:20/pair", seed=4, out=tmp_path / "whole")
    path = tmp_path / "run"
    shutil.copytree(tmp_path / "whole", path)
    as_killed(path, whole, 20, sealed=5)
    data = open_data(path)
    assert data.n_episodes == 20
    assert cg.resume(path, env=Door, max_episodes=1000).n_episodes == whole.n_episodes > 20
    assert data.counts(data.shape, pooled=True).n_episodes == 20


def test_a_kill_between_the_file_and_its_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file holds more episodes than the database says: those are in the database, too."""
    whole = cg.cover(Door, "uniform:20/pair", seed=4, out=tmp_path / "whole")
    path = tmp_path / "run"
    shutil.copytree(tmp_path / "whole", path)
    as_killed(path, whole, whole.n_episodes, sealed=3)
    assert sealed_on_disk(path) == whole.n_episodes
    assert [one.number for one in cg.load(path).episodes()] == list(range(whole.n_episodes))
    cg.resume(path, env=Door)
    assert content_of(path) == content_of(tmp_path / "whole")


@pytest.mark.parametrize("play", ["exact", "lazy"])
def test_every_episode_is_committed_when_it_ends(
    play: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[int] = []
    real = EpisodeRecorder.note

    def note(self: EpisodeRecorder, number: int, episode: Any) -> None:
        real(self, number, episode)
        noted.append(number)
        assert recorded(tmp_path) == number + 1  # as another process sees it

    monkeypatch.setattr(EpisodeRecorder, "note", note)
    run = cg.cover("gym:FrozenLake-v1", "uniform:3/pair", horizon=8, play=play, out=tmp_path)
    assert noted == list(range(run.n_episodes))


@pytest.mark.usefixtures("always_saved")
def test_full_shards_are_sealed_on_the_way(tmp_path: Path) -> None:
    """What is sealed is not kept twice, and the database stays small."""
    run = cg.cover(Door, "uniform:40/pair", out=tmp_path)
    assert len(list((tmp_path / "episodes").glob("*.parquet"))) > 3
    assert query(tmp_path, "SELECT count(*) FROM unsealed") == [(0,)]
    assert query(tmp_path, "PRAGMA freelist_count") == [(0,)]
    assert sealed_on_disk(tmp_path) == run.n_episodes
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episodes", "run.db"]


def test_a_damaged_simulated_run_is_simulated_again(tmp_path: Path) -> None:
    world = "chain:states=4,horizon=6"
    whole = cg.cover(world, "uniform:20/pair", out=tmp_path / "whole")
    cg.cover(world, "uniform:20/pair", max_episodes=9, out=tmp_path / "run")
    (tmp_path / "run" / "episodes" / "part-000000.parquet").write_bytes(b"damaged")
    query(tmp_path / "run", "UPDATE arrays SET checksum=0")
    with pytest.raises(BadInput, match=r"covgame resume .* simulates it again"):
        cg.load(tmp_path / "run")
    with pytest.warns(UserWarning, match="simulated again"):
        again = cg.resume(tmp_path / "run", max_episodes=10**6)
    assert (again.counts.visits == whole.counts.visits).all()
    assert content_of(tmp_path / "run") == content_of(tmp_path / "whole")


@pytest.mark.usefixtures("always_saved")
def test_shards_after_the_last_transaction_are_ignored(tmp_path: Path) -> None:
    """A kill while they are removed, before they are simulated again, leaves a gap."""
    cg.cover("chain:states=4,horizon=6", "uniform:20/pair", out=tmp_path)
    shards = sorted((tmp_path / "episodes").glob("*.parquet"))
    assert len(shards) > 3
    query(tmp_path, "UPDATE sealed SET episodes=10")  # as many as there are in a file
    query(tmp_path, "DELETE FROM arrays")
    query(tmp_path, "DELETE FROM result")
    shards[1].unlink()
    shards[2].write_bytes(b"removed while it is read")
    assert open_data(tmp_path).n_episodes == 10


@pytest.mark.usefixtures("always_saved")
def test_a_simulated_run_that_another_process_has_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its later files are removed only when the database no longer counts them."""
    world = "chain:states=4,horizon=6"
    whole = cg.cover(world, "uniform:20/pair", out=tmp_path / "whole")
    path = tmp_path / "run"
    cg.cover(world, "uniform:20/pair", max_episodes=9, out=path)
    opened = open_for_resume(path, {"max_episodes": 10**6})
    cg.resume(path, max_episodes=10**6)

    def refuse(operation: str, _: Path) -> None:
        if operation == "after unlink":
            raise OSError(errno.EIO, "disk error")

    with monkeypatch.context() as patched:
        patched.setattr(files, "fault", refuse)
        with pytest.raises(StorageFailed):
            to_the_end(opened)
    assert recorded(path) == len(list(cg.load(path).episodes())) == 9
    cg.resume(path, max_episodes=10**6)
    assert sealed_on_disk(path) == whole.n_episodes
    assert content_of(path) == content_of(tmp_path / "whole")


def test_a_changed_episode_is_noticed(tmp_path: Path) -> None:
    whole = cg.cover(Door, "uniform:20/pair", seed=4, out=tmp_path)
    as_killed(tmp_path, whole, 20)
    ((steps,),) = query(tmp_path, "SELECT steps FROM unsealed WHERE episode=3")
    query(tmp_path, "UPDATE unsealed SET steps=? WHERE episode=3", steps[:-1] + b"?")
    for read in (open_data, cg.load):
        with pytest.raises(BadInput, match="episode 3 has another checksum"):
            read(tmp_path)


def test_a_damaged_schema_and_missing_rows(tmp_path: Path) -> None:
    cg.cover(Door, "uniform:5/pair", out=tmp_path / "run")
    path = tmp_path / "run" / "run.db"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(json TEXT NOT NULL)", b"(json TEXT NOT NULL\xac", 1))
    with pytest.raises(BadInput, match="restore it from a copy"):
        cg.load(tmp_path / "run")
    for statement in ("DELETE FROM writer", "INSERT INTO sealed VALUES (3)"):
        path.write_bytes(content)
        query(tmp_path / "run", statement)
        with pytest.raises(BadInput, match=r"has [02] rows"):
            cg.resume(tmp_path / "run", env=Door)


class Stuck(Door):
    """Fails where it is pushed first."""

    def step(self, action: str) -> tuple[str, float, bool]:
        if action == "push" and self.state == "CLOSED":
            raise RuntimeError("stuck")
        return super().step(action)


def test_avoided_actions_are_counted_again_in_their_order(tmp_path: Path) -> None:
    for episodes in (1, 5):
        out = tmp_path / str(episodes)
        asked: dict[str, Any] = {"max_episodes": episodes, "on_failure": "avoid", "out": out}
        played = cg.cover(Stuck, "uniform:20/pair", **asked).arrays()
        query(out, "DELETE FROM arrays")
        query(out, "DELETE FROM result")
        again = cg.load(out, env=Stuck).arrays()
        assert {name: array.tolist() for name, array in played.items()} == {
            name: array.tolist() for name, array in again.items()
        }


class OddText(Door):
    """Shows text that UTF-8 cannot encode, and rewards whose sum is infinite."""

    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return f"{observation} \udcff", 1.7e308, *rest


def test_text_that_utf8_cannot_encode(tmp_path: Path) -> None:
    cg.cover(OddText, "uniform:3/pair", max_episodes=4, out=tmp_path)
    resumed = cg.resume(tmp_path, env=OddText, max_episodes=10**4)
    assert resumed.covered
    assert any("\\udcff" in label for label in resumed.names.states or ())
    answer = covgame("policy", str(tmp_path), "--json")
    assert (answer.returncode, answer.stdout) == (2, "")


# ------------------------------------------------------------------------------- writers


def test_two_processes_begin_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one may have found the folder free before the first one had its database."""
    path = tmp_path / "run"

    def begin_first(operation: str, _: Path) -> None:
        if operation == "after mkdir":
            monkeypatch.setattr(files, "fault", None)
            cg.cover(Door, "uniform:5/pair", out=path)

    monkeypatch.setattr(files, "fault", begin_first)
    with pytest.raises(BadInput, match="holds a run already"):
        cg.cover(Door, "uniform:3/pair", out=path)
    assert len(list(cg.load(path).episodes())) > 3
    assert sorted(file.name for file in path.iterdir()) == ["episodes", "run.db"]


HOLD = """
import sys, pathlib
from covgame.storage.database import Writer
writer = Writer(pathlib.Path(sys.argv[1]))
print("held", flush=True)
input()
"""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_one_writer_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cg.cover(Door, "uniform:50/pair", max_episodes=3, out=tmp_path)
    monkeypatch.setattr(database, "SECONDS_TO_TAKE_OVER", 0.2)
    with held_by_another_process(tmp_path / "run.db"):
        with pytest.raises(BadInput, match="another process is writing"):
            cg.resume(tmp_path, env=Door, max_episodes=100)
        assert len(list(cg.load(tmp_path, env=Door).episodes())) == 3  # reading continues
        assert recorded(tmp_path) == 3
    assert cg.resume(tmp_path, env=Door, max_episodes=1000).covered
    writer = Writer(tmp_path / "run.db")
    with pytest.raises(BadInput, match="another process is writing"):
        Writer(tmp_path / "run.db")
    writer.close()
    Writer(tmp_path / "run.db").close()


def test_a_writer_is_not_taken_over_while_it_moves_its_log(tmp_path: Path) -> None:
    """Durable transactions may take longer than a second process needs to see that it is gone."""
    cg.cover(Door, "uniform:5/pair", max_episodes=3, out=tmp_path)
    first = Writer(tmp_path / "run.db")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = [sys.executable, "-c", HOLD, str(tmp_path / "run.db")]
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env=environ, text=True,
    ) as second:  # fmt: skip
        while second.poll() is None:
            first.execute("UPDATE sealed SET episodes=episodes+1")
            first.commit(durable=True)
        out, err = second.communicate()
    assert out == ""
    assert "another process is writing" in err
    first.close()


def test_a_writer_that_lost_its_run_stops(tmp_path: Path) -> None:
    """Another process got in between two transactions: nothing is written by both."""
    cg.cover(Door, "uniform:50/pair", max_episodes=3, out=tmp_path)
    first = Writer(tmp_path / "run.db")
    assert first._connection is not None
    first._connection.execute("ROLLBACK")  # as in the moment between two transactions
    second = Writer(tmp_path / "run.db")
    second.close()
    first.execute("SELECT 1")
    with pytest.raises(StorageFailed, match="another process has taken over"):
        first.commit()
    first.close()
    Writer(tmp_path / "run.db").close()


def test_a_writer_is_not_given_back_a_run_that_changed(tmp_path: Path) -> None:
    """Another process wrote between a commit and the next transaction, and is done."""
    cg.cover(Door, "uniform:50/pair", max_episodes=3, out=tmp_path)
    writer = Writer(tmp_path / "run.db")
    run = writer._run

    def run_and_let_others_write(statement: str, *values: Any) -> Any:
        result = run(statement, *values)
        if statement == "COMMIT":
            with closing(sqlite3.connect(tmp_path / "run.db")) as other, other:
                other.execute("UPDATE writer SET token=1")
        return result

    writer.commit()
    writer._run = run_and_let_others_write
    with pytest.raises(StorageFailed, match="another process has taken over"):
        writer.commit()
    writer.close()


def test_a_writer_without_a_reference_releases_its_run(tmp_path: Path) -> None:
    cg.cover(Door, "uniform:50/pair", max_episodes=3, out=tmp_path)
    Writer(tmp_path / "run.db").execute("DELETE FROM states")
    Writer(tmp_path / "run.db").close()
    assert query(tmp_path, "SELECT count(*) FROM states") != [(0,)]  # it was not committed


def test_a_transaction_is_whole_or_nothing(tmp_path: Path) -> None:
    cg.cover(Door, "uniform:2/pair", out=tmp_path)
    before = content_of(tmp_path)
    writer = Writer(tmp_path / "run.db")
    writer.execute("DELETE FROM arrays")
    writer.execute("DELETE FROM result")
    writer.close()
    assert content_of(tmp_path) == before


def test_large_arrays_are_stored_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "BYTES_PER_ROW", 100)
    whole = cg.cover("chain:states=4,horizon=6", "uniform:5/pair", out=tmp_path)
    ((rows,),) = query(tmp_path, "SELECT count(*) FROM arrays WHERE name='visits'")
    assert rows == -(-whole.counts.visits.nbytes // 100) > 1
    assert (arrays_of(tmp_path)["visits"] == whole.counts.visits).all()
    assert (cg.load(tmp_path).counts.visits == whole.counts.visits).all()


# -------------------------------------------------------------------------- file systems


def test_a_killed_run_can_be_read_where_it_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite refuses to open a log there; a copy has all committed transactions."""
    whole = cg.cover(Door, "uniform:20/pair", seed=4, out=tmp_path / "whole")
    as_killed(tmp_path / "whole", whole, 20)
    writer = Writer(tmp_path / "whole" / "run.db")
    writer.execute("DELETE FROM unsealed WHERE episode=19")
    writer.commit()
    shutil.copytree(tmp_path / "whole", tmp_path / "copy")  # with the log of a killed process
    writer.close()
    (tmp_path / "copy" / "run.db-shm").unlink()
    connect = database._connect

    def refuse(path: Path, mode: str, vfs: str = "") -> sqlite3.Connection:
        if path.is_relative_to(tmp_path):
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error
        return connect(path, mode, vfs)

    monkeypatch.setattr(database, "_connect", refuse)
    assert len(list(cg.load(tmp_path / "copy").episodes())) == 19
    with pytest.raises(BadInput, match="make its folder writable, or make a copy"):
        cg.resume(tmp_path / "copy", env=Door)


def test_network_file_systems_get_a_rollback_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's write-ahead log needs shared memory, which they do not have."""
    modes = []
    for on_network in (False, True):
        monkeypatch.setattr(database, "is_on_network", lambda _, answer=on_network: answer)
        real = EpisodeRecorder.note

        def note(self: EpisodeRecorder, number: int, episode: Any, real: Any = real) -> None:
            modes.extend(query(self.folder.path, "PRAGMA journal_mode"))
            real(self, number, episode)

        with monkeypatch.context() as patched:
            patched.setattr(EpisodeRecorder, "note", note)
            cg.cover(Door, "uniform:2/pair", out=tmp_path / str(on_network))
    assert set(modes) == {("wal",), ("delete",)}
    assert content_of(tmp_path / "False") == content_of(tmp_path / "True")


@pytest.mark.skipif(sys.platform != "linux", reason="the system lists its file systems elsewhere")
def test_network_file_systems_are_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = (
        f"disk / ext4 rw 0 0\nserver:/home {tmp_path} nfs4 rw 0 0\ntmp {tmp_path}/a tmpfs rw 0 0\n"
    )
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: mounts)
    (tmp_path / "a").mkdir()
    assert database.is_on_network(tmp_path / "run" / "run.db")
    assert not database.is_on_network(tmp_path / "a" / "run.db")
    assert not database.is_on_network(Path("/run.db"))


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One warning, however many locks are missing; the run is recorded all the same."""
    connect = sqlite3.connect

    class Lockless(sqlite3.Connection):
        """Refuses what needs a lock, unless SQLite was told to do without."""

        def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
            if statement.startswith(("SELECT", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE")):
                error = sqlite3.OperationalError("disk I/O error")
                error.sqlite_errorcode = sqlite3.SQLITE_IOERR
                raise error
            return super().execute(statement, *values)

    def connect_without_locks(address: Any, *values: Any, **options: Any) -> sqlite3.Connection:
        kind = sqlite3.Connection if "unix-none" in str(address) else Lockless
        return connect(address, *values, factory=kind, **options)

    monkeypatch.setattr(sqlite3, "connect", connect_without_locks)
    monkeypatch.setattr(database, "_warned", threading.Event())
    with pytest.warns(CovgameWarning, match="has no locks"):
        assert cg.cover("grid", "uniform:2/pair", out=tmp_path / "grid").covered
    assert cg.cover(Door, "uniform:2/pair", out=tmp_path / "door").covered  # no further warning
    monkeypatch.undo()
    assert result_of(tmp_path / "door")["covered"]
    assert cg.certify(tmp_path / "door").claim == "coverage"


def test_the_command_says_what_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    for name in ("nothing", "absent"):
        done = covgame("resume", name, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"'{name}' is not a covgame run" in done.stderr
    (tmp_path / "nothing" / "run.db").write_bytes(b"no database at all, but long enough" * 100)
    done = covgame("resume", "nothing", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "run.db cannot be read (file is not a database)" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all names are UTF-8")
@pytest.mark.filterwarnings("ignore:.*surrogates not allowed")
def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    path, table = tmp_path / os.fsdecode(b"r\xff"), tmp_path / os.fsdecode(b"t\xff.csv")
    whole = cg.cover(Door, "uniform:5/pair", out=path)
    assert cg.certify(path).episodes == whole.n_episodes
    assert cg.export(path, to="csv", out=str(table)).episodes == whole.n_episodes
    for data in (path, path / "episodes", table):
        assert open_data(data).n_episodes == whole.n_episodes
