"""Run a task on several clients through MPI: host lists, launchers, messages between ranks.

mpi4py is installed by the extra ``cluster`` and is imported only when a rank needs it.
"""
