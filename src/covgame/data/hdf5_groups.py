"""Just enough HDF5 to write very many small groups quickly: ``episode_0``, ``episode_1``, ...

HDF5's own library takes a fifth of a millisecond for a group with a few arrays, which comes to
minutes for a long run of short episodes. All groups of a file look alike here, so that one is laid
out as a template of bytes, and a whole batch is made from that by filling in numbers.

Only what the format has had from its beginning is used: superblock 0, object headers 1, contiguous
arrays. The names of all groups stand in a symbol table (a B-tree), the members of a group in its
header. The HDF Group's "HDF5 File Format Specification" has every byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from covgame.types import IntArray

Values = npt.NDArray[Any]
Tree = Values | dict[str, Any]
"""Rows of all groups of a batch one after the other; a dictionary becomes a group of its own."""

NOWHERE = b"\xff" * 8
NAME = "episode_"
NAMES_PER_LEAF, CHILDREN = 64, 64
GROUPS_AT_ONCE = 20_000
LONGEST_NAME = 255

DATASPACE, LINK_INFO, DATATYPE, FILL, LINK, LAYOUT, GROUP_INFO, ATTRIBUTE, TABLE = (
    *(0x01, 0x02, 0x03, 0x05, 0x06, 0x08, 0x0A, 0x0C),
    0x11,
)
"""The kinds of messages in an object header."""


# ------------------------------------------------------------------------- bytes with open places


@dataclass(frozen=True)
class _Piece:
    """Bytes, and places of 8 bytes in them that are filled in for every group."""

    content: bytes
    places: tuple[tuple[int, str], ...] = ()

    @classmethod
    def joined(cls, parts: Iterable[_Piece]) -> _Piece:
        content, places = bytearray(), []
        for part in parts:
            places += [(len(content) + offset, key) for offset, key in part.places]
            content += part.content
        return cls(bytes(content), tuple(places))

    def padded(self) -> _Piece:
        return _Piece(self.content + bytes(-len(self.content) % 8), self.places)


def _place(key: str) -> _Piece:
    return _Piece(bytes(8), ((0, key),))


def _message(kind: int, *parts: _Piece) -> _Piece:
    body = _Piece.joined(parts).padded()
    return _Piece.joined([_Piece(struct.pack("<HHB3x", kind, len(body.content), 0)), body])


def _header(messages: list[_Piece]) -> _Piece:
    """An object header; how many links lead to it is counted later where that is not one."""
    body = _Piece.joined(messages)
    about = struct.pack("<BxHII4x", 1, len(messages), 1, len(body.content))
    return _Piece.joined([_Piece(about), body])


def _group(members: Mapping[str, str], attributes: Iterable[str] = ()) -> _Piece:
    """The header of a group; ``members`` says which address stands under which name."""
    most = max(8, len(members))
    messages = [
        _message(LINK_INFO, _Piece(b"\0\0" + NOWHERE + NOWHERE)),
        _message(GROUP_INFO, _Piece(struct.pack("<BBHH", 0, 1, most, min(6, most)))),
    ]
    for name, key in members.items():
        text = name.encode()
        is_plain = len(text) == len(name)
        about = struct.pack("<BBB", 1, 0, len(text))
        if not is_plain:  # bit 4: the character set is told
            about = struct.pack("<BBBB", 1, 1 << 4, 1, len(text))
        messages.append(_message(LINK, _Piece(about + text), _place(key)))
    messages += [_attribute(name) for name in attributes]
    return _header(messages)


def _attribute(name: str) -> _Piece:
    """A whole number under a name."""
    text = _Piece(name.encode() + b"\0").padded().content
    kind = _Piece(_datatype(np.dtype(np.int64))).padded().content
    about = struct.pack("<BxHHH", 1, len(name) + 1, 12, 8)
    scalar = struct.pack("<BBBx4x", 1, 0, 0)
    return _message(ATTRIBUTE, _Piece(about + text + kind + scalar), _place(f"attribute {name}"))


def _array(dtype: np.dtype[Any], inner: tuple[int, ...], path: str) -> _Piece:
    """The header of an array with rows of a shape; its data lie elsewhere in one piece."""
    dims = struct.pack(f"<{len(inner)}Q", *inner)
    rank = _Piece(struct.pack("<BBBx4x", 1, 1 + len(inner), 0))
    return _header(
        [
            _message(DATASPACE, rank, _place(f"rows {path}"), _Piece(dims)),
            _message(DATATYPE, _Piece(_datatype(dtype))),
            _message(FILL, _Piece(struct.pack("<BBBB", 2, 2, 2, 0))),
            _message(LAYOUT, _Piece(b"\x03\x01"), _place(f"data {path}"), _place(f"bytes {path}")),
        ]
    )


def _datatype(dtype: np.dtype[Any]) -> bytes:
    size = dtype.itemsize
    if dtype.kind in "iu":
        signed = 8 if dtype.kind == "i" else 0
        return struct.pack("<BBBBIHH", 0x10, signed, 0, 0, size, 0, 8 * size)
    if dtype.kind == "f":
        exponent = {2: 5, 4: 8, 8: 11}[size]
        mantissa, bias = 8 * size - 1 - exponent, (1 << (exponent - 1)) - 1
        places = struct.pack("<HHBBBBI", 0, 8 * size, mantissa, exponent, 0, mantissa, bias)
        return struct.pack("<BBBBI", 0x11, 0x20, 8 * size - 1, 0, size) + places
    if dtype.kind == "b":  # as everybody writes truth values: an enumeration of one byte
        base = _datatype(np.dtype(np.int8))
        return struct.pack("<BHBI", 0x18, 2, 0, 1) + base + b"FALSE\0\0\0TRUE\0\0\0\0\0\1"
    if dtype.kind == "S":  # padded with zeros, UTF-8
        return struct.pack("<BBBBI", 0x13, 0x11, 0, 0, size)
    raise TypeError(f"no array of {dtype} can be written")


# ----------------------------------------------------------------------------------- the template


@dataclass(frozen=True)
class _Template:
    """A group with all that is in it, as bytes, and what is to be filled in where."""

    content: npt.NDArray[np.uint8]
    places: tuple[tuple[int, str], ...]
    objects: Mapping[str, int]  # where headers begin
    leaves: Mapping[str, Values]

    @classmethod
    def of(cls, tree: Mapping[str, Tree], links: Iterable[str], attributes: list[str]) -> _Template:
        leaves = dict(_leaves(tree, ""))
        members = {name: f"object /{name}" for name in tree} | {n: f"link {n}" for n in links}
        headers = {"": _group(members, attributes)} | dict(_headers(tree, ""))
        objects, begin = {}, 0
        for path, header in headers.items():
            objects[path] = begin
            begin += len(header.content)
        whole = _Piece.joined(headers.values())
        content = np.frombuffer(whole.content, dtype=np.uint8)
        return cls(content, whole.places, objects, leaves)


def _leaves(tree: Mapping[str, Tree], above: str) -> Iterator[tuple[str, Values]]:
    for name, part in tree.items():
        path = f"{above}/{name}"
        if isinstance(part, dict):
            yield from _leaves(part, path)
        else:
            yield path, part


def _headers(tree: Mapping[str, Tree], above: str) -> Iterator[tuple[str, _Piece]]:
    for name, part in tree.items():
        path = f"{above}/{name}"
        if isinstance(part, dict):
            yield path, _group({inner: f"object {path}/{inner}" for inner in part})
            yield from _headers(part, path)
        else:
            yield path, _array(part.dtype, part.shape[1:], path)


# ----------------------------------------------------------------------------------- the file


class GroupsFile:
    """An HDF5 file of groups ``episode_N``, written from its beginning to its end.

    In memory are a batch, and 8 bytes for every group; at the end 40 bytes for a moment.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.end = 0
        self.addresses: list[IntArray] = []
        self.linked: dict[int, int] = {}  # how many links lead to an object that groups share
        self._write(bytes(96))  # the superblock comes last: until then it is no HDF5 file

    def add(
        self,
        tree: Mapping[str, Tree],
        rows: Mapping[str, IntArray],
        links: Mapping[str, IntArray],
        attributes: Mapping[str, IntArray],
    ) -> None:
        """Add groups.

        Args:
            tree: Arrays with the rows of all new groups, one group after the other.
            rows: How many rows a group has, for every name of ``tree``.
            links: Addresses of shared objects that stand in the groups under these names.
            attributes: Whole numbers that groups have as attributes.
        """
        template = _Template.of(tree, links, list(attributes))
        values: dict[str, IntArray] = {f"link {name}": at for name, at in links.items()}
        values |= {f"attribute {name}": numbers for name, numbers in attributes.items()}
        for path, leaf in template.leaves.items():
            counts = rows[path.split("/")[1]]
            size = leaf.dtype.itemsize * int(np.prod(leaf.shape[1:], dtype=np.int64))
            before = np.cumsum(counts) - counts
            values[f"rows {path}"], values[f"bytes {path}"] = counts, counts * size
            values[f"data {path}"] = self.end + before * size
            self._write(np.ascontiguousarray(leaf, dtype=leaf.dtype.newbyteorder("<")))
        for addresses in links.values():
            found, times = np.unique(addresses, return_counts=True)
            for address, number in zip(found.tolist(), times.tolist(), strict=True):
                self.linked[address] = self.linked.get(address, 0) + number
        groups = len(next(iter(rows.values())))
        for first in range(0, groups, GROUPS_AT_ONCE):
            part = slice(first, min(first + GROUPS_AT_ONCE, groups))
            self._fill(template, {key: numbers[part] for key, numbers in values.items()}, part)

    def _fill(self, template: _Template, values: dict[str, IntArray], part: slice) -> None:
        groups, size = part.stop - part.start, len(template.content)
        begins = self.end + size * np.arange(groups, dtype=np.int64)
        self.addresses.append(begins)
        values |= {f"object {path}": begins + at for path, at in template.objects.items()}
        content = np.empty((groups, size), dtype=np.uint8)
        content[:] = template.content
        for offset, key in template.places:
            numbers = np.ascontiguousarray(values[key], dtype="<i8")
            content[:, offset : offset + 8] = numbers.view(np.uint8).reshape(groups, 8)
        self._write(content)

    def shared_array(self, values: Values) -> int:
        """An array that many groups may have; returns its address."""
        at = self.end
        self._write(np.ascontiguousarray(values))
        header = _array(values.dtype, values.shape[1:], "")
        filled = {"rows ": len(values), "data ": at, "bytes ": values.nbytes}
        return self._single(header, filled)

    def shared_group(self) -> int:
        """An empty group that many groups may have; returns its address."""
        return self._single(_group({}), {})

    def _single(self, header: _Piece, values: Mapping[str, int]) -> int:
        content = bytearray(header.content)
        for offset, key in header.places:
            struct.pack_into("<q", content, offset, values[key])
        address = self.end
        self._write(content)
        return address

    def _write(self, content: Any) -> None:
        """Append, so that what comes next begins at a multiple of 8."""
        written = memoryview(content).nbytes
        self.file.write(content)
        self.file.write(bytes(-written % 8))
        self.end += written + -written % 8

    # ------------------------------------------------------------------------------- the end of it

    def close(self) -> None:
        """Write who is called what, and the first bytes, which make a file of it."""
        addresses = np.concatenate([np.zeros(0, dtype=np.int64), *self.addresses])
        self.addresses = []
        offset, size = _name_offsets(len(addresses))
        heap = self._heap(len(addresses), size)
        tree = self._tree(self._leaves(addresses, offset))
        root = self._single(_header([_message(TABLE, _place("tree"), _place("heap"))]), {
            "tree": tree, "heap": heap,
        })  # fmt: skip
        for address, number in self.linked.items():
            self.file.seek(address + 4)
            self.file.write(struct.pack("<I", number))
        self.file.seek(0)
        self.file.write(
            b"\x89HDF\r\n\x1a\n"
            + struct.pack("<BBBxBBBxHHI", 0, 0, 0, 0, 8, 8, NAMES_PER_LEAF // 2, CHILDREN // 2, 0)
            + struct.pack("<Q8sQ8s", 0, NOWHERE, self.end, NOWHERE)
            + struct.pack("<QQIxxxxQQ", 0, root, 1, tree, heap)
        )
        self.file.flush()

    def _heap(self, groups: int, size: int) -> int:
        """All names, each with zeros to a multiple of 8."""
        address = self.end
        self._write(b"HEAP" + struct.pack("<B3xQQQ", 0, size, 1, address + 32))
        self._write(bytes(8))  # the empty name
        for first in range(0, groups, GROUPS_AT_ONCE):
            numbers = np.arange(first, min(first + GROUPS_AT_ONCE, groups))
            for width in np.unique(_name_widths(numbers)):
                chosen = numbers[_name_widths(numbers) == width]
                names = np.char.add(NAME.encode(), chosen.astype("S"))
                self._write(names.astype(f"S{width}"))
        return address

    def _leaves(self, addresses: IntArray, offset: IntArray) -> list[tuple[int, int]]:
        """Leaves of the tree, names in the order of their letters: (address, last name)."""
        order = _as_text_orders(len(addresses))
        kind = np.dtype([("name", "<i8"), ("header", "<i8"), ("rest", "V24")])
        found = []
        for first in range(0, len(order), NAMES_PER_LEAF):
            inside = order[first : first + NAMES_PER_LEAF]
            entries = np.zeros(NAMES_PER_LEAF, dtype=kind)
            entries["name"][: len(inside)] = offset[inside]
            entries["header"][: len(inside)] = addresses[inside]
            found.append((self.end, int(offset[inside[-1]])))
            self._write(b"SNOD" + struct.pack("<BxH", 1, len(inside)) + entries.tobytes())
        return found

    def _tree(self, children: list[tuple[int, int]]) -> int:
        """The B-tree above the leaves, level by level; returns the address of its root."""
        level, size = 0, 24 + 8 * (2 * CHILDREN + 1)
        while True:
            nodes, before = [], 0
            number = max(1, -(-len(children) // CHILDREN))
            for node in range(number):
                inside = children[node * CHILDREN : (node + 1) * CHILDREN]
                left = struct.pack("<q", self.end - size if node else -1)
                right = struct.pack("<q", self.end + size if node + 1 < number else -1)
                keys = [before, *(part for at, last in inside for part in (at, last))]
                content = b"TREE" + struct.pack("<BBH", 0, level, len(inside)) + left + right
                content += struct.pack(f"<{len(keys)}q", *keys)
                before = keys[-1]
                nodes.append((self.end, before))
                self._write(content + bytes(size - len(content)))
            if number == 1:
                return nodes[0][0]
            children, level = nodes, level + 1


def _name_widths(numbers: IntArray) -> IntArray:
    """Bytes that names take: with the zero that ends them, to a multiple of 8."""
    digits = np.ones(len(numbers), dtype=np.int64)
    for power in range(1, 19):
        digits += numbers >= 10**power
    return (len(NAME) + digits + 1 + 7) // 8 * 8


def _name_offsets(groups: int) -> tuple[IntArray, int]:
    """Where the names begin in the heap, and how large that is."""
    widths = _name_widths(np.arange(groups))
    ends = 8 + np.cumsum(widths)
    return ends - widths, int(ends[-1]) if groups else 8


def _as_text_orders(groups: int) -> IntArray:
    """The numbers from 0 on in the order of their digits: 0, 1, 10, 100, 11, ..."""
    numbers = np.arange(groups)
    longest = len(str(max(groups - 1, 0)))
    digits = np.ones(groups, dtype=np.int64)
    for power in range(1, longest):
        digits += numbers >= 10**power
    return np.lexsort((digits, numbers * 10 ** (longest - digits)))
