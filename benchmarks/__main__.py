"""``make bench``: each figure beside its yardstick, from the same run. Ratios count; the times depend on the
machine."""

from benchmarks import inverse_worth

inverse_worth.run()
