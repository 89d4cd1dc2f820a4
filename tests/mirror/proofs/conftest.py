"""The folder of a simulated month is kept in memory, where that is possible."""

from mirror.engine.conftest import tmp_path

__all__ = ["tmp_path"]
