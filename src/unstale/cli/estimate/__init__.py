"""``unstale estimate``: change rates and laws from a log of polls."""
