"""Simulation: a world in which any policy can be tried before anyone trusts it."""
