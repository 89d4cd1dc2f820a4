"""Compiled estimators of change rates."""
