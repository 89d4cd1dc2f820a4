"""``unstale plan``, ``compare`` and ``whatif``: how often to poll, and what that buys."""
