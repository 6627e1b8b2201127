"""Data that are there already: read from wherever they lie, counted, judged."""
