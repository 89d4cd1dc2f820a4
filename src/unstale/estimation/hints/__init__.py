"""What hints are worth: their reliability, and the law of changes after them."""
