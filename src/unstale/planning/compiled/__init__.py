"""Compiled passes over elements: what they ask for at a price, and how they are added up."""
