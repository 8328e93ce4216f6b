"""How ``storlab lookup`` stands in the list of verbs."""

from __future__ import annotations

from storlab.contracts.command import Verb

VERB = Verb("storlab_lookup.commands:lookup", "Say how many records a file of lookups has.")
