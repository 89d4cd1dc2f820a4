"""Elements, history and copies as files, out of a mirror and into it."""
