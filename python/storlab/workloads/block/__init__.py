"""Block family: reads and writes by blocks in files and block devices."""
