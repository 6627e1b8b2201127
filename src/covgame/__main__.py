"""``python -m covgame``."""

from covgame.cli.main import run

run()
