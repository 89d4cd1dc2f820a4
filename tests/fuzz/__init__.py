"""Coverage-guided fuzzing of all that reads what strangers wrote: ``make fuzz``, and its inputs as tests."""
