"""Files compressed with zstd."""

from __future__ import annotations

import io

import pyarrow as pa

MAGIC = b"\x28\xb5\x2f\xfd"


def unpacked(data: bytes) -> bytes:
    """What a file holds, compressed or not. Raises ValueError for damaged compression."""
    if not data.startswith(MAGIC):
        return data
    try:
        with pa.input_stream(io.BytesIO(data), compression="zstd") as stream:
            return stream.read()
    except OSError as error:
        raise ValueError(f"its compression is damaged: {error}") from error


def packed(data: bytes) -> bytes:
    """One frame."""
    frame: bytes = pa.compress(data, codec="zstd", asbytes=True)
    return frame
