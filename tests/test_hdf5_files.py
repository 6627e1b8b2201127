"""An HDF5 file of others never makes covgame read another file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from covgame.data.dataset import Dataset, open_data
from covgame.errors import BadInput
from tests.test_cli import covgame
from tests.test_other_formats import minari_metadata

h5py = pytest.importorskip("h5py")

SEEN = np.array([0, 1, 2, 1, 0], dtype=np.int64)


def minari(folder: Path, parts: tuple[str, ...] = ()) -> tuple[Path, Path]:
    """(the dataset, its HDF5 file); observations may have parts, and parts of these."""
    minari_metadata(folder / "a-v0" / "data", "hdf5")
    path = folder / "a-v0" / "data" / "main_data.hdf5"
    with h5py.File(path, "w") as file:
        group = file.create_group("episode_0")
        for part in parts or ("",):
            group[f"observations/{part}".rstrip("/")] = SEEN
        group["actions"], group["rewards"] = np.zeros(4, dtype=np.int64), np.zeros(4)
        group["terminations"], group["truncations"] = np.arange(4) == 3, np.zeros(4, dtype=bool)
    return folder / "a-v0", path


def nested(folder: Path) -> tuple[Path, Path]:
    """With observations that have parts."""
    return minari(folder, ("door/lock", "door/key", "room"))


PLACES = [
    *((minari, f"episode_0/{name}") for name in ("observations", "actions", "rewards")),
    *((minari, f"episode_0/{name}") for name in ("terminations", "truncations")),
    (minari, "episode_0"),
    *((nested, f"episode_0/observations/{name}") for name in ("door", "door/lock", "room")),
]


def external_link(file: Any, name: str, _: Any, other: Path) -> None:
    file[name] = h5py.ExternalLink(str(other), name)


def soft_link_through_an_external_one(file: Any, name: str, _: Any, other: Path) -> None:
    file["elsewhere"] = h5py.ExternalLink(str(other), "/")
    file[name] = h5py.SoftLink(f"/elsewhere/{name}")


def external_storage(file: Any, name: str, values: Any, other: Path) -> None:
    other.with_suffix(".raw").write_bytes(values.tobytes())
    stored = [(str(other.with_suffix(".raw")), 0, values.nbytes)]
    file.create_dataset(name, values.shape or (1,), values.dtype, external=stored)


def virtual_dataset(file: Any, name: str, values: Any, other: Path) -> None:
    layout = h5py.VirtualLayout(values.shape or (1,), values.dtype)
    layout[:] = h5py.VirtualSource(str(other), name, values.shape or (1,))
    file.create_virtual_dataset(name, layout)


GROUPS = ("episode_0", "episode_0/observations/door")
CASES = [
    *((*place, external_link) for place in PLACES),
    *((*place, soft_link_through_an_external_one) for place in PLACES),
    *((*place, external_storage) for place in PLACES if place[1] not in GROUPS),
    *((*place, virtual_dataset) for place in PLACES if place[1] not in GROUPS),
]


@pytest.mark.parametrize(("layout", "name", "point"), CASES)
def test_what_lies_in_another_file_is_refused(
    layout: Callable[[Path], tuple[Path, Path]], name: str, point: Any, tmp_path: Path
) -> None:
    data, path = layout(tmp_path)
    assert contents(open_data(data))
    other = tmp_path / "other.h5"
    other.write_bytes(path.read_bytes())
    with h5py.File(path, "r+") as file:
        values = None if name in GROUPS else np.asarray(file[name][()])
        del file[name]
        point(file, name, values, other)
    with pytest.raises(BadInput, match="covgame reads no file that another one names"):
        open_data(data)


@pytest.mark.parametrize(("layout", "name"), PLACES)
def test_soft_links_are_followed_in_the_file(
    layout: Callable[[Path], tuple[Path, Path]], name: str, tmp_path: Path
) -> None:
    data, path = layout(tmp_path)
    before = contents(open_data(data))
    with h5py.File(path, "r+") as file:
        file.move(name, "kept/here")
        file["kept/again"] = h5py.SoftLink("./here")
        file[name] = h5py.SoftLink("/kept/again")
    assert contents(open_data(data)) == before


@pytest.mark.parametrize("target", ["/episode_0/observations", "/nowhere", "/episode_0/actions/a"])
def test_soft_links_that_lead_nowhere(target: str, tmp_path: Path) -> None:
    data, path = minari(tmp_path)
    with h5py.File(path, "r+") as file:
        del file["episode_0/observations"]
        file["episode_0/observations"] = h5py.SoftLink(target)
    with pytest.raises(BadInput, match=r"main_data\.hdf5"):
        open_data(data)


def test_links_of_a_kind_that_a_user_defines(tmp_path: Path) -> None:
    """The library makes none from Python, so the number of the kind is written over."""
    data, path = minari(tmp_path)
    with h5py.File(path, "r+") as file:
        del file["episode_0/observations"]
        file["episode_0/observations"] = h5py.ExternalLink("other.h5", "private")
    content = bytearray(path.read_bytes())
    place = content.index(b"\x40\x0cobservations")
    content[place] = 200
    path.write_bytes(content)
    with pytest.raises(BadInput, match="covgame reads no file that another one names"):
        open_data(data)


def test_the_command_exits_with_2(tmp_path: Path) -> None:
    data, path = minari(tmp_path)
    with h5py.File(path, "r+") as file:
        del file["episode_0/observations"]
        file["episode_0/observations"] = h5py.ExternalLink("other.h5", "private")
    done = covgame("audit", str(data), "--target", "uniform:2/pair", "--json")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "main_data.hdf5: 'observations' is a link to another file" in done.stderr


def contents(data: Dataset) -> list[Any]:
    """All columns of all steps."""
    return [{name: column.tolist() for name, column in vars(s).items()} for s in data.batches()]
