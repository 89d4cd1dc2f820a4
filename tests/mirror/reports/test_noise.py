"""Noise is found by evidence, on pages as sites make them, with noise that is known."""

import random

import pytest
import regex

from unstale import InvalidInput, Mirror
from unstale.mirror.reports.noise import Look, find_noise
from unstale.mirror.reports.noise_of_element import ignoring, noise_of
from unstale.mirror.settings import GroupLimit, Http, Settings
from unstale.mirror.store.sql.imported_polls import Brought, Past, recall

ADS = ["Buy our shoes", "The best coffee in town", "Fly to the moon now", "Learn to dance", "Cheap insurance"]


def shop(n, dice, price):
    nonce = "".join(dice.choices("0123456789abcdef", k=32))
    return f"""<html><head><script nonce="{nonce}">start()</script></head><body>
<div id="top">Today is 2026-03-{1 + n // 40:02d} 12:{n % 60:02d}:{dice.randrange(60):02d} UTC</div>
<h1>Lamp</h1><p class="price">{price} EUR</p>
<p>A lamp for your desk, made of steel.</p>
<aside class="ad">{ADS[n % 5]}</aside>
<form><input name="csrf_token" value="{dice.getrandbits(80):020x}"></form>
<footer>{12345 + 13 * n:,} visitors so far</footer></body></html>"""


def forum(_, dice, price):
    return f"""<title>Forum</title><ul><li>First post, by ann</li><li>Price watch: {price}</li></ul>
<p>{dice.randrange(10, 99)} members online, {dice.randrange(1000)} guests</p>
<img src="/pixel.gif?r={dice.random()}"><!-- rendered in {dice.random():.4f} s -->"""


@pytest.mark.parametrize("page", [shop, forum])
@pytest.mark.parametrize("seed", range(3))
def test_all_noise_is_found_and_no_content(page, seed):
    dice = random.Random(seed)  # noqa: S311
    prices = [49] * 6 + [45] * 6
    looks = [Look(1e9 + 30.0 * n, page(n, dice, prices[n])) for n in range(12)]
    report = find_noise(looks)
    assert report.counted == 11
    assert report.would_count == (looks[6].time,)  # when the price fell, and at no other time
    left = looks[0].text
    for pattern in report.ignore:
        left = regex.sub(pattern, "", left)  # the engine that polls use
    assert "49" in left
    assert all(one.changed >= 0.5 * one.looks for one in report.parts)


def test_looks_that_are_far_apart_prove_nothing():
    dice = random.Random(0)  # noqa: S311
    looks = [Look(1e9 + 86400.0 * n, shop(n, dice, 49)) for n in range(8)]
    report = find_noise(looks)
    assert not report.parts
    assert report.undecided
    assert len(report.would_count) == report.counted == 7


def test_news_each_hour_are_no_noise():
    looks = [Look(1e9 + 3600.0 * n, f"<h1>News</h1><p>Story number {n * n} of today</p>") for n in range(10)]
    assert not find_noise(looks).parts


def test_a_price_that_moves_now_and_then_is_no_noise_between_close_looks():
    looks = [Look(1e9 + 30.0 * n, f"<p>now only {40 + n // 8} EUR</p>") for n in range(40)]
    assert not find_noise(looks).parts


def test_accepting_makes_later_looks_the_same(tmp_path):
    settings = Settings(budget=100.0, http=Http(robots=False), groups=(GroupLimit("*"),))
    with Mirror(tmp_path / "mirror.db", settings=settings) as mirror:
        element = mirror.add("http://127.0.0.1:9/x", ignore=["nothing"])
        dice = random.Random(1)  # noqa: S311
        pasts = []
        for n in range(6):
            digest, size = mirror.copies.put(shop(n, dice, 49).encode())
            brought = Brought(digest, size, "text/html")
            pasts.append(Past(element.id, 1e9 + 30.0 * n, "changed", brought=brought))
        with pytest.raises(InvalidInput, match="has 0"):
            noise_of(mirror.store, mirror.copies, element)
        with mirror.store.begin() as t:
            recall(t, pasts)
        report = noise_of(mirror.store, mirror.copies, element)
        assert report.ignore
        assert not report.would_count
        changed = mirror.add(element.key, ignore=ignoring(element.options, report.ignore))
        assert changed.options["ignore"] == ["nothing", *report.ignore]
        assert noise_of(mirror.store, mirror.copies, changed).counted == 0
