"""``unstale simulate``: policies tried on the same changes."""
