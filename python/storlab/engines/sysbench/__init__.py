"""Importer of results of `sysbench fileio`."""
