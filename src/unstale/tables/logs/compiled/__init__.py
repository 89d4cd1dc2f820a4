"""Lines of access logs, read by compiled code."""
