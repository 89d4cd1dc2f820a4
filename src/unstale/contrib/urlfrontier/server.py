"""The service, by gRPC: ``unstale serve --urlfrontier PORT``."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc

from unstale.errors import InvalidInput, Trouble
from unstale.mirror.mirror import Mirror

from .frontier import FAIL, Frontier, FrontierUrl
from .messages import SERVICE, message, methods

_THREADS = 16
_MOST_AT_ONCE = 500
"""URLs that are put in one transaction."""
_CRAWL = "DEFAULT"
_GRACE_SECONDS = 2.0


class FrontierService:
    """Answers the calls of crawlers; each method of the protocol is one here, by the same name."""

    def __init__(self, frontier: Frontier, address: str) -> None:
        self._frontier, self._address = frontier, address

    def GetURLs(self, asked: Any, _: Any) -> Iterator[Any]:  # noqa: N802, ANN401
        """Give URLs that are due."""
        _check_crawl(asked.crawlID if asked.WhichOneof("item") == "crawlID" else "")
        for one in self._frontier.get(
            each=asked.max_urls_per_queue,
            queues=asked.max_queues,
            key=asked.key,
            seconds=asked.delay_requestable,
        ):
            yield _info(one)

    def PutURLs(self, items: Iterator[Any], _: Any) -> Iterator[Any]:  # noqa: N802, ANN401
        """Take URLs that were fetched or found, and acknowledge each."""
        for batch in _batches(items):
            kinds = [item.WhichOneof("item") for item in batch]
            answers = [FAIL] * len(batch)
            for kind, put in (
                ("discovered", self._frontier.put_discovered),
                ("known", self._frontier.put_known),
            ):
                places = [place for place, found in enumerate(kinds) if found == kind]
                told = _put(put, [_url(getattr(batch[place], kind).info) for place in places])
                for place, status in zip(places, told, strict=True):
                    answers[place] = status
            for item, kind, status in zip(batch, kinds, answers, strict=True):
                url = getattr(item, kind).info.url if kind else ""
                yield message("AckMessage")(ID=item.ID or url, status=status)

    def PutDiscovered(self, batches: Iterator[Any], _: Any) -> Iterator[Any]:  # noqa: N802, ANN401
        """Take batches of URLs that were found."""
        for batch in batches:
            found = [_url(info) for info in batch.items]
            yield message("BatchAck")(ID=batch.ID, statuses=_put(self._frontier.put_discovered, found))

    def ListNodes(self, _: Any, __: Any) -> Any:  # noqa: N802, ANN401
        """Name this server."""
        return message("StringList")(values=[self._address])

    def ListCrawls(self, _: Any, __: Any) -> Any:  # noqa: N802, ANN401
        """Name the one crawl that a mirror is."""
        return message("StringList")(values=[_CRAWL])

    def ListQueues(self, asked: Any, _: Any) -> Any:  # noqa: N802, ANN401
        """Name queues."""
        _check_crawl(asked.crawlID)
        found = self._frontier.queues(asked.start, asked.size, inactive=asked.include_inactive)
        return message("QueueList")(values=found, start=asked.start, size=len(found), crawlID=_CRAWL)

    def GetStats(self, asked: Any, _: Any) -> Any:  # noqa: N802, ANN401
        """Count URLs."""
        _check_crawl(asked.crawlID)
        found = self._frontier.stats(asked.key)
        return message("Stats")(
            size=found["size"], inProcess=found["in_process"], numberOfQueues=found["queues"], crawlID=_CRAWL
        )

    def DeleteQueue(self, asked: Any, _: Any) -> Any:  # noqa: N802, ANN401
        """Remove the URLs of a queue."""
        _check_crawl(asked.crawlID)
        return message("Long")(value=self._frontier.delete_queue(asked.key))

    def BlockQueueUntil(self, asked: Any, _: Any) -> Any:  # noqa: N802, ANN401
        """Let a queue rest."""
        _check_crawl(asked.crawlID)
        self._frontier.block(asked.key, float(asked.time))
        return message("Empty")()

    def SetDelay(self, asked: Any, context: Any) -> Any:  # noqa: N802, ANN401
        """Set the distance of polls of a queue."""
        _check_crawl(asked.crawlID)
        if not asked.key:
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED, "for all queues: set spacing in a [[group]] of mirror.toml"
            )
        self._frontier.delay(asked.key, float(asked.delay_requestable))
        return message("Empty")()

    def SetActive(self, asked: Any, _: Any) -> Any:  # noqa: N802, ANN401
        """Give URLs, or none."""
        self._frontier.active = asked.state
        return message("Empty")()

    def GetActive(self, _: Any, __: Any) -> Any:  # noqa: N802, ANN401
        """Tell whether URLs are given."""
        return message("Boolean")(state=self._frontier.active)

    def SetLogLevel(self, _: Any, __: Any) -> Any:  # noqa: N802, ANN401
        """Do nothing: there are no levels here."""
        return message("Empty")()

    def GetURLStatus(self, asked: Any, context: Any) -> Any:  # noqa: N802, ANN401
        """Tell what is known of a URL."""
        _check_crawl(asked.crawlID)
        found = self._frontier.find(asked.url)
        if found is not None:
            return _item(*found)
        return context.abort(grpc.StatusCode.NOT_FOUND, f"{asked.url} is not in this frontier")

    def ListURLs(self, asked: Any, _: Any) -> Iterator[Any]:  # noqa: N802, ANN401
        """List URLs."""
        _check_crawl(asked.crawlID)
        found, _count = self._frontier.urls(asked.key, asked.filter, asked.start, asked.size)
        for one in found:
            yield _item(*one)

    def CountURLs(self, asked: Any, _: Any) -> Any:  # noqa: N802, ANN401
        """Count URLs."""
        _check_crawl(asked.crawlID)
        return message("Long")(value=self._frontier.urls(asked.key, asked.filter, 0, 1)[1])


@contextmanager
def serving_frontier(mirror: Mirror, host: str, port: int) -> Iterator[int]:
    """Serve a mirror as a frontier, in threads of its own; gives the port."""
    server = grpc.server(ThreadPoolExecutor(_THREADS, thread_name_prefix="unstale-frontier"))
    service = FrontierService(Frontier(mirror), f"{host}:{port}")
    handlers = {name: _handler(name, getattr(service, name, None)) for name in methods()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    try:
        bound: int = server.add_insecure_port(f"{host}:{port}")
    except RuntimeError:
        raise InvalidInput(f"--urlfrontier {port}: cannot listen there; name another port") from None
    server.start()
    try:
        yield bound
    finally:
        server.stop(_GRACE_SECONDS).wait()


def _handler(name: str, method: Callable[..., Any] | None) -> Any:  # noqa: ANN401
    """Return what answers the calls of a method; those that there are not say so."""
    taken, given, streams_in, streams_out = methods()[name]
    kinds = ("unary", "stream")
    make = getattr(grpc, f"{kinds[streams_in]}_{kinds[streams_out]}_rpc_method_handler")
    return make(
        _telling(name, method, streams=streams_out),
        request_deserializer=taken.FromString,
        response_serializer=given.SerializeToString,
    )


def _telling(name: str, method: Callable[..., Any] | None, *, streams: bool) -> Callable[..., Any]:
    """Return a method that tells errors as gRPC does."""

    def problems(error: Exception, context: Any) -> None:  # noqa: ANN401
        again = isinstance(error, Trouble)
        context.abort(grpc.StatusCode.UNAVAILABLE if again else grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def stream(asked: Any, context: Any) -> Iterator[Any]:  # noqa: ANN401
        assert method is not None  # noqa: S101
        try:
            yield from method(asked, context)
        except (InvalidInput, Trouble) as error:
            problems(error, context)

    def call(asked: Any, context: Any) -> Any:  # noqa: ANN401
        if method is None:
            context.abort(
                grpc.StatusCode.UNIMPLEMENTED, f"{name}: unstale does not do that; see 'unstale --help'"
            )
            return None
        try:
            return method(asked, context)
        except (InvalidInput, Trouble) as error:
            problems(error, context)

    return stream if streams else call


def _batches(items: Iterator[Any]) -> Iterator[list[Any]]:
    """Return what has come since the last time, as long as there is something."""
    waiting: queue.Queue[Any] = queue.Queue(4 * _MOST_AT_ONCE)
    ended = object()

    def read() -> None:
        try:
            for item in items:
                waiting.put(item)
        except grpc.RpcError:  # the client has gone
            pass
        finally:
            waiting.put(ended)

    threading.Thread(target=read, name="unstale-frontier-reader", daemon=True).start()
    going = True
    while going:
        batch = [waiting.get()]
        while len(batch) < _MOST_AT_ONCE and not waiting.empty():
            batch.append(waiting.get())
        going = batch[-1] is not ended
        if some := [item for item in batch if item is not ended]:
            yield some


def _put(put: Callable[[list[FrontierUrl]], list[int]], urls: list[FrontierUrl]) -> list[int]:
    """Put URLs; if there is trouble, all of them are to be sent again."""
    try:
        return put(urls) if urls else []
    except Trouble:
        return [FAIL] * len(urls)


def _check_crawl(crawl: str) -> None:
    if crawl not in {"", _CRAWL}:
        raise InvalidInput(f"a mirror is one crawl, {_CRAWL}; there is no {crawl!r}")


def _url(info: Any) -> FrontierUrl:  # noqa: ANN401
    return FrontierUrl(info.url, info.key, {name: list(one.values) for name, one in info.metadata.items()})


def _info(one: FrontierUrl) -> Any:  # noqa: ANN401
    info = message("URLInfo")(url=one.url, key=one.key, crawlID=_CRAWL)
    for name, values in one.metadata.items():
        info.metadata[name].values.extend(values)
    return info


def _item(one: FrontierUrl, element: Any) -> Any:  # noqa: ANN401
    item = message("URLItem")(ID=one.url, creation_date=int(element.added))
    if element.state == "new":
        item.discovered.info.CopyFrom(_info(one))
    else:
        item.known.info.CopyFrom(_info(one))
        item.known.refetchable_from_date = max(int(element.not_before), 1)  # the mirror decides
    return item
