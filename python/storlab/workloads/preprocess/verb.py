"""Entry of the command ``storlab preprocess`` in the list of commands."""

from __future__ import annotations

from storlab.contracts.command import Verb

VERB = Verb(
    "storlab.workloads.preprocess.commands:preprocess",
    "Prepare your own click logs for DLRM training: Parquet, vocabularies, binary files.",
    "storlab.workloads.preprocess.standalone:PreprocessDocument",
)
