"""Import results of other tools, and export results for other tools."""
