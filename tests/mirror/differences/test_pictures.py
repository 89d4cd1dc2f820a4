"""Differences between pictures: where they are, and a picture that shows it."""

import io

import numpy as np
import pytest
from PIL import Image

from unstale.errors import InvalidInput
from unstale.mirror.differences.bounded import bounded_difference, bounded_picture


def png(pixels, kind="PNG"):
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, kind)
    return written.getvalue()


def page(height=400):
    pixels = np.full((height, 640, 3), 255, np.uint8)
    pixels[20:40, 10:300] = 30
    return pixels


def test_it_says_how_much_is_different_and_where_and_shows_it():
    old, new = page(), page()
    new[100:120, 50:90] = (200, 0, 0)  # a price
    new[300:310, 500:505] = 0
    told = bounded_difference(png(old), png(new), "image/png")
    assert told.splitlines() == [
        "0.33 % of the picture is different", "40 x 20 pixels at 50, 100", "5 x 10 pixels at 500, 300",
    ]  # fmt: skip
    shown = np.asarray(Image.open(io.BytesIO(bounded_picture(png(old), png(new)))))
    assert shown.shape == new.shape
    assert shown[100, 50].tolist() == [214, 40, 40]  # a frame
    assert shown[110, 70].tolist() == [200, 0, 0]  # what is new, as it is
    assert shown[30, 20].min() > 150  # what is as before is faded


def test_a_page_that_grew_and_compression_that_differs():
    told = bounded_difference(png(page()), png(page(500)), "image/png")
    assert told.splitlines()[:2] == [
        "was 640 x 400 pixels, is 640 x 500", "20 % of the picture is different",
    ]  # fmt: skip
    soft = page()
    soft[0:5, 0:5] = 252
    assert bounded_difference(png(page()), png(soft), "image/png") == "no difference that can be seen"


def test_what_is_broken_or_too_large_is_told_and_not_compared():
    assert "They were not compared" in bounded_difference(b"\x89PNG", png(page()), "image/png")
    huge = np.zeros((6000, 4000), np.uint8)  # 24 million pixels of a few bytes
    assert "more than 20,000,000 pixels" in bounded_difference(png(huge), png(page()), "image/png")
    with pytest.raises(InvalidInput, match="no picture that can be read"):
        bounded_picture(b"x", png(page()))


def test_a_long_page_is_compared():
    pixels = np.full((15_000, 1280, 3), 255, np.uint8)
    new = pixels.copy()
    new[14_000:14_010, 5:20] = 0
    assert "15 x 10 pixels at 5, 14000" in bounded_difference(png(pixels), png(new), "image/png")
