"""A site that is a git repository: each file is a page, served over real HTTP as it was at a moment.

The clock decides which commit is served, so a simulated one replays years in seconds. The site knows what it
has answered, and so which copies of a mirror are fresh.
"""

from __future__ import annotations

import subprocess
from bisect import bisect_right
from contextlib import asynccontextmanager
from email.utils import formatdate

from aiohttp.web import Response, Server, ServerRunner, TCPSite

_LOG = ("log", "--first-parent", "--diff-merges=first-parent", "--raw", "-z", "--no-abbrev", "--no-renames",
        "--format=%ct")  # fmt: skip
_NOTHING = "0" * 40


def git(folder, *arguments, given=None):
    """Return what a command of git says."""
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=True).stdout  # noqa: S603


def histories(folder, suffix):
    """Return for each file the times of its commits, and its contents from then on; None: it was deleted."""
    entries, time = [], 0
    tokens = iter(git(folder, *_LOG).decode("utf-8", "replace").split("\0"))
    for token in tokens:
        entry = token.lstrip("\n")
        if entry.startswith(":"):
            after, path = entry.split(" ")[3], next(tokens)
            if path.endswith(suffix):
                entries.append((time, path, None if after == _NOTHING else after))
        elif entry:
            time = int(entry)
    found = {}
    entries.reverse()  # git tells the last commit first
    for time, path, blob in sorted(entries, key=lambda one: one[0]):
        times, blobs = found.setdefault(path, ([], []))
        times.append(time)
        blobs.append(blob)
    return found


class GitSite:
    """The files of a repository, as pages of a site that is at the commit of the moment.

    Parameters
    ----------
    folder
        Of the repository.
    clock
        Tells the time.
    suffix
        How the names of files end that are pages.
    last_modified
        Whether answers say when a page changed, as those of a server of files do.
    """

    def __init__(self, folder, clock, suffix="", *, last_modified=False):
        self.folder, self.clock, self.last_modified = folder, clock, last_modified
        self.pages = histories(folder, suffix)
        self.answered = {}
        """What each page had when the mirror asked last; None: nothing."""
        self.asked = 0
        self._contents = {}

    def content(self, path, now):
        """Return the name of the content of a page at a moment, and since when it has that; None: nothing."""
        times, blobs = self.pages[path]
        place = bisect_right(times, now) - 1
        return (None, 0.0) if place < 0 else (blobs[place], times[place])

    def there(self, now):
        """Return the pages that there are at a moment."""
        return [path for path in self.pages if self.content(path, now)[0] is not None]

    def true_freshness(self, paths, now):
        """Return the share of these pages whose copies are up to date; one that was gone is left out."""
        known = [path for path in paths if self.answered.get(path, "") is not None]
        return sum(self.content(path, now)[0] == self.answered.get(path) for path in known) / len(known)

    def changes(self, start, end):
        """Return how often pages changed."""
        return sum(sum(start < time <= end for time in times) for times, _ in self.pages.values())

    async def _answer(self, request):
        path, now = request.path[1:], self.clock.now()
        if path == "sitemap.xml":
            origin = request.url.origin()
            listed = "".join(f"<url><loc>{origin}/{one}</loc></url>" for one in self.there(now))
            form = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{}</urlset>'
            return Response(text=form.format(listed), content_type="application/xml")
        if path not in self.pages:
            return Response(status=404)
        self.asked += 1
        blob, since = self.content(path, now)
        self.answered[path] = blob
        if blob is None:
            return Response(status=404)
        tag = f'"{blob}"'
        headers = {"ETag": tag}
        if self.last_modified:
            headers["Last-Modified"] = formatdate(since, usegmt=True)
        if request.headers.get("If-None-Match") == tag:
            return Response(status=304, headers=headers)
        if blob not in self._contents:
            self._contents[blob] = git(self.folder, "cat-file", "blob", blob)
        return Response(body=self._contents[blob], headers=headers, content_type="text/plain")

    @asynccontextmanager
    async def serving(self):
        """Serve it; gives its address, without a slash at the end."""
        runner = ServerRunner(Server(self._answer, access_log=None), access_log=None)
        await runner.setup()
        try:
            await TCPSite(runner, "127.0.0.1", 0).start()
            yield "http://{}:{}".format(*runner.addresses[0][:2])
        finally:
            await runner.cleanup()
