"""A crawler that behaves as StormCrawler's spout and status updater do; run by the environment with gRPC.

``python storm_crawler.py PORT SITE`` prints what it saw, as JSON.
"""

import hashlib
import json
import queue
import sys
import threading
import time
import urllib.error
import urllib.request

import grpc

from unstale.contrib.urlfrontier.messages import SERVICE, message, methods


class Stub:
    """The methods of the service, as a client calls them."""

    def __init__(self, channel):
        kinds = ("unary", "stream")
        for name, (given, taken, streams_in, streams_out) in methods().items():
            make = getattr(channel, f"{kinds[streams_in]}_{kinds[streams_out]}")
            call = make(
                f"/{SERVICE}/{name}",
                request_serializer=given.SerializeToString,
                response_deserializer=taken.FromString,
            )
            setattr(self, name, call)


class StatusUpdater:
    """Keeps one stream open, over which all updates go; each is acknowledged by its ID."""

    def __init__(self, stub):
        self._outgoing, self.acks = queue.Queue(), {}
        self._answers = stub.PutURLs(iter(self._outgoing.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for ack in self._answers:
            self.acks[ack.ID] = ack.status

    def store(self, url, metadata, *, discovered=False, refetch=0, identity=None):
        info = message("URLInfo")(url=url, key=url.split("/")[2].split(":")[0], crawlID="DEFAULT")
        for name, value in metadata.items():
            info.metadata[name].values.append(value)
        item = message("URLItem")(ID=identity or url)
        if discovered:
            item.discovered.info.CopyFrom(info)
        else:
            item.known.info.CopyFrom(info)
            item.known.refetchable_from_date = refetch
        self._outgoing.put(item)

    def wait(self, count):
        end = time.monotonic() + 60
        while len(self.acks) < count and time.monotonic() < end:
            time.sleep(0.01)
        assert len(self.acks) >= count, self.acks
        return dict(self.acks)

    def close(self):
        self._outgoing.put(None)
        self._reader.join(30)


def fetch(url, metadata):
    """Fetch a page as a bolt does; returns the metadata that is persisted."""
    request = urllib.request.Request(url)  # noqa: S310
    if "protocol.etag" in metadata:
        request.add_header("If-None-Match", metadata["protocol.etag"].values[0])
    kept = {name: value.values[0] for name, value in metadata.items() if name != "fetch.exception"}
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
            body = answer.read()
            kept["signature"] = hashlib.md5(body).hexdigest()  # noqa: S324  (as StormCrawler)
            kept["protocol.etag"] = answer.headers.get("ETag", "")
            return kept | {"fetch.statusCode": str(answer.status)}
    except urllib.error.HTTPError as error:
        return kept | {"fetch.statusCode": str(error.code)}


def main(port, site):
    """Crawl a site until each page was fetched twice."""
    stub = Stub(grpc.insecure_channel(f"127.0.0.1:{port}"))
    updater = StatusUpdater(stub)
    updater.store(f"{site}/", {"depth": "0"}, discovered=True, identity="seed")
    assert updater.wait(1) == {"seed": 0}
    wanted = {"/": 2, "/still": 2, "/changing": 2, "/lost": 1, "/broken": 1}
    fetched = dict.fromkeys(wanted, 0)
    depths = {}
    end = time.monotonic() + 120
    while any(fetched[path] < count for path, count in wanted.items()):
        assert time.monotonic() < end, fetched
        asked = message("GetParams")(
            max_urls_per_queue=2, max_queues=10, delay_requestable=60, crawlID="DEFAULT"
        )
        some = list(stub.GetURLs(asked))
        assert len(some) <= 2
        for info in some:
            path = info.url.removeprefix(site)
            fetched[path] += 1
            depths[path] = info.metadata["depth"].values[0]
            updater.acks.clear()
            if path == "/":
                for link in ("/still", "/changing", "/lost", "/broken"):
                    updater.store(f"{site}{link}", {"depth": "1"}, discovered=True)
            updater.store(info.url, fetch(info.url, info.metadata), refetch=int(time.time()) + 86400)
            assert set(updater.wait(5 if path == "/" else 1).values()) == {0}
        if not some:
            time.sleep(0.05)
    updater.acks.clear()
    updater.store(f"{site}/", {"signature": "x"}, identity="never leased")
    updater.store("ftp://none.example/", {}, discovered=True, identity="wrong")
    refused = updater.wait(2)
    updater.close()
    key = site.split("/")[2].split(":")[0]
    queue_of = message("QueueWithinCrawlParams")(key=key)
    batch = message("DiscoveredBatch")(ID="b", items=[{"url": f"{site}/still"}, {"url": "ftp://x"}])
    (batched,) = stub.PutDiscovered(iter([batch]))
    stub.SetDelay(message("QueueDelayParams")(key=key, delay_requestable=7))
    stub.BlockQueueUntil(message("BlockQueueParams")(key=key, time=int(time.time()) + 3600))
    stub.SetActive(message("Active")(state=False))
    inactive = list(stub.GetURLs(message("GetParams")()))
    told = {
        "depths": depths,
        "refused": refused,
        "batched": list(batched.statuses),
        "size": stub.GetStats(queue_of).size,
        "queues": list(stub.ListQueues(message("Pagination")(include_inactive=True)).values),
        "unblocked": list(stub.ListQueues(message("Pagination")()).values),
        "urls": sorted(item.ID for item in stub.ListURLs(message("ListUrlParams")(key=key))),
        "count": stub.CountURLs(message("CountUrlParams")(filter="still")).value,
        "status": stub.GetURLStatus(message("URLStatusRequest")(url=f"{site}/still")).WhichOneof("item"),
        "crawls": list(stub.ListCrawls(message("Local")()).values),
        "inactive": len(inactive),
        "active": stub.GetActive(message("Local")()).state,
        "errors": [],
    }
    for call, asked in (
        (stub.PurgeURLs, message("PurgeUrlParams")(days=1)),
        (stub.GetURLStatus, message("URLStatusRequest")(url="http://none/")),
        (stub.GetStats, message("QueueWithinCrawlParams")(crawlID="another")),
    ):
        try:
            call(asked)
        except grpc.RpcError as error:
            told["errors"].append(error.code().name)
    told["deleted"] = stub.DeleteQueue(queue_of).value
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
