"""Compiled parts of processes."""
