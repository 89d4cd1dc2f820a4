"""Source ``file``: files on this machine, and wherever fsspec reaches."""
