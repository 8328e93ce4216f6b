"""fio engine: runs block I/O with fio, and imports and exports fio's JSON."""
