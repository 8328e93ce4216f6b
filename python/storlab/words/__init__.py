"""Sentences that users read, one module per subject."""
