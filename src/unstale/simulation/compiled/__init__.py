"""Compiled parts of the simulation."""
