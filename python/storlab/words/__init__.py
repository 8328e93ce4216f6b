"""Sentences of briefs, history pages and the terminal, one module per subject."""
