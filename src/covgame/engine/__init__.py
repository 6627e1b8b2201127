"""Engines: play blocks of episodes for a game and a source."""
