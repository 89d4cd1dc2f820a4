"""Compiled parts."""
