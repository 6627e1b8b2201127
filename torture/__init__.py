"""Attacks on covgame, and a judge that is independent of its code: ``python3 dev.py torture``."""
