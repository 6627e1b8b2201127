"""Named arrays in a file, as runs save them: no more is allocated than the file itself holds."""

from __future__ import annotations

import io
import math
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np
import numpy.typing as npt

ENDING = ".npy"
DAMAGED = (
    OSError, ValueError, EOFError, TypeError, AttributeError, LookupError, NotImplementedError,
    RuntimeError, MemoryError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What reading such a file raises where it is not what it should be."""

HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a file by their names; raises one of ``DAMAGED`` if anything is odd.

    Runs do not compress what they save. So a file that holds more than its size, or says so, was
    made to fill the memory.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = archive.infolist()
        if sum(one.file_size for one in members) > len(content):
            raise ValueError("it claims to hold more than its size")
        return {one.filename.removesuffix(ENDING): _read(archive, one) for one in members}


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(member) as file:
        if _bytes_of(file) != member.file_size - file.tell():
            raise ValueError(f"{member.filename} claims to be larger or smaller than it is")
    with archive.open(member) as file:
        array: npt.NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
        return array


def _bytes_of(file: IO[bytes]) -> int:
    """What an array takes, as its header says."""
    version = np.lib.format.read_magic(file)
    if version not in HEADERS:
        raise ValueError("an array is in a version of the format that no run writes")
    shape, _, kind = HEADERS[version](file)
    return math.prod(shape) * kind.itemsize
