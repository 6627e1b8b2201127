"""Worlds of one's own, and a simulator that owns its loop."""
