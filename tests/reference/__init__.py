"""Plain implementations that the compiled code is compared with."""
