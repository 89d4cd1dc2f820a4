"""Sending changes to webhooks and commands."""
