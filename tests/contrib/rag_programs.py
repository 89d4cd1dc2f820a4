"""Indexes of LangChain or LlamaIndex, kept in memory; run by their environments.

``python rag_programs.py KIND SERVER FOLDER`` indexes, crashes, goes on, and prints what it saw, as JSON.
It says on standard output when the test is to change pages, and reads from standard input that it has.
"""

import json
import sys
from pathlib import Path

from unstale.contrib.rag import IndexSync
from unstale.errors import InvalidInput


class Crash(Exception):  # noqa: N818
    pass


hooks = {}


def embedded(texts):
    """Let the test change a page, or the program crash, while texts are embedded."""
    if (hook := hooks.pop("embedding", None)) is not None:
        hook()
    return [[float(sum(text.encode()) % 97 + 1), float(len(text) + 1)] for text in texts]


def langchain():
    from langchain_core.embeddings import Embeddings
    from langchain_core.indexing import InMemoryRecordManager
    from langchain_core.vectorstores import InMemoryVectorStore

    from unstale.contrib.rag.langchain import LangChainIndex, with_freshness

    class Sums(Embeddings):
        def embed_documents(self, texts):
            return embedded(texts)

        def embed_query(self, text):
            return embedded([text])[0]

    store, records = InMemoryVectorStore(Sums()), InMemoryRecordManager("test")
    records.create_schema()

    def there():
        return sorted((one["metadata"]["source"], one["text"]) for one in store.store.values())

    def found(sync):
        documents = store.similarity_search("one", k=20)
        return {one.metadata["source"]: fresh for one, fresh in with_freshness(sync, documents)}

    return LangChainIndex(records, store), there, found


def llamaindex():
    from llama_index.core.embeddings import BaseEmbedding
    from llama_index.core.ingestion import IngestionPipeline
    from llama_index.core.schema import NodeWithScore
    from llama_index.core.storage.docstore import SimpleDocumentStore
    from llama_index.core.vector_stores import SimpleVectorStore, VectorStoreQuery

    from unstale.contrib.rag.llamaindex import LlamaIndexIndex, with_freshness

    class Sums(BaseEmbedding):
        def _get_text_embedding(self, text):
            return embedded([text])[0]

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query):
            return embedded([query])[0]

    kept = {}

    class KeepingText(SimpleVectorStore):
        """In memory; it keeps the nodes as well, as stores of vectors do."""

        stores_text: bool = True

        def add(self, nodes, **options):
            kept.update({node.node_id: node for node in nodes})
            return super().add(nodes, **options)

        def query(self, query, **options):
            answer = super().query(query, **options)
            answer.nodes = [kept[number] for number in answer.ids]
            return answer

    embedding, store = Sums(), KeepingText()
    pipeline = IngestionPipeline(
        transformations=[embedding], docstore=SimpleDocumentStore(), vector_store=store, disable_cache=True
    )

    def there():
        nodes = [kept[number] for number in store.data.embedding_dict]
        return sorted((node.metadata["source"], node.text) for node in nodes)

    def found(sync):
        query = VectorStoreQuery(query_embedding=embedding.get_query_embedding("one"), similarity_top_k=20)
        nodes = [NodeWithScore(node=node) for node in store.query(query).nodes]
        return {one.node.metadata["source"]: fresh for one, fresh in with_freshness(sync, nodes)}

    return LlamaIndexIndex(pipeline), there, found


def ask(what):
    """Let the test do something."""
    print(json.dumps({"please": what}), flush=True)  # noqa: T201
    assert sys.stdin.readline().strip() == "done"


def main():
    kind, server, folder = sys.argv[1:]
    index, there, found = {"langchain": langchain, "llamaindex": llamaindex}[kind]()
    state, told = Path(folder) / f"{kind}.json", {}

    def sync():
        return IndexSync(server, index, state)  # as a program that was started again

    hooks["embedding"] = lambda: ask("change a while it is indexed")
    first = sync().sync()
    told["first"] = [first.put, first.deleted]
    told["behind"] = found(sync())["python:a"]
    told["while"] = there()
    second = sync().sync()
    told["second"] = [second.put, second.deleted]
    told["after"] = there()

    def crash():
        raise Crash

    ask("change b")
    hooks["embedding"] = crash
    try:
        sync().sync()
    except Crash:
        told["crashed"] = there()
    third = sync().sync()
    told["third"] = [third.put, third.deleted]
    told["recovered"] = there()
    told["nothing"] = sync().sync().put
    told["fresh"] = found(sync())
    ask("remove c")
    told["removed"] = sync().sync().deleted
    told["left"] = there()
    ask("remove many")
    try:
        sync().sync()
    except InvalidInput as error:
        told["guard"] = str(error)
    told["guarded"] = len(there())
    told["all"] = IndexSync(server, index, state, most_deleted=1.0).sync().deleted
    print(json.dumps(told), flush=True)  # noqa: T201


main()
