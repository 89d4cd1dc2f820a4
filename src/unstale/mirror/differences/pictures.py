"""What is different between two pictures: how much of it, where, and a picture that shows it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unstale.errors import InvalidInput, need

if TYPE_CHECKING:
    from PIL.Image import Image

__all__ = ["is_picture", "marked_picture", "picture_difference"]

_FORMATS = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP"}
_MOST_PIXELS = 20_000_000
_LEAST_DIFFERENCE = 8
"""Of a colour, of 255, that counts: compression changes less."""
_TILE_PIXELS = 16
"""Tiles with differences that touch are one area."""
_MOST_AREAS = 5
_FADED = 0.35
_MARK = (214, 40, 40)

Pixels = NDArray[np.uint8]


def is_picture(media_type: str) -> bool:
    """Tell whether pictures of this kind are compared.

    >>> is_picture("image/png"), is_picture("text/html")
    (True, False)
    """
    return media_type.partition(";")[0].strip().lower() in _FORMATS


def picture_difference(old: bytes, new: bytes) -> str:
    """Return in words how much of a picture is different, and where; sizes are in pixels."""
    before, after = _pixels(old), _pixels(new)
    different = _different(before, after)
    lines = []
    if before.shape != after.shape:
        lines.append(f"was {_size(before)} pixels, is {_size(after)}")
    if not different.any():
        return "\n".join(lines) or "no difference that can be seen"
    areas = _areas(different)
    share = 100.0 * np.count_nonzero(different) / different.size
    lines.append(f"{share:.2g} % of the picture is different")
    lines += [f"{w} x {h} pixels at {x}, {y}" for x, y, w, h in areas[:_MOST_AREAS]]
    if len(areas) > _MOST_AREAS:
        lines.append(f"and {len(areas) - _MOST_AREAS:,} smaller areas")
    return "\n".join(lines)


def marked_picture(old: bytes, new: bytes) -> bytes:
    """Return the new picture as PNG: what is as before is faded, and what is different has a frame."""
    need("PIL", extra="browser", needed_for="differences between pictures")
    from PIL import Image, ImageDraw

    before, after = _pixels(old), _pixels(new)
    different = _different(before, after)
    shown = np.full((*different.shape, 3), 255, np.uint8)
    shown[: after.shape[0], : after.shape[1]] = after
    near = np.zeros(different.shape, bool)
    areas = _areas(different)
    for x, y, w, h in areas:
        near[y : y + h, x : x + w] = True
    shown[~near] = (255 - _FADED * (255.0 - shown[~near])).astype(np.uint8)
    picture = Image.fromarray(shown)
    draw = ImageDraw.Draw(picture)
    for x, y, w, h in areas:
        draw.rectangle((x, y, x + w - 1, y + h - 1), outline=_MARK, width=2)
    written = io.BytesIO()
    picture.save(written, "PNG")
    return written.getvalue()


def _pixels(content: bytes) -> Pixels:
    """Return rows of pixels, or raise `InvalidInput`."""
    need("PIL", extra="browser", needed_for="differences between pictures")
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content), formats=[*_FORMATS.values()]) as image:
            if image.width * image.height > _MOST_PIXELS:
                raise InvalidInput(f"the picture has more than {_MOST_PIXELS:,} pixels")
            return np.asarray(_plain(image), np.uint8)
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InvalidInput(f"it is no picture that can be read: {str(error)[:100]}") from None


def _plain(image: Image) -> Any:  # noqa: ANN401
    """Return a picture in colours; what can be seen through is on white."""
    from PIL import Image as Images

    if "A" not in image.mode and "transparency" not in image.info:
        return image.convert("RGB")
    seen = image.convert("RGBA")
    ground = Images.new("RGBA", seen.size, (255, 255, 255, 255))
    return Images.alpha_composite(ground, seen).convert("RGB")


def _different(before: Pixels, after: Pixels) -> NDArray[np.bool_]:
    """Tell which pixels are different; where one picture has none, all are."""
    height, width = (max(one, other) for one, other in zip(before.shape[:2], after.shape[:2], strict=True))
    both = tuple(slice(min(one, other)) for one, other in zip(before.shape[:2], after.shape[:2], strict=True))
    found = np.ones((height, width), bool)
    gap = np.maximum(before[both], after[both]) - np.minimum(before[both], after[both])
    found[both] = (gap >= _LEAST_DIFFERENCE).any(axis=2)
    return found


def _areas(different: NDArray[np.bool_]) -> list[tuple[int, int, int, int]]:
    """Return x, y, width and height of areas that are different, the largest first."""
    from scipy import ndimage

    height, width = different.shape
    rows, columns = -(-height // _TILE_PIXELS), -(-width // _TILE_PIXELS)
    padded = np.zeros((rows * _TILE_PIXELS, columns * _TILE_PIXELS), bool)
    padded[:height, :width] = different
    tiles = padded.reshape(rows, _TILE_PIXELS, columns, _TILE_PIXELS).any(axis=(1, 3))
    labels, _ = ndimage.label(tiles, np.ones((3, 3)))
    found = []
    for down, across in ndimage.find_objects(labels):
        y, x = down.start * _TILE_PIXELS, across.start * _TILE_PIXELS
        part = different[y : down.stop * _TILE_PIXELS, x : across.stop * _TILE_PIXELS]
        ys, xs = np.flatnonzero(part.any(axis=1)), np.flatnonzero(part.any(axis=0))
        w, h = xs[-1] - xs[0] + 1, ys[-1] - ys[0] + 1
        found.append((int(x + xs[0]), int(y + ys[0]), int(w), int(h)))
    return sorted(found, key=lambda area: -area[2] * area[3])


def _size(pixels: Pixels) -> str:
    return f"{pixels.shape[1]} x {pixels.shape[0]}"
