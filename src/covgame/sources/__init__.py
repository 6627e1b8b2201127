"""Where worlds come from: environments by name, and what is known of them."""
