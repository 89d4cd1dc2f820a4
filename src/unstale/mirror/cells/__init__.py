"""A mirror in several cells, each a mirror of its own, which share nothing but the price of the budget."""
