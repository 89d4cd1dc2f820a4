"""What runs a mirror: a worker plans, hands out polls, makes them and records what they saw."""
