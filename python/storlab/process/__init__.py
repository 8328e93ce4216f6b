"""Child processes that execute runs, and the resource use of processes and the machine."""
