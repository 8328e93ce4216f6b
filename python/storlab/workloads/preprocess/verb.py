"""Entry of ``storlab preprocess`` in the list of verbs."""

from __future__ import annotations

from storlab.contracts.command import Verb

VERB = Verb(
    "storlab.workloads.preprocess.commands:preprocess",
    "Make your own click logs ready for the training of a DLRM: Parquet, vocabularies, binary.",
)
