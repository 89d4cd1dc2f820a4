"""The configuration file mirror.toml: its keys, its reader, and its template."""
