"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from covgame.players.compiled import CompiledGame

settings.register_profile(
    "covgame",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("covgame")

CompiledGame.waits = True
"""Where the readable game is compared with the compiled one, it must not stand in for it."""
