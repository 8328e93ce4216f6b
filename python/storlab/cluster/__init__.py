"""A run spread over clients by MPI: hosts, launch, and messages between the ranks.

Nothing here imports mpi4py before a rank asks for it: it comes with the extra ``cluster``.
"""
