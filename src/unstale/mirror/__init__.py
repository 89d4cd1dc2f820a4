"""The mirror: keeps copies of real sources, all day, for years."""
