"""Translation of a TrainingJob into the configuration and command line of the DLIO benchmark.

Checked against DLIO 2.0.0 and its main branch of June 2026. If a job uses a field without a DLIO
setting, the job is refused, or ``caveats`` returns a note.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storlab.base.units import NS_PER_S
from storlab.model.job import Job
from storlab.workloads.training.job import TrainingJob

WORKLOAD = "storlab"  # name of the workload in DLIO's configuration
OUTPUT = "output"  # directory of DLIO's results in the work directory
FRAMEWORKS = {"npz": "pytorch", "tfrecord": "tensorflow"}
_MOST_INT = 2**31 - 1  # NumPy takes 32-bit seeds, and DLIO adds the rank


@dataclass(frozen=True, slots=True)
class Program:
    """Installed DLIO benchmark, with its version and capabilities."""

    path: Path
    version: str
    has_direct: bool  # whether it can read NPZ with O_DIRECT
    frameworks: tuple[str, ...]  # installed ones among pytorch and tensorflow
    has_model_table: bool = False  # whether its configuration has a table for the model


def refusal(job: Job) -> str | None:
    """Return why no version of DLIO can run the job, or None if some version can."""
    if not isinstance(job, TrainingJob):
        return "DLIO runs training jobs only"
    if job.task != "run":
        return f'its task is "{job.task}", which only the native engine does'
    if job.place.directory is None:
        return "DLIO cannot read the data set from a bucket: use a directory, or engine native"
    if job.records.format == "jpeg":
        return "DLIO decodes JPEG, but storlab's files hold plain bytes: use native or torch"
    if job.place.direct and job.records.format != "npz":
        return (
            f"DLIO reads {job.records.format} through the page cache only: set direct = false on "
            'the target, or edition = "dlio-2.0"'
        )
    if not job.barrier:
        return "DLIO's accelerators wait for one another after every step: do not turn barrier off"
    if job.drop_caches:
        return "DLIO 2 drops no caches between epochs: use another edition, or native"
    if "/" in job.records.folder or job.records.folder != "train":
        return f'DLIO reads from the folder "train", but the data set is in "{job.records.folder}"'
    return None


def misfit(job: TrainingJob, program: Program) -> str | None:
    """Return why the installed DLIO cannot run the job, or None if it can."""
    if job.place.direct and not program.has_direct:
        return (
            f"DLIO {program.version} reads through the page cache only: set direct = false on the "
            'target or edition = "dlio-2.0", or install the main branch of DLIO'
        )
    framework = FRAMEWORKS[job.records.format]
    if framework not in program.frameworks:
        return (
            f"DLIO reads {job.records.format} with {framework}, which its Python lacks: "
            f"install {framework} in the Python environment of DLIO"
        )
    return None


def configuration(job: TrainingJob, work_dir: Path, *, model_table: bool = False) -> dict[str, Any]:
    """Return DLIO's configuration for a job; written as JSON, it is valid YAML for DLIO.

    Args:
        job: The job to run.
        work_dir: The directory of the run.
        model_table: Whether the model's name belongs in a table, as in DLIO since February 2025,
            instead of a string.
    """
    records = job.records
    framework = FRAMEWORKS[records.format]
    shuffle = "off" if job.shuffle == "none" else "seed"
    return {
        "model": {"name": WORKLOAD} if model_table else WORKLOAD,
        "framework": framework,
        "workflow": {
            "generate_data": False,
            "train": True,
            "checkpoint": False,
            "evaluation": False,
            "profiling": False,
        },
        "dataset": {
            "data_folder": str(work_dir / "data"),
            "format": records.format,
            "num_files_train": records.files,
            "num_files_eval": 0,
            "num_samples_per_file": records.samples_per_file,
            "record_length": records.record_bytes,
            "record_length_stdev": records.record_stdev_bytes,
            "record_length_resize": records.resize_bytes,
            # The same three settings, by their names in DLIO's main branch.
            "record_length_bytes": records.record_bytes,
            "record_length_bytes_stdev": records.record_stdev_bytes,
            "record_length_bytes_resize": records.resize_bytes,
            "file_prefix": records.prefix,
            "keep_files": True,
        },
        "reader": {
            "data_loader": framework,
            "batch_size": job.batch,
            "read_threads": job.reader_threads,
            "prefetch_size": job.prefetch,
            # Omit the setting if off: DLIO 2.0.0 and its main branch treat the string "off" as on.
            **({} if shuffle == "off" else {"file_shuffle": shuffle}),
            "sample_shuffle": shuffle,
            "multiprocessing_context": "fork",
            "odirect": job.place.direct,
        },
        "train": {
            "epochs": job.epochs,
            "computation_time": job.computation_ns / NS_PER_S,
            "seed": job.seed % _MOST_INT,
            "seed_change_epoch": job.shuffle == "epoch",
            **({} if job.max_steps is None else {"total_training_steps": steps(job)}),
        },
        "output": {"folder": str(work_dir / OUTPUT)},
        "metric": {"au": 0.9},
    }


def steps(job: TrainingJob) -> int:
    """Return the number of training steps of one accelerator in an epoch."""
    samples = job.records.files * job.records.samples_per_file
    whole = samples // job.accelerators // job.batch
    return whole if job.max_steps is None else min(whole, job.max_steps)


def prepare(job: TrainingJob, work_dir: Path, *, model_table: bool = False) -> None:
    """Write DLIO's configuration and a data folder with a link to the data set.

    The link is needed because DLIO also expects a folder for evaluation beside the data set.

    Args:
        job: The job to run.
        work_dir: The directory of the run, in which the files are created.
        model_table: Whether DLIO expects the model's name in a table; see ``configuration``.
    """
    settings = configuration(job, work_dir, model_table=model_table)
    place = work_dir / "config" / "workload"
    place.mkdir(parents=True)
    (place / f"{WORKLOAD}.yaml").write_text(json.dumps(settings, indent=2) + "\n")
    data = work_dir / "data"
    (data / "valid").mkdir(parents=True)
    (data / "train").symlink_to(Path(job.place.directory or "") / job.records.folder)


def command(program: Path, mpirun: Path | None, job: TrainingJob, work_dir: Path) -> list[str]:
    """Return DLIO's command line, with one MPI rank per accelerator unless ``mpirun`` is None."""
    dlio = [
        str(program),
        "--config-dir",
        str(work_dir / "config"),
        f"workload={WORKLOAD}",
    ]
    if mpirun is None:
        return dlio
    return [str(mpirun), "-n", str(job.accelerators), *dlio]


def environment() -> dict[str, str]:
    """Return environment variables for DLIO: tracing off, and UTC, as DLIO records local time."""
    variables = {"TZ": "UTC", "DFTRACER_ENABLE": "0", "PYTHONUNBUFFERED": "1"}
    if sys.platform.startswith("linux"):  # allows Open MPI to run as root in a container
        variables |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return variables


def caveats(job: TrainingJob) -> list[str]:
    """Return notes on where DLIO's behaviour differs from the job's settings."""
    sentences = [
        "DLIO: each rank reads whole files with NumPy or TensorFlow; read_size and io_depth do not "
        "apply, and the latency of a read is not measured",
    ]
    if job.shuffle != "none":
        sentences.append(
            "DLIO: the PyTorch loader of version 2.0 reads in the same order in every epoch, even "
            "with shuffling on; a cache profits from that"
        )
    if job.reshard and job.accelerators > 1:
        sentences.append("DLIO: each accelerator reads the same files in every epoch")
    if job.records.format == "npz" and job.check != "crc" and not job.place.direct:
        sentences.append("DLIO: numpy.load verifies the checksums of NPZ files, which costs CPU")
    return sentences
