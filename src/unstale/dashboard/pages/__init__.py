"""Pages for people, with their charts."""
