"""A client for fetchers: take polls that a mirror has planned, and report what they saw.

`Fetcher` waits for each answer, `AsyncFetcher` is for event loops; both say the same to the mirror, which
must be served (``unstale run --serve``) and say ``fetch = "elsewhere"``.
"""

from .client import AsyncFetcher, Fetcher
from .messages import AddAnswer, FetchLease, FetchResult, ReportAnswer

__all__ = ["AddAnswer", "AsyncFetcher", "FetchLease", "FetchResult", "Fetcher", "ReportAnswer"]
