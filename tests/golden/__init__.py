"""Run folders of every format that there was, and how they are made."""
