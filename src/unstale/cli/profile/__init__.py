"""``unstale profile``: who wants what, from access logs."""
