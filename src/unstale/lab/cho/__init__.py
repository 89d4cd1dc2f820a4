"""Cho & Garcia-Molina: synchronizing a database to improve freshness (report of 1999, SIGMOD 2000)."""
