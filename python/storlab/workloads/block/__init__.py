"""Block family: reads and writes of blocks, all of one size or mixed, on files and devices."""
