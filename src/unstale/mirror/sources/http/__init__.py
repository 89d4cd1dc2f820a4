"""Source ``http``: pages over HTTP and HTTPS."""
