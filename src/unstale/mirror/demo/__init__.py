"""A site that changes by itself, and a mirror of it, with the truth beside the estimate."""
