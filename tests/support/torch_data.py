"""Small data sets in training formats, made with NumPy, for tests of readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from storlab.model.place import DataPlace
from storlab.workloads.training.job import Records, TrainingJob

FILES, SAMPLE = 12, 5000


def payload(number: int, sample: int = 0) -> bytes:
    """Return the payload of a sample, SAMPLE bytes plus the file's number."""
    draw = np.random.default_rng([number, sample])
    return draw.integers(0, 256, SAMPLE + number, dtype=np.uint8).tobytes()


def file_of(records: Records, number: int) -> bytes:
    """Return a TFRecord or JPEG file; record checksums are zero."""
    samples = [payload(number, n) for n in range(records.samples_per_file)]
    if records.format == "jpeg":
        return samples[0]
    frames = [len(s).to_bytes(8, "little") + bytes(4) + s + bytes(4) for s in samples]
    return b"".join(frames)


def make_set(home: Path, kind: Any = "npz", samples: int = 1, **changes: Any) -> Records:
    """Create a data set below ``home`` and return its description."""
    records = Records(
        format=kind, files=FILES, samples_per_file=samples, record_bytes=SAMPLE, **changes
    )
    place = home / records.folder
    place.mkdir(parents=True, exist_ok=True)
    for number in range(FILES):
        path = place / f"{records.prefix}_{number:02}_of_{FILES}.{kind}"
        if kind != "npz":
            path.write_bytes(file_of(records, number))
            continue
        samples_of_file = [
            np.frombuffer(payload(number, n), dtype=np.uint8) for n in range(samples)
        ]
        np.savez(
            path,
            x=np.stack(samples_of_file, axis=-1)[:, None, :],
            y=np.zeros(samples, dtype=np.int64),
        )
    return records


def job_of(home: Path, records: Records, **changes: Any) -> TrainingJob:
    """Return a job with two accelerators and three epochs."""
    made: dict[str, Any] = {
        "place": DataPlace(directory=str(home), direct=False),
        "records": records,
        "accelerators": 2,
        "batch": 2,
        "computation_ns": 2_000_000,
        "reader_threads": 2,
        "epochs": 3,
        "interval_ns": 100_000_000,
    }
    return TrainingJob(**{**made, **changes})
