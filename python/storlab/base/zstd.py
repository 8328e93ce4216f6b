"""Compression and decompression of files with zstd."""

from __future__ import annotations

import io

import pyarrow as pa

from storlab.base.units import GIB

MOST_BYTES = 4 * GIB  # limit after decompression: a small file may expand to any number of zeros

MAGIC = b"\x28\xb5\x2f\xfd"


def unpacked(data: bytes) -> bytes:
    """Return the content of a file, compressed or not.

    Raises:
        ValueError: The compression is damaged, or the content is larger than ``MOST_BYTES``.
    """
    if not data.startswith(MAGIC):
        return data
    try:
        with pa.input_stream(io.BytesIO(data), compression="zstd") as stream:
            content: bytes = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"its compression is damaged: {error}") from error
    if len(content) > MOST_BYTES:
        raise ValueError(f"it unpacks to more than {MOST_BYTES:,} bytes")
    return content


def packed(data: bytes) -> bytes:
    """Compress data into one zstd frame."""
    frame: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return frame
