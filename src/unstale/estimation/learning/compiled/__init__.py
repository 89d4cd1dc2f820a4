"""The compiled part of the learner."""
