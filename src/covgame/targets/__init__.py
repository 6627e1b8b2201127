"""What must be covered: targets over groups of cells, and how people ask for them."""
