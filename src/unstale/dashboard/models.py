"""What the API takes and gives."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["Problem"]


class Problem(BaseModel):
    """What is wrong."""

    error: str = Field(description="In words, for people.")
