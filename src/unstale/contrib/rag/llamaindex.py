"""LlamaIndex: an ingestion pipeline with a store of documents and a vector store.

Its own upsert deletes the old version before the new one is embedded. So each version is a document of its
own here, and the old one is deleted when the new one is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256

from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import Document, NodeWithScore

from unstale.errors import InvalidInput

from .index_sync import IndexedText, IndexSync

__all__ = ["LlamaIndexIndex", "with_freshness"]

_MOST_RESULTS = 100
_SEPARATOR = " sha256:"


class LlamaIndexIndex:
    """An ingestion pipeline as an index.

    Parameters
    ----------
    pipeline
        with a ``docstore`` and a ``vector_store``
    """

    def __init__(self, pipeline: IngestionPipeline) -> None:
        if pipeline.docstore is None or pipeline.vector_store is None:
            raise InvalidInput("the pipeline needs a docstore and a vector_store")
        self._pipeline = pipeline

    def put(self, texts: Sequence[IndexedText]) -> None:
        """Put texts in, and take older versions of the same elements out."""
        documents = []
        for one in texts:
            number = f"{one.key}{_SEPARATOR}{sha256(one.text.encode()).hexdigest()}"
            documents.append(Document(text=one.text, id_=number, metadata={"source": one.key}))
        there = set(self._pipeline.docstore.get_all_document_hashes().values())
        new = [one for one in documents if one.id_ not in there]
        for document in new:  # an attempt that was interrupted may have put in some of it
            self._forget(document.id_)
        if new:
            self._pipeline.run(documents=new)
        self._delete({one.key for one in texts}, {one.id_ for one in documents})

    def delete(self, keys: Sequence[str]) -> None:
        """Take out all versions of elements."""
        self._delete(set(keys), set())

    def _delete(self, keys: set[str], but: set[str]) -> None:
        for number in set(self._pipeline.docstore.get_all_document_hashes().values()) - but:
            if number.rpartition(_SEPARATOR)[0] in keys:
                self._forget(number)
                self._pipeline.docstore.delete_document(number, raise_error=False)

    def _forget(self, number: str) -> None:
        """Take the nodes of a document out of the vector store."""
        store = self._pipeline.vector_store
        store.delete(number)
        with suppress(NotImplementedError):  # without a splitter, a document is a node itself
            store.delete_nodes([number])


def with_freshness(
    sync: IndexSync, found: Sequence[NodeWithScore]
) -> list[tuple[NodeWithScore, float | None]]:
    """Return what a search found, each with the probability that it is fresh."""
    told: dict[str, float | None] = {}
    results = []
    for one in found[:_MOST_RESULTS]:
        source = str(one.node.metadata.get("source", ""))
        if source not in told:
            told[source] = sync.fresh(source)
        results.append((one, told[source]))
    return results
