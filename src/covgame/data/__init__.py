"""Steps for other tools, and from them."""
