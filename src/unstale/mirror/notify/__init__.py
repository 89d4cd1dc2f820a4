"""Changes that are told to webhooks and commands."""
