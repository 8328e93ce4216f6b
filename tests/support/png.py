"""Decoder of PNG images, for tests that look at rendered pages."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def brightness(png: bytes) -> NDArray[np.uint8]:
    """Return the darkest channel of each pixel of an RGBA image of 8 bits, as rows and columns."""
    width, height, depth, kind, _, _, interlaced = struct.unpack_from(">IIBBBBB", png, 16)
    assert (depth, kind, interlaced) == (8, 6, 0)
    data, at = b"", 8
    while at < len(png):
        size, name = struct.unpack_from(">I4s", png, at)
        data += png[at + 8 : at + 8 + size] if name == b"IDAT" else b""
        at += 12 + size
    raw, stride = zlib.decompress(data), 1 + 4 * width
    lines, above = [], bytearray(stride + 3)
    for start in range(0, len(raw), stride):
        above = _unfiltered(raw[start], raw[start + 1 : start + stride], above)
        lines.append(above[4:])
    image = np.frombuffer(b"".join(lines), np.uint8).reshape(height, width, 4)
    return np.asarray(image[:, :, :3].min(axis=2))


def _unfiltered(kind: int, values: bytes, above: bytearray) -> bytearray:
    """Undo the filter of one line; lines have a pixel of zeros before them (PNG, section 9)."""
    line = bytearray(4)
    for place, value in enumerate(values):
        left, up, corner = line[place], above[place + 4], above[place]
        if kind == 4:
            near = left + up - corner
            guess = min((left, up, corner), key=lambda each: abs(near - each))
        else:
            guess = (0, left, up, (left + up) // 2)[kind]
        line.append((value + guess) % 256)
    return line
