"""Matrix products in one thread."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy.linalg._umath_linalg as linked_with_blas

SPELLINGS = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep OpenBLAS, if NumPy uses it, to one thread.

    For matrices with a few hundred rows more threads gain little. On a busy machine they lose
    much: they wait for each other in loops, and a product takes ten times as long.
    """
    library: Any = ctypes.CDLL(linked_with_blas.__file__)
    for spelling in SPELLINGS:
        get = getattr(library, spelling.format("get_num_threads"), None)
        change = getattr(library, spelling.format("set_num_threads"), None)
        if get is not None and change is not None:
            threads = get()
            change(1)
            try:
                yield
            finally:
                change(threads)
            return
    yield
