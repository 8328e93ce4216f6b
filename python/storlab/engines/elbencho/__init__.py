"""Importer of results of elbencho."""
