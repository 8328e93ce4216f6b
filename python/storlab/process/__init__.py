"""Child processes that execute runs, and measurement of CPU, memory and I/O of processes."""
