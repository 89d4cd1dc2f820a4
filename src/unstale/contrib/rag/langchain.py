"""LangChain: its ``index()`` puts new chunks in before it takes the old ones of the same source out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.indexing import RecordManager, index
from langchain_core.vectorstores import VectorStore

from .index_sync import IndexedText, IndexSync

__all__ = ["LangChainIndex", "with_freshness"]

_MOST_RESULTS = 100


class LangChainIndex:
    """A vector store, and the record manager that knows what is in it.

    Parameters
    ----------
    records
        of this index alone
    store
        where chunks are
    split
        divides documents into chunks; None: they stay whole
    """

    def __init__(
        self,
        records: RecordManager,
        store: VectorStore,
        split: Callable[[list[Document]], Sequence[Document]] | None = None,
    ) -> None:
        self._records, self._store, self._split = records, store, split

    def put(self, texts: Sequence[IndexedText]) -> None:
        """Put texts in; chunks that are as before are left alone."""
        documents = [Document(one.text, metadata={"source": one.key}) for one in texts]
        chunks = documents if self._split is None else list(self._split(documents))
        kept = {chunk.metadata["source"] for chunk in chunks}
        # Chunks of one source go in together: between batches, index() takes out what it has not seen yet.
        index(
            chunks, self._records, self._store, cleanup="incremental", source_id_key="source",
            key_encoder="sha256", batch_size=max(len(chunks), 1),
        )  # fmt: skip
        self.delete([one.key for one in texts if one.key not in kept])  # nothing is left of their text

    def delete(self, keys: Sequence[str]) -> None:
        """Take out all chunks of sources; what fails in between is done again."""
        if not keys:
            return
        chunks = self._records.list_keys(group_ids=list(keys))
        if chunks:
            self._store.delete(chunks)
            self._records.delete_keys(chunks)


def with_freshness(sync: IndexSync, found: Sequence[Document]) -> list[tuple[Document, float | None]]:
    """Return what a search found, each with the probability that it is fresh."""
    told: dict[str, float | None] = {}
    results: list[tuple[Document, float | None]] = []
    for one in found[:_MOST_RESULTS]:
        source: Any = one.metadata.get("source", "")
        if source not in told:
            told[source] = sync.fresh(str(source))
        results.append((one, told[source]))
    return results
