"""Import of other tools' results and export of results for other tools."""
