"""Block family: reads, writes and trims of blocks on files and devices."""
