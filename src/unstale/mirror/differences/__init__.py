"""What is different between two versions of a copy."""
