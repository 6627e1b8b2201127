"""``python -m covgame`` searches the current folder first; a ``numpy.py`` there is not NumPy.

Imported before anything else of the package. Whoever asks for ``py:module:name`` has the current
folder searched last (``imports``).
"""

import os
import sys

LOCATING = "-m"
"""What Python calls the program while it still looks for the module to run."""

if sys.argv[:1] == [LOCATING] and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]
