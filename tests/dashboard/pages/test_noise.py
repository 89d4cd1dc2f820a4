"""The page of noise: what changes at each look, what would have counted, and one click that ignores it."""

from unstale import Mirror
from unstale.mirror.settings import GroupLimit, Settings
from unstale.mirror.store.sql.imported_polls import Brought, Past, recall

from ..conftest import client_of  # noqa: TID252


def test_noise_is_shown_and_ignored_with_one_click(tmp_path):
    settings = Settings(budget=100.0, groups=(GroupLimit("*"),))
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        number = mirror.add("http://127.0.0.1:9/x").id
        with client_of(mirror.store.url, settings) as client:
            assert "noise is looked for in 3 versions or more" in client.get(f"/elements/{number}/noise").text
            pasts = []
            for n in range(5):
                digest, size = mirror.copies.put(f"<p>news {n // 3}</p><p>Page views: {90 + n}</p>".encode())
                pasts.append(
                    Past(number, 1e9 + 30.0 * n, "changed", brought=Brought(digest, size, "text/html"))
                )
            with mirror.store.begin() as t:
                recall(t, pasts)
            assert f'href="/elements/{number}/noise"' in client.get(f"/elements/{number}").text
            page = client.get(f"/elements/{number}/noise").text
            assert "Of 4 changes <strong>1</strong> would have counted" in page
            assert "4 of 4 looks" in page
            assert client.post(f"/elements/{number}/noise", data={"csrf": "x"}).status_code == 403
            token = page.partition('name="csrf" value="')[2].partition('"')[0]
            assert client.post(f"/elements/{number}/noise", data={"csrf": token}).status_code == 303
        [ignored] = mirror.find("http://127.0.0.1:9/x").options["ignore"]
        assert ignored.startswith("(?<=Page views: )")
