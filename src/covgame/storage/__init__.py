"""Runs on disk: what was asked, the episodes, what was learnt, the answer."""
