"""Compiled inner loops: arrays in, arrays out. Only this room imports the compiler."""
