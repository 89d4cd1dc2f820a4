"""``python -m mirror.proofs.hostile_server``: all faults and some good pages, in a process of their own.

It prints its port, and ends when its standard input does. ``/1/reset`` is the same fault as ``/reset``.
"""

import asyncio
import sys

from mirror.sources.http.hostile import Hostile, answer, faults

GOOD, WAVES = 30, 3


def good_page(number):
    """Return a page that is answered as it should be."""
    body, tag = b"<html><p>good %d</p></html>" % number, f'"good-{number}"'
    whole = answer(body, Content_Type="text/html", ETag=tag)
    same = answer(b"", "304 Not Modified", ETag=tag)

    async def handler(request, writer):
        writer.write(same if request.headers.get("If-None-Match") == tag else whole)
        await writer.drain()

    return handler


async def serve():
    table = {path: page for path, (page, _, _) in faults().items()}
    pages = dict(table)
    for wave in range(WAVES):
        pages |= {f"/{wave}{path}": page for path, page in table.items()}
    pages |= {f"/good/{i}": good_page(i) for i in range(GOOD)}
    async with Hostile(pages) as server:
        print(server.port, flush=True)  # noqa: T201  (the test reads it)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
