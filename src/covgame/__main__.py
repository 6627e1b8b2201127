"""``python -m covgame``."""

from covgame.cli.main import main

main()
