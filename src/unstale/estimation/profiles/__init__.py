"""Profiles: who wants what, from accesses."""
