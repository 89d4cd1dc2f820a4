"""``unstale lab``: published results beside ours, and policies on recorded histories."""
