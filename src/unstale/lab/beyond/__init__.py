"""Results that build on the papers, or that they could not have."""
