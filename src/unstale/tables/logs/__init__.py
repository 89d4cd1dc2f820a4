"""Access logs: who wanted what, and when."""
