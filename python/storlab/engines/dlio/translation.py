"""Translation of DLIO's workload files into tables of a study, for ``storlab init --from-dlio``.

DLIO's documentation describes the settings and their defaults (docs/source/config.rst).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import tomlkit

from storlab.base.errors import StudyError, UsageError
from storlab.base.units import NS_PER_S, exact_duration
from storlab.contracts.translation import Remark, TranslatedTable, Translation
from storlab.engines.dlio.settings import FILE_FORMATS
from storlab.engines.dlio.workload_file import WorkloadFile
from storlab.workloads.checkpoint import profiles as checkpoints
from storlab.workloads.training.profiles import Profile, load_profile, make_profile, profile_names

_PLACEHOLDER = "/fill/in/a/directory"
_FILE_SYSTEMS = {"local_fs", "parallel_fs"}
_NO_EFFECT = "has no counterpart in a study"
# Effects of settings that a study cannot express, by the beginning of their names; the first fits.
_MEANINGS = {
    "framework": 'storlab reads with its own code; loader = "pytorch" reads with PyTorch',
    "reader.data_loader": 'storlab reads with its own code; loader = "pytorch" reads with PyTorch',
    "reader.sample_shuffle": "files are shuffled, but not the samples in them",
    "reader.batch_size_eval": "there is no evaluation",
    "reader.": "a study does not emulate this part of the loader",
    "evaluation.": "there is no evaluation",
    "workflow.evaluation": "there is no evaluation",
    "dataset.num_files_eval": "there is no evaluation",
    "dataset.num_subfolders": "all files are in one directory",
    "dataset.keep_files": "storlab keeps its data set; storlab clean removes it",
    "dataset.": "the data set is storlab's own",
    "train.computation_time": "every step computes for the same time",
    "train.seed": "the study has a seed of its own",
    "checkpoint.": "a training workload writes no checkpoints; add a workload of kind checkpoint",
    "model.": "the model only determines checkpoints, which a training workload does not write",
    "profiling.": "storlab records its own counters",
    "workflow.profiling": "storlab records its own counters",
    "output.": "results are stored in storlab's result directory",
    "storage.": "set the target's s3 and s3_options",
}
_CHECKPOINT_MEANINGS = {
    "checkpoint.": "a checkpoint workload does not do this",
    "model.": "a checkpoint has 2 bytes of weights and 12 bytes of optimizer state per parameter",
    "dataset.": "a checkpoint workload has no data set",
    "reader.": "a checkpoint workload has no data set",
    "train.": "a checkpoint workload does not train",
    "framework": 'storlab writes with its own code; writer = "torch" writes with PyTorch',
}


def translate(values: list[str]) -> Translation:
    """Translate workload files of DLIO.

    Raises:
        UsageError: A file cannot be read, or has a workload that no study can express.
    """
    whole = Translation()
    for value in values:
        file = WorkloadFile(Path(value))
        # Without a training, DLIO itself ignores the other stages, except for checkpoints.
        trains = file.is_on("workflow.train", default=True)
        writes = file.is_on("workflow.checkpoint", default=False)
        file.take("workflow.generate_data", "workflow.debug")
        if trains:
            _add_training(file, whole, writes=writes)
        elif writes:
            _add_checkpoint(file, whole)
        else:
            fix = "give the workload file of the run; storlab creates the data set itself"
            raise UsageError(value, "neither trains nor writes checkpoints", fix)
        whole.remarks += file.remarks
    return whole


def _add_training(file: WorkloadFile, whole: Translation, *, writes: bool) -> None:
    name = _free(_model(file), whole)
    direct = file.is_on("reader.odirect", default=False)
    target = _target(file, whole, "dataset.data_folder", direct=direct)
    data = _profile(file, name)
    profile, overrides = _matched(data)
    if profile is None:
        profile = f"{name}.toml"
        whole.files[profile] = _profile_text(file, data)
        file.remarks.append(
            Remark(
                file.where,
                "dataset, reader, train, metric",
                f"fit no profile of storlab: they are in {profile}, which is written to the "
                "working directory",
            )
        )
    fields: dict[str, Any] = {
        "kind": "training",
        "name": name,
        "targets": [target],
        "profile": profile,
        "accelerators": 1,
        **overrides,
    }
    steps = file.whole("train.total_training_steps", default=-1)
    if steps > 0:
        fields["max_steps"] = steps
    fields["shuffle"] = _shuffle(file, data["dataset"]["num_samples_per_file"])
    file.remarks.append(
        Remark(
            file.where,
            "mpirun -n",
            "the number of accelerators is on DLIO's command line: it is 1 until you set it",
        )
    )
    if writes:
        meaning = "a training workload writes no checkpoints; add a workload of kind checkpoint"
        file.remarks.append(Remark(file.where, "workflow.checkpoint: True", meaning))
    comments = {"accelerators": "MPI ranks of DLIO", "shuffle": "reader.file_shuffle"}
    whole.workloads.append(TranslatedTable(f"workload of {file.where}", fields, comments))
    _remark_rest(file, _MEANINGS)


def _model(file: WorkloadFile) -> str:
    setting = file.take("model.name", "model")
    file.take("model.type")
    name = str(setting.value) if setting is not None and setting.value else file.name
    return re.sub(r"[^\w.-]+", "-", name)  # it is also the name of a profile's file


def _free(name: str, whole: Translation) -> str:
    taken = {table.fields["name"] for table in whole.workloads}
    return next(
        free
        for n in range(1, len(taken) + 2)
        if (free := name if n == 1 else f"{name}-{n}") not in taken
    )


def _target(file: WorkloadFile, whole: Translation, folder: str, *, direct: bool) -> str:
    """Add a target for a folder, unless an equal one was added before; return its name."""
    place = file.take(folder)
    kind = file.take("storage.storage_type")
    root = file.take("storage.storage_root")
    if kind is None or kind.value in _FILE_SYSTEMS:
        path = str(place.value) if place is not None and place.value else _PLACEHOLDER
        fields = {"directory": path, "direct": direct}
        comments = {
            "directory": f"{folder}; storlab makes data of its own below it",
            "direct": "reader.odirect",
        }
    else:
        endpoint = file.take("storage.storage_options.endpoint_url")
        url = (
            str(endpoint.value).rstrip("/")
            if endpoint is not None
            else "https://fill.in.an.endpoint"
        )
        bucket = str(root.value) if root is not None else "bucket"
        fields = {"s3": f"{url}/{bucket}"}
        comments = {"s3": "storage; its credentials are not translated"}
    for table in whole.targets:
        if {k: v for k, v in table.fields.items() if k != "name"} == fields:
            return str(table.fields["name"])
    name = "dlio" if not whole.targets else f"dlio-{len(whole.targets) + 1}"
    whole.targets.append(
        TranslatedTable(f"data of {file.where}", {"name": name, **fields}, comments)
    )
    return name


def _profile(file: WorkloadFile, name: str) -> dict[str, Any]:
    """Take the settings that form a training profile, and return the profile's tables.

    Settings that are not set have DLIO's defaults.

    Raises:
        UsageError: The format of files has no counterpart, or a value is invalid.
    """
    kind = file.take("dataset.format")
    written = "tfrecord" if kind is None else str(kind.value)
    if written not in FILE_FORMATS:
        raise UsageError(
            f"{file.where if kind is None else kind.where}: dataset.format",
            f"{written} is not a format of storlab's training workloads",
            f"use one of {', '.join(FILE_FORMATS)}",
        )
    if kind is not None and written == "npy":
        file.remark(kind, "is read as npz, which is npy in an archive without compression")
    sizes = {
        f"record_length_bytes{suffix}": file.whole(
            f"dataset.record_length_bytes{suffix}",
            f"dataset.record_length{suffix}",
            default=default,
        )
        for suffix, default in (("", 65536), ("_stdev", 0), ("_resize", 0))
    }
    prefix = file.take("dataset.file_prefix")
    seconds = file.number("train.computation_time.mean", "train.computation_time", default=0.0)
    data: dict[str, Any] = {
        "description": f"workload {name} of DLIO",
        "source": file.where,
        "published": False,
        "dataset": {
            "format": FILE_FORMATS[written],
            "num_files_train": file.whole("dataset.num_files_train", default=1),
            "num_samples_per_file": file.whole("dataset.num_samples_per_file", default=1),
            **sizes,
            **({} if prefix is None else {"file_prefix": str(prefix.value)}),
        },
        "reader": {
            "batch_size": file.whole("reader.batch_size", default=1),
            "read_threads": max(1, file.whole("reader.read_threads", default=1)),
            "prefetch_size": file.whole("reader.prefetch_size", default=0) or 2,  # as DLIO does
        },
        "train": {
            "epochs": file.whole("train.epochs", default=1),
            "computation_time": exact_duration(round((seconds or 0.0) * NS_PER_S)),
        },
        "metric": {"au": file.number("metric.au", default=0.9)},
    }
    try:
        make_profile(data, file.where)
    except StudyError as error:
        raise UsageError(file.where, error.what, "correct the workload file") from error
    return data


def _matched(data: dict[str, Any]) -> tuple[str | None, dict[str, Any]]:
    """Return the name of the matching shipped profile, and the fields that differ from it.

    The name is None if no shipped profile has the same samples, batch size and compute time.
    """
    own = make_profile(data, "workload")
    for name in profile_names():
        other = load_profile(name)
        if _differs_only_in_fields(own, other):
            fields = {
                "files": (own.dataset.num_files_train, other.dataset.num_files_train),
                "epochs": (own.train.epochs, other.train.epochs),
                "reader_threads": (own.reader.read_threads, other.reader.read_threads),
            }
            return name, {field: a for field, (a, b) in fields.items() if a != b}
    return None, {}


def _differs_only_in_fields(own: Profile, other: Profile) -> bool:
    names = (
        "format",
        "num_samples_per_file",
        "record_length_bytes",
        "record_length_bytes_stdev",
        "record_length_bytes_resize",
        "file_prefix",
    )
    same = all(getattr(own.dataset, name) == getattr(other.dataset, name) for name in names)
    return (
        same
        and own.metric.au == other.metric.au
        and own.train.computation_time == other.train.computation_time
        and own.reader.batch_size == other.reader.batch_size
        and own.reader.prefetch_size == other.reader.prefetch_size
    )


def _profile_text(file: WorkloadFile, data: dict[str, Any]) -> str:
    return f"# written by `storlab init` from {file.where}\n{tomlkit.dumps(data)}"


def _shuffle(file: WorkloadFile, samples_per_file: int) -> str:
    """Take the settings for shuffling files; return the value of the field ``shuffle``.

    If each file has one sample, shuffling samples means shuffling files.
    """
    names = ["reader.file_shuffle", *(["reader.sample_shuffle"] if samples_per_file == 1 else [])]
    settings = [file.take(name) for name in names]
    changes = file.is_on("train.seed_change_epoch", default=True)
    # YAML 1.1 reads `off` as false.
    if all(s is None or s.value is False or str(s.value) == "off" for s in settings):
        return "none"
    return "epoch" if changes else "same"


def _add_checkpoint(file: WorkloadFile, whole: Translation) -> None:
    name = _free(_model(file), whole)
    target = _target(file, whole, "checkpoint.checkpoint_folder", direct=False)
    profile, files = _checkpoint_profile(file, name)
    whole.files |= files
    pause = file.number("checkpoint.time_between_checkpoints", default=-1) or 0.0
    flushes = file.is_on("checkpoint.fsync", default=False)
    fields: dict[str, Any] = {
        "kind": "checkpoint",
        "name": name,
        "targets": [target],
        "profile": profile,
        "writes": max(1, file.whole("checkpoint.num_checkpoints_write", default=1)),
        "restores": max(0, file.whole("checkpoint.num_checkpoints_read", default=0)),
        "sync": "fsync" if flushes else "none",
    }
    if pause > 0:
        fields["pause"] = exact_duration(round(pause * NS_PER_S))
    comments = {
        "writes": "checkpoint.num_checkpoints_write",
        "restores": "checkpoint.num_checkpoints_read",
        "sync": "checkpoint.fsync",
        "pause": "checkpoint.time_between_checkpoints",
    }
    whole.workloads.append(TranslatedTable(f"workload of {file.where}", fields, comments))
    _remark_rest(file, _CHECKPOINT_MEANINGS)


def _checkpoint_profile(file: WorkloadFile, name: str) -> tuple[str, dict[str, str]]:
    """Return the name of a checkpoint profile, and the profile's text by name of its file.

    If a shipped profile has the same checkpoint files, its name is returned, and no text.

    Raises:
        UsageError: The model is not a transformer.
    """
    if not file.has("model.transformer."):
        what = "has no model.transformer, so the sizes of its checkpoint files are unknown"
        fix = "use a workload with a transformer, or write a checkpoint profile: docs/checkpoint.md"
        raise UsageError(file.where, what, fix)
    shape = {
        "layers": file.whole("model.num_layers", default=1),
        "hidden": file.whole("model.transformer.hidden_size", default=2048),
        "ffn": file.whole("model.transformer.ffn_hidden_size", default=8196),
        "heads": file.whole("model.transformer.num_attention_heads", default=32),
        "kv_heads": file.whole("model.transformer.num_kv_heads", default=8),
        "vocabulary": file.whole("model.transformer.vocab_size", default=32000),
    }
    sharding = {
        "tensor": file.whole("model.parallelism.tensor", default=1),
        "pipeline": file.whole("model.parallelism.pipeline", default=1),
        "zero": file.whole("model.parallelism.zero_stage", default=0),
    }
    data = file.whole("model.parallelism.data", default=-1)
    document: dict[str, Any] = {
        "title": f"{name} of DLIO",
        "source": file.where,
        "model": shape,
        "sharding": {**sharding, "data": max(1, data)},
    }
    known = _same_checkpoint(file, document, data)
    if known is not None:
        return known, {}
    if data < 1:
        file.remarks.append(
            Remark(
                file.where,
                "mpirun -n",
                "data parallelism follows from the number of MPI ranks, which is on DLIO's command "
                f"line: it is 1 until you set it in {name}.toml",
            )
        )
    path = f"{name}.toml"
    return path, {path: _profile_text(file, document)}


def _same_checkpoint(file: WorkloadFile, document: dict[str, Any], data: int) -> str | None:
    """Return the name of the shipped profile with the same checkpoint files, or None.

    Data parallelism of -1, which DLIO derives from the number of ranks, fits any value.

    Raises:
        UsageError: The shape of the model or its sharding is invalid.
    """
    try:
        own = checkpoints.make_profile(document, file.where)
        stages = document["sharding"]["tensor"] * document["sharding"]["pipeline"]
        for name in checkpoints.profile_names():
            other = checkpoints.load_profile(name)
            if data < 1 and other.ranks % stages == 0:
                sharding = document["sharding"] | {"data": other.ranks // stages}
                own = checkpoints.make_profile(document | {"sharding": sharding}, file.where)
            if own.files == other.files:
                return name
    except StudyError as error:
        raise UsageError(file.where, error.what, "correct the workload file") from error
    return None


def _remark_rest(file: WorkloadFile, meanings: dict[str, str]) -> None:
    """Add a remark on each setting that was not translated."""
    for name, setting in file.take_rest():
        meaning = next((text for key, text in meanings.items() if name.startswith(key)), None)
        file.remark(setting, meaning or _MEANINGS.get(name) or _NO_EFFECT)
