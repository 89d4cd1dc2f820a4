"""Compiled parts of schedules."""
