"""Adapters to other people's systems, each an extra, each thin."""
