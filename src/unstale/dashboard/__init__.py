"""The dashboard: pages that show how fresh a mirror is, an API to read its copies, metrics."""
