"""Which law changes follow: gaps, tests, fits, rhythm."""
