"""Indexes for retrieval: what changed in a mirror goes into a vector store, and what is gone comes out of it.

`index_sync` follows the changes of a mirror; `langchain` and `llamaindex` write to indexes of these. Neither
is imported before it is used.
"""

from .index_sync import IndexedText, IndexSync, Synced, TextIndex

__all__ = ["IndexSync", "IndexedText", "Synced", "TextIndex"]
