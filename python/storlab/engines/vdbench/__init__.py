"""Importer of results of vdbench."""
