"""Change rates learned while elements are polled."""
