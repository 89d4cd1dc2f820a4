"""What commands share: options, units, progress, printing, plots."""
