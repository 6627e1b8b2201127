"""The files that covgame writes are HDF5 to HDF5's own library, which may also write on in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covgame.data import hdf5_groups
from covgame.data.hdf5_groups import GroupsFile

h5py = pytest.importorskip("h5py")

KINDS = ["i1", "u1", "i2", "u4", "i8", "u8", "f2", "f4", "f8", "?", "S5"]


def some(kind: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    numbers = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    if kind == "S5":
        return np.char.mod("%d", numbers % 1000).astype("S5")
    return (numbers % 2 if kind == "?" else numbers % 120).astype(kind)


def written(path: Path, lengths: list[list[int]], kind: str = "i8", inner: Any = ()) -> list[Any]:
    """A file of batches of groups, and what is expected in each group."""
    expected, number = [], 0
    with path.open("wb") as opened:
        file = GroupsFile(opened)
        shared, empty = file.shared_array(np.array([False, True])), file.shared_group()
        for batch in lengths:
            rows = np.array(batch)
            values = some(kind, (int(rows.sum()), *inner))
            more = some("f8", (int((rows + 1).sum()), 2))
            file.add(
                {"values": values, "parts": {"more": more, "größe": {"deep": more[:, 0]}}},
                {"values": rows, "parts": rows + 1},
                {"shared": np.full(len(rows), shared), "empty": np.full(len(rows), empty)},
                {"id": number + np.arange(len(rows)), "rows": rows},
            )
            ends = np.cumsum(rows)
            for end, count, before in zip(ends, rows, np.arange(len(rows)), strict=True):
                begin = end - count + before
                expected.append((values[end - count : end], more[begin : begin + count + 1]))
            number += len(rows)
        file.close()
    return expected


def check(path: Path, expected: list[Any]) -> None:
    with h5py.File(path) as file:
        assert sorted(file) == sorted(f"episode_{i}" for i in range(len(expected)))
        for number, (values, more) in enumerate(expected):
            group = file[f"episode_{number}"]
            assert sorted(group) == ["empty", "parts", "shared", "values"]
            assert dict(group.attrs) == {"id": number, "rows": len(values)}
            assert group["values"].dtype == values.dtype
            np.testing.assert_array_equal(group["values"][()], values)
            np.testing.assert_array_equal(group["parts/more"][()], more)
            np.testing.assert_array_equal(group["parts/größe/deep"][()], more[:, 0])
            assert group["shared"][()].tolist() == [False, True]
            assert len(group["empty"]) == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("inner", [(), (3,), (2, 1, 4)])
def test_every_kind_of_number_is_read_back(tmp_path: Path, kind: str, inner: Any) -> None:
    check(tmp_path / "file", written(tmp_path / "file", [[2, 1, 5], [3]], kind, inner))


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=90), min_size=1, max_size=3))
def test_groups_of_any_number_and_length(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[list[int]]
) -> None:
    path = tmp_path_factory.mktemp("groups") / "file"
    check(path, written(path, lengths))


@pytest.mark.parametrize("groups", [1, 63, 64, 65, 64 * 64, 64 * 64 + 1])
def test_the_tree_of_names_at_its_edges(tmp_path: Path, groups: int) -> None:
    expected = written(tmp_path / "file", [[1] * groups])
    with h5py.File(tmp_path / "file") as file:
        assert len(file) == groups
        for number in {0, groups // 2, groups - 1}:
            np.testing.assert_array_equal(file[f"episode_{number}/values"], expected[number][0])
        assert f"episode_{groups}" not in file


def test_deeper_trees_and_smaller_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("NAMES_PER_LEAF", 4), ("CHILDREN", 2), ("GROUPS_AT_ONCE", 7)):
        monkeypatch.setattr(hdf5_groups, name, value)
    check(tmp_path / "file", written(tmp_path / "file", [[1] * 50, [2, 3] * 30]))


def test_the_library_writes_on(tmp_path: Path) -> None:
    """Groups, members and attributes are added and removed, by whom this file was not written."""
    expected = written(tmp_path / "file", [[1] * 300])
    with h5py.File(tmp_path / "file", "a", track_order=True) as file:
        for number in range(300, 700):
            file.create_group(f"episode_{number}").attrs["id"] = number
        for number in range(12):  # more than fit into a header
            file["episode_5"][f"more_{number}"] = [number]
        file["episode_6"].attrs["said"] = "something longer than was there before"
        file["episode_8/values"][0] = 77
        del file["episode_7"]
    with h5py.File(tmp_path / "file") as file:
        assert len(file) == 699
        assert file["episode_5/more_11"][0] == 11
        assert file["episode_6"].attrs["said"].startswith("something")
        assert file["episode_8/values"][0] == 77
        assert file["episode_699"].attrs["id"] == 699
        np.testing.assert_array_equal(file["episode_299/values"], expected[299][0])
        assert file["episode_9/shared"][()].tolist() == [False, True]  # 299 still have it


def test_names_are_in_the_order_of_their_letters() -> None:
    for groups in (1, 9, 10, 11, 101, 2345):
        order = hdf5_groups._as_text_orders(groups).tolist()
        assert order == sorted(range(groups), key=str)


def test_long_numbers_take_longer_names() -> None:
    numbers = np.array([0, 9, 10, 9_999_999, 10_000_000, 10**15 - 1, 10**15])
    expected = [(len(f"episode_{n}") + 1 + 7) // 8 * 8 for n in numbers.tolist()]
    assert hdf5_groups._name_widths(numbers).tolist() == expected


def test_a_file_that_is_not_closed_is_none(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb") as opened:
        GroupsFile(opened).shared_group()
    with pytest.raises(OSError, match="signature"):
        h5py.File(tmp_path / "file")
