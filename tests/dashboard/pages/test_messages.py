"""The page of messages: who is told, what waits, and a test that arrives."""

import json
from dataclasses import replace

from unstale.mirror.settings import Notify

from ..conftest import client_of  # noqa: TID252


def test_the_page_sends_a_test_to_one_and_says_whether_it_arrived(mirror, tmp_path):
    taken = tmp_path / "taken"
    good = Notify(command=("sh", "-c", f"cat > {taken}"))
    settings = replace(mirror.settings, notify=(Notify(command=("false",)), good))
    with client_of(mirror.store.url, settings) as client:
        page = client.get("/notify").text
        assert "There has been no alarm" in page
        assert (
            client.post("/notify/2/test", data={"csrf": "x"}).status_code == 403
        )  # another site cannot cause it
        token = page.partition('name="csrf" value="')[2].partition('"')[0]
        said = client.post("/notify/2/test", data={"csrf": token})
        assert "the test message was taken" in said.text
        assert json.loads(taken.read_text())["test"] is True
        assert "not taken" in client.post("/notify/1/test", data={"csrf": token}).text
        assert client.post("/notify/3/test", data={"csrf": token}).status_code == 404
    with client_of(mirror.store.url, mirror.settings) as client:
        assert "Nobody gets messages" in client.get("/notify").text
