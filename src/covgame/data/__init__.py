"""Data that are there already, read from wherever they lie; and runs, for other tools."""
