"""Pages that are rendered by a browser."""
