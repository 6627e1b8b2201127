"""Small changes of the sources that a test has to notice: ``python3 dev.py mutate``."""
