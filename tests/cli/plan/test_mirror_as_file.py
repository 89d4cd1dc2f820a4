"""Commands that take a table of elements take a mirror.toml, too: the elements are those of the mirror."""

import pytest
from mirror.engine import worlds
from mirror.engine.worlds import DAY, START

from unstale.mirror.clock import SimulatedClock


@pytest.fixture(scope="module")
def folder_of_mirror(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mirror")
    periods = {f"g/{i}": 10 ** (3.5 + i / 8.0) for i in range(20)}
    content = {f"python:{key}": (lambda now, p=p: str(int(now // p)).encode()) for key, p in periods.items()}
    mirror, _ = worlds.make(
        folder, budget=100 / DAY, content=content, tick=7200.0, clock=SimulatedClock(START)
    )
    with mirror:
        worlds.add(mirror, *periods)
        worlds.run(mirror, 2 * DAY)
    (folder / "mirror.toml").write_text('[mirror]\nbudget = "100/day"\n', "utf-8")
    return folder


def test_what_if_tries_ideas_on_the_elements_of_a_mirror(run, ask, folder_of_mirror):
    file = folder_of_mirror / "mirror.toml"
    out, _ = run("whatif", file)
    assert out.startswith("20 elements of ")
    assert "100 polls/day (now)" in out
    assert '[mirror] policy = "uniform"' in out
    assert "intervals that vary by a tenth" in out
    assert "hints of 80 % of the changes" in out
    text = file.read_text("utf-8")
    file.write_text(text.replace("100/day", "5/h"), "utf-8")
    out, _ = run("whatif", file, "--composed", "python:g/?", "--hints", "50%", "--freshness", "50%")
    assert "5 polls/hour (now)" in out  # in the unit of mirror.toml, also the others
    assert "polls/day" not in out
    assert "made from several" in out
    file.write_text(text, "utf-8")
    told = ask("whatif", file, "--order", "random", "--replicas", "3", "--space", "1GB", "--freshness", "50%")
    assert told["present"] == pytest.approx(100 / DAY)
    assert 0 < told["as_it_is"]["freshness"] < told["tried"]["freshness"] < 1
    assert told["target"]["budget"] > 0


def test_the_mirror_that_watch_made_is_found(ask, folder_of_mirror, folder):
    (folder / "unstale-mirror").symlink_to(folder_of_mirror)
    told = ask("whatif", "unstale-mirror")  # its folder stands for it
    assert len(told["ideas"]) > 5
    assert told["tried"] is None


def test_plans_and_simulations_are_of_its_elements(ask, folder_of_mirror):
    file = folder_of_mirror / "mirror.toml"
    plans = ask("plan", file, "--budget", "100/day")
    assert {row["key"] for row in plans["allocation"]} == {f"python:g/{i}" for i in range(20)}
    assert sum(row["frequency"] for row in plans["allocation"]) == pytest.approx(100, rel=1e-6)
    assert ask("compare", file)["budget"] == pytest.approx(100)  # that of the mirror
    played = ask("simulate", file, "--policy", "uniform", "--horizon", "20 days")
    assert played["elements"] == 20


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["whatif", "mirror.toml", "--plot", "x.svg"], "--plot is for tables of elements"),
        (["whatif", "mirror.toml", "--budget", "1MB/h"], "--budget must be in polls"),
        (["whatif", "pages.csv", "--replicas", "2"], "--replicas needs a mirror: unstale whatif mirror.toml"),
        (["whatif", "nothing.toml"], "nothing.toml: no such file"),
        (["compare", "mirror.toml", "--column", "rate=x"], "--column is for tables of elements"),
    ],
)
def test_what_does_not_go_with_a_mirror_is_told(refuse, folder_of_mirror, options, complaint):
    if "mirror.toml" in options:
        options = [str(folder_of_mirror / one) if one == "mirror.toml" else one for one in options]
    assert complaint in refuse(*options)
