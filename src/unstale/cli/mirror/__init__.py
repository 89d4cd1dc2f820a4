"""The commands of the mirror."""
