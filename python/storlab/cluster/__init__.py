"""Runs on several clients through MPI: hosts, launch, and messages between ranks.

mpi4py comes with the extra ``cluster``, and is imported only when a rank needs it.
"""
