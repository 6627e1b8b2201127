"""Breaks covgame on purpose, and counts what survives: ``python3 dev.py torture``."""
