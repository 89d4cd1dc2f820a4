"""What a mirror says of itself: status, reasons, samples over time, other budgets."""
