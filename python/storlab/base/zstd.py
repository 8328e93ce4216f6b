"""Compress and decompress files with zstd."""

from __future__ import annotations

import io

import pyarrow as pa

from storlab.base.units import GIB

MOST_BYTES = 4 * GIB  # limit after decompression: a small file may expand to any number of zeros

MAGIC = b"\x28\xb5\x2f\xfd"


def unpacked(data: bytes) -> bytes:
    """Decompress data if it is a zstd frame; return other data unchanged.

    Raises:
        ValueError: The compression is damaged, or the content is larger than ``MOST_BYTES``.
    """
    if not data.startswith(MAGIC):
        return data
    try:
        with pa.input_stream(io.BytesIO(data), compression="zstd") as stream:
            content: bytes = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the zstd compression is damaged: {error}") from error
    if len(content) > MOST_BYTES:
        raise ValueError(f"the content has more than {MOST_BYTES:,} bytes after decompression")
    return content


def packed(data: bytes) -> bytes:
    """Compress data into one zstd frame."""
    frame: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return frame
