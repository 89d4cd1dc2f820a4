"""The compiled worth of polls after hints."""
