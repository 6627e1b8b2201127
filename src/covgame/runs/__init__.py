"""Runs: what was asked, played to its end, saved and taken up again."""
