"""mirror.toml: what a user says about a mirror, read and checked."""
