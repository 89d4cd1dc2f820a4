"""Hypothesis profiles: choose one with ``--hypothesis-profile``."""

import os

from hypothesis import settings

# Compilation of a kernel can fall into any example, so no example has a deadline.
# In CI the examples are the same on every run: a failure there is caused by the change under test.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=100,
    derandomize=os.environ.get("CI", "").lower() in {"1", "true"},
)
settings.register_profile("long", settings.get_profile("default"), max_examples=5000)
settings.load_profile("default")
