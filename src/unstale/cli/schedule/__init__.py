"""``unstale schedule``: when to poll."""
