"""Change rates from polls: estimators, posteriors, priors of a population."""
