"""Importer of results of IOR, the MPI benchmark of parallel file systems."""
