"""The API: copies, elements, changes, edits, feeds, metrics."""
