"""Entry of ``storlab lookup`` in the list of commands."""

from __future__ import annotations

from storlab.contracts.command import Verb

VERB = Verb("storlab_lookup.commands:lookup", "Say how many records a file of lookups has.")
