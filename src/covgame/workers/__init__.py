"""Whole episodes of a policy, played in other processes or on other machines."""
