"""Compiled parts of the policy."""
